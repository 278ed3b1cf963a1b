// The codes of 8- and 4-bit states on vectors: decode, compute and encode a block without leaving registers and the
// L1 cache.  One lane encodes and decodes exactly as formats.h does one element, bit for bit.
//
// Vectors are written out because compilers widen bytes and narrow codes through many shuffles in a plain loop.
#pragma once

#include "vectors.h"

namespace fl_vec {

constexpr int BLOCK = 256;
constexpr int SPAN = 1024;  // the longest segment that a packed kernel takes

// Computing takes longer than the hardware's prefetchers look ahead, so request memory beyond the next segment: docs/formats.md
// has the distances that were tried.
// Requests come one at a time, between the arithmetic, because a burst would fill the queue of misses and wait.
template <class T>
static inline void fetch_ahead(const T* p) { fl_memory::fetch_ahead<1>(p, SPAN + SPAN / 2); }

// To the nearest integer, ties to even.
static inline vi rounded(vf x) {
#if defined(__AVX512F__)
    return (vi)_mm512_cvtps_epi32(x);
#elif defined(__AVX2__)
    return (vi)_mm256_cvtps_epi32(x);
#elif defined(__aarch64__)
    return (vi)vcvtnq_s32_f32((float32x4_t)x);
#elif defined(__SSE2__)
    return (vi)_mm_cvtps_epi32(x);
#else
    vi r;
    for (int i = 0; i < WIDTH; ++i) r[i] = static_cast<int32_t>(__builtin_rintf(x[i]));
    return r;
#endif
}

static inline vi larger(vi a, vi b) { return a > b ? a : b; }

// Codes are bytes, so the lower halves of their floats, and of the floats subtracted from them, are zero.
template <int32_t OFFSET>
static inline vi above(vi code) {
    static_assert((OFFSET & 0xFFFF) == 0 && OFFSET > 0);
#if defined(__AVX512BW__)
    return (vi)_mm512_subs_epu16((__m512i)code, _mm512_set1_epi32(OFFSET));
#elif defined(__AVX2__)
    return (vi)_mm256_subs_epu16((__m256i)code, _mm256_set1_epi32(OFFSET));
#else
    return (vu)code > (vu)(vi{} + OFFSET) ? code - OFFSET : vi{};
#endif
}

// -size where the sign bit of like is set, 0 where like is 0.
static inline vi signed_like(vi size, vi like) {
#if defined(__AVX2__) && !defined(__AVX512F__)
    return (vi)_mm256_sign_epi32((__m256i)size, (__m256i)like);
#else
    return like < 0 ? -size : size;
#endif
}

// WIDTH codes as numbers.
template <bool NONNEG>
static inline vf widened(const uint8_t* codes) {
#if defined(__AVX512F__)
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
    return _mm512_cvtepi32_ps(NONNEG ? _mm512_cvtepu8_epi32(bytes) : _mm512_cvtepi8_epi32(bytes));
#elif defined(__AVX2__)
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes));
    return _mm256_cvtepi32_ps(NONNEG ? _mm256_cvtepu8_epi32(bytes) : _mm256_cvtepi8_epi32(bytes));
#else
    vi wide;
    for (int i = 0; i < WIDTH; ++i) wide[i] = NONNEG ? codes[i] : static_cast<int8_t>(codes[i]);
    return __builtin_convertvector(wide, vf);
#endif
}

// Four vectors of integers in the range of the code, as bytes.
static inline void narrow(const vi (&k)[4], bool nonneg, uint8_t* codes) {
#if defined(__AVX512F__)
    (void)nonneg;
    for (int i = 0; i < 4; ++i)
        _mm_storeu_si128(reinterpret_cast<__m128i*>(codes + 16 * i), _mm512_cvtepi32_epi8((__m512i)k[i]));
#elif defined(__AVX2__)
    const __m256i low = _mm256_packs_epi32((__m256i)k[0], (__m256i)k[1]);
    const __m256i high = _mm256_packs_epi32((__m256i)k[2], (__m256i)k[3]);
    const __m256i bytes = nonneg ? _mm256_packus_epi16(low, high) : _mm256_packs_epi16(low, high);
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes), _mm256_permutevar8x32_epi32(bytes, order));
#else
    (void)nonneg;
    for (int j = 0; j < 4; ++j)
        for (int i = 0; i < WIDTH; ++i) codes[j * WIDTH + i] = static_cast<uint8_t>(k[j][i]);
#endif
}

static inline vu larger(vu a, vu b) { return a > b ? a : b; }
static inline vu smaller(vu a, vu b) { return a < b ? a : b; }
static inline uint32_t largest(vu x) {
#if defined(__AVX512F__)
    return _mm512_reduce_max_epu32((__m512i)x);
#elif defined(__AVX2__)
    __m128i half = _mm_max_epu32(_mm256_castsi256_si128((__m256i)x), _mm256_extracti128_si256((__m256i)x, 1));
    half = _mm_max_epu32(half, _mm_shuffle_epi32(half, 0x4E));
    return static_cast<uint32_t>(_mm_cvtsi128_si32(_mm_max_epu32(half, _mm_shuffle_epi32(half, 0xB1))));
#else
    uint32_t top = x[0];
    for (int i = 1; i < WIDTH; ++i) top = x[i] > top ? x[i] : top;
    return top;
#endif
}

// The same on one element.
static inline int32_t bits(float x) { return fl_math::bits<int32_t>(x); }
static inline float floats(int32_t x) { return fl_math::bits<float>(x); }
static inline float sqrt(float x) { return __builtin_sqrtf(x); }
static inline int32_t larger(int32_t a, int32_t b) { return a > b ? a : b; }
static inline uint32_t larger(uint32_t a, uint32_t b) { return a > b ? a : b; }
template <int32_t OFFSET>
static inline int32_t above(int32_t code) {
    return static_cast<uint32_t>(code) > static_cast<uint32_t>(OFFSET) ? code - OFFSET : 0;
}
static inline int32_t signed_like(int32_t size, int32_t like) { return like < 0 ? -size : size; }
static inline vu unsigned_bits(vf x) { return (vu)x; }
static inline uint32_t unsigned_bits(float x) { return fl_math::bits<uint32_t>(x); }
// 1, or 0 for a zero; x is not negative.
static inline vi is_positive(vf x) { return (vi)smaller(unsigned_bits(x), vu{} + 1); }
static inline int32_t is_positive(float x) { return bits(x) > 0; }
static inline int32_t rounded(float x) {
    // Adding 1.5 · 2²³ leaves the nearest integer, ties to even, in the low bits.
    return bits(x + 12582912.0f) - 0x4B400000;
}

// ---- The codes, which docs/formats.md describes. ----

constexpr int32_t SIGN = INT32_MIN, MAGNITUDE = INT32_MAX;
constexpr uint32_t INFINITE = 0x7F800000, LEAST_NORMAL = 0x00800000, LARGEST_SCALE = 0x7F7FFFFE;

// LEVELS is the largest code, SHIFT the logarithm of the root's degree, and OFFSET the difference between the bits of
// LEVELS and those of the pseudo-root of 1.
template <bool NONNEG, int BITS = 8>
struct Code;
template <>
struct Code<false, 8> { static constexpr int LEVELS = 127, NAN_CODE = -128, SHIFT = 1, OFFSET = 0x233E0000; };
template <>
struct Code<false, 4> { static constexpr int LEVELS = 7, NAN_CODE = -8, SHIFT = 1, OFFSET = 0x21200000; };
template <>
struct Code<true, 8> { static constexpr int LEVELS = 254, NAN_CODE = 255, SHIFT = 2, OFFSET = 0x339E0000; };
template <>
struct Code<true, 4> { static constexpr int LEVELS = 14, NAN_CODE = 15, SHIFT = 2, OFFSET = 0x31800000; };

// The share of the block's scale that a code, given as a number, stands for.
template <bool NONNEG, int BITS = 8, class F>
static inline F share_of(F code) {
    using C = Code<NONNEG, BITS>;
    if constexpr (NONNEG) return floats(above<C::OFFSET>(bits(code)) << C::SHIFT);
    // The shift by one also drops the sign.
    else return floats(above<static_cast<int32_t>(2u * C::OFFSET)>(bits(code) << 1) | (bits(code) & SIGN));
}

// The magnitude, whose largest value is the block's scale, as bits; bits of non-negative floats are ordered as floats.
template <bool NONNEG, class F>
static inline auto magnitude(F value) {
    // The nonneg kind keeps the sign bit, so that negative values and NaNs appear as the largest.
    if constexpr (NONNEG) return unsigned_bits(value);
    else return unsigned_bits(value) & static_cast<uint32_t>(MAGNITUDE);
}

// The dithers, which are added to the roots before they are rounded: all multiples of 1 / DITHERS of a level, once each.
// Zeros come before them, for blocks without dithers, and as many as a segment has elements: a loop over a block of a
// segment counts from the segment's start, and the pointer that it counts from may not leave the array.  (An offset beside
// each use took a tenth of AdamW's time.)
constexpr uint32_t DITHERS = 1024, DITHER_STEP = 633;
struct Dither {
    float at[SPAN + DITHERS + BLOCK];
    constexpr Dither() : at() {
        for (uint32_t i = 0; i < DITHERS + BLOCK; ++i)
            at[SPAN + i] = (static_cast<float>(i * DITHER_STEP % DITHERS) + 0.5f) / DITHERS - 0.5f;
    }
};
static constexpr Dither DITHER;

// The dithers of a block with this scale; the smallest scales have none, because their codes do not decode exactly.
static inline const float* dither_of(float scale) {
    const uint32_t first = scale < 0x1p-90f ? SPAN - BLOCK : SPAN + ((unsigned_bits(scale) >> 8) * 0x9E3779B9u >> 22);
    return DITHER.at + first;
}

// The code of a finite value, which for the nonneg kind is not negative; factor is 1 / scale.
template <bool NONNEG, int BITS = 8, class F>
static inline auto code_of(F value, float factor, F dither) {
    using C = Code<NONNEG, BITS>;
    const auto root = [dither](auto share) { return rounded(floats((share >> C::SHIFT) + C::OFFSET) + dither); };
    // A value above zero stays above zero: a second moment of zero would divide the next update by eps alone.
    if constexpr (NONNEG) return larger(root(bits(value * factor)), is_positive(value));
#if defined(__AVX512F__)
    // The sign joins the root before it is rounded, because rounding is symmetric: two instructions less than afterwards.
    else if constexpr (sizeof(F) > sizeof(float)) {
        const vi share = bits(value * factor);
        const vf level = floats(((share & MAGNITUDE) >> C::SHIFT) + C::OFFSET) + dither;
        return rounded(floats(bits(level) ^ (share & SIGN)));
    }
#endif
    else return signed_like(root(bits(value * factor) & MAGNITUDE), bits(value));
}

// Codes of four vectors of values that are finite and, of the nonneg kind, not negative.
constexpr int STRIDE = 4 * WIDTH;
template <bool NONNEG, int BITS = 8>
static inline void write_stride(const float* values, float factor, const float* dither, uint8_t* codes) {
    const auto code = [&](int at) { return code_of<NONNEG, BITS>(load(values + at), factor, load(dither + at)); };
    const vi k[4] = {code(0), code(WIDTH), code(2 * WIDTH), code(3 * WIDTH)};
    narrow(k, NONNEG, codes);
}

template <bool NONNEG, int BITS = 8>
static inline void write_codes(const float* values, float factor, const float* dither, int n, uint8_t* codes) {
    int i = 0;
    for (; i + STRIDE <= n; i += STRIDE) write_stride<NONNEG, BITS>(values + i, factor, dither + i, codes + i);
    for (; i < n; ++i) codes[i] = static_cast<uint8_t>(code_of<NONNEG, BITS>(values[i], factor, dither[i]));
}

// The sign of a scale says whether some code of its block means NaN, so that codes need not be searched.
static inline bool has_nan(float scale) { return bits(scale) < 0; }

// Encodes a block of zeros and subnormal values.  Rows of an embedding whose token does not occur are such blocks, in every
// step: zeros at first, and once a moment has decayed as far as float32 goes, subnormal values.
template <bool NONNEG, int BITS = 8>
static inline float encode_small(const float* values, uint32_t top, int n, uint8_t* codes) {
    if (top == 0) {
        __builtin_memset(codes, 0, static_cast<size_t>(n));
        return 0.0f;
    }
    constexpr float LIFT = 0x1p64f;  // exact, and the factor does not overflow
    alignas(64) float lifted[BLOCK];
    int i = 0;
    for (; i + WIDTH <= n; i += WIDTH) store(lifted + i, load(values + i) * LIFT);
    for (; i < n; ++i) lifted[i] = values[i] * LIFT;
    const float scale = floats(static_cast<int32_t>(top));
    write_codes<NONNEG, BITS>(lifted, 1.0f / (scale * LIFT), dither_of(scale), n, codes);
    return scale;
}

// Encodes blocks with non-finite or huge values or (of the nonneg kind) with negative ones; out of line, because they are
// rare.
template <bool NONNEG, int BITS = 8>
__attribute__((noinline, cold)) static float encode_rare(const float* values, int n, uint8_t* codes) {
    float clean[BLOCK];
    uint32_t top = 0;
    for (int i = 0; i < n; ++i) {
        const bool usable = magnitude<false>(values[i]) < INFINITE && !(NONNEG && values[i] <= 0.0f);
        clean[i] = usable ? values[i] : 0.0f;
        top = larger(top, magnitude<NONNEG>(clean[i]));
    }
    float scale = floats(static_cast<int32_t>(top < LARGEST_SCALE ? top : LARGEST_SCALE));
    if (top < LEAST_NORMAL) scale = encode_small<NONNEG, BITS>(clean, top, n, codes);
    else write_codes<NONNEG, BITS>(clean, 1.0f / scale, dither_of(scale), n, codes);
    bool marked = false;
    for (int i = 0; i < n; ++i)
        if (magnitude<false>(values[i]) >= INFINITE) {
            codes[i] = static_cast<uint8_t>(Code<NONNEG, BITS>::NAN_CODE);
            marked = true;
        }
    return marked ? -scale : scale;
}

// Whether a block with this largest magnitude, as bits, needs no special treatment.
static inline bool is_ordinary(uint32_t top) { return top >= LEAST_NORMAL && top <= LARGEST_SCALE; }

// Encodes a block whose largest magnitude is known, as bits; returns its scale.
template <bool NONNEG, int BITS = 8>
static inline float encode(const float* values, uint32_t top, uint8_t* codes, int n = BLOCK) {
    if (is_ordinary(top)) {
        const float scale = floats(static_cast<int32_t>(top));
        write_codes<NONNEG, BITS>(values, 1.0f / scale, dither_of(scale), n, codes);
        return scale;
    }
    if (top < LEAST_NORMAL) return encode_small<NONNEG, BITS>(values, top, n, codes);
    return encode_rare<NONNEG, BITS>(values, n, codes);
}

}  // namespace fl_vec
