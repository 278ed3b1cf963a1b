// Storage formats of states and parameters: the native twin of fallline/formats, equal to it bit for bit.
//
// docs/formats.md describes the formats and their reasons; this file computes them fast. Every element is
// computed with IEEE operations on float and with 32-bit integers, in a fixed order, so every instruction set
// gives the same bits. That needs -ffp-contract=off (GCC contracts by default) and no -ffast-math, the default
// rounding mode, and subnormals that are not flushed.
//
// The header is compiled once per instruction set, each time with another namespace FL_NS: under one common
// name the linker would merge the copies, and the baseline could end up running AVX-512 code.

#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "packed.h"

#ifdef __F16C__
#include <immintrin.h>
#endif

#ifndef FL_NS
#define FL_NS fl
#endif

// Inlining is forced, so that a count that is constant at the call is constant in the loop, too: no remainder loops.
#if defined(__GNUC__) || defined(__clang__)
#define FL_INLINE inline __attribute__((always_inline))
#else
#define FL_INLINE inline
#endif

namespace FL_NS {

enum Format : int { F32 = 0, BF16 = 1, F16 = 2, I8_SIGNED = 3, I8_NONNEG = 4, I4_SIGNED = 5, I4_NONNEG = 6 };

constexpr int I8_BLOCK = 256;
constexpr int I4_BLOCK = 128;

static FL_INLINE uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

static FL_INLINE float float_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

constexpr uint32_t MAGNITUDE = 0x7FFFFFFFu;
constexpr uint32_t INF_BITS = 0x7F800000u;
constexpr uint32_t NAN_BITS = 0x7FC00000u;

// ---- Low-bit blocks. One code per byte here; int4 is packed and unpacked around these functions. ----

// Decodes n elements of one block. Codes are bytes; for the signed kind they are in two's complement.
template <int BITS, bool NONNEG>
static FL_INLINE void decode_block(const uint8_t* __restrict codes, float scale, int n,
                                   float* __restrict out) {
  const float unit = std::fabs(scale);
  int i = 0;
  for (; i + fl_vec::WIDTH <= n; i += fl_vec::WIDTH)
    fl_vec::store(out + i, fl_vec::share_of<NONNEG, BITS>(fl_vec::widened<NONNEG>(codes + i)) * unit);
  for (; i < n; ++i) {
    const int code = NONNEG ? codes[i] : static_cast<int8_t>(codes[i]);
    out[i] = fl_vec::share_of<NONNEG, BITS>(static_cast<float>(code)) * unit;
  }
  if (!fl_vec::has_nan(scale)) return;
  constexpr uint8_t NAN_CODE = static_cast<uint8_t>(fl_vec::Code<NONNEG, BITS>::NAN_CODE);
  for (i = 0; i < n; ++i) out[i] = codes[i] == NAN_CODE ? float_of(NAN_BITS) : out[i];
}

// Encodes the n elements of one block; returns its scale.
template <int BITS, bool NONNEG>
static FL_INLINE float encode_block(const float* __restrict in, int n, uint8_t* __restrict codes) {
  fl_vec::vu tops[4] = {};  // four, since one chain of maxima is bound by its latency
  int i = 0;
  for (; i + 4 * fl_vec::WIDTH <= n; i += 4 * fl_vec::WIDTH)
    for (int k = 0; k < 4; ++k)
      tops[k] = fl_vec::larger(tops[k], fl_vec::magnitude<NONNEG>(fl_vec::load(in + i + k * fl_vec::WIDTH)));
  uint32_t top = fl_vec::largest(fl_vec::larger(fl_vec::larger(tops[0], tops[1]), fl_vec::larger(tops[2], tops[3])));
  for (; i < n; ++i) top = fl_vec::larger(top, fl_vec::magnitude<NONNEG>(in[i]));
  return fl_vec::encode<NONNEG, BITS>(in, top, codes, n);
}

// The number of the n elements from start on that lie in the block of the first one.
static FL_INLINE int count_in_block(int64_t start, int64_t n, int block) {
  const int64_t rest = block - start % block;
  return static_cast<int>(n < rest ? n : rest);
}

// Blocks follow the whole parameter: `skew` is the position of a piece's first element in them, 0 for a whole one.  Codes
// and scales begin with the piece, whose elements are [start, start + n).

// ---- int8. ----

template <bool NONNEG>
static inline void load_i8(const uint8_t* codes, const float* scale, int64_t start, int64_t n, int64_t skew, float* out) {
  while (n > 0) {
    const int64_t at = start + skew;
    const int count = count_in_block(at, n, I8_BLOCK);
    const float block_scale = scale[at / I8_BLOCK - skew / I8_BLOCK];
    if (count == I8_BLOCK) decode_block<8, NONNEG>(codes + start, block_scale, I8_BLOCK, out);
    else decode_block<8, NONNEG>(codes + start, block_scale, count, out);
    start += count, n -= count, out += count;
  }
}

template <bool NONNEG>
static inline void store_i8(uint8_t* codes, float* scale, int64_t start, int64_t n, int64_t skew, const float* in) {
  while (n > 0) {
    const int64_t at = start + skew;
    const int count = count_in_block(at, n, I8_BLOCK);
    float& block_scale = scale[at / I8_BLOCK - skew / I8_BLOCK];
    if (count == I8_BLOCK) block_scale = encode_block<8, NONNEG>(in, I8_BLOCK, codes + start);
    else block_scale = encode_block<8, NONNEG>(in, count, codes + start);
    start += count, n -= count, in += count;
  }
}

// ---- int4: two codes per byte, the first one in the low half. ----

// Bytes of codes from `pairs` bytes of packed ones.
template <bool NONNEG>
static FL_INLINE void unpack(const uint8_t* __restrict packed, int pairs, uint8_t* __restrict codes) {
  constexpr int FLIP = NONNEG ? 0 : 8;  // (nibble ^ 8) - 8 extends the sign
#pragma omp simd
  for (int i = 0; i < pairs; ++i) {
    codes[2 * i] = static_cast<uint8_t>(((packed[i] & 15) ^ FLIP) - FLIP);
    codes[2 * i + 1] = static_cast<uint8_t>(((packed[i] >> 4) ^ FLIP) - FLIP);
  }
}

static FL_INLINE void pack(const uint8_t* __restrict codes, int pairs, uint8_t* __restrict packed) {
#pragma omp simd
  for (int i = 0; i < pairs; ++i)
    packed[i] = static_cast<uint8_t>((codes[2 * i] & 15) | (codes[2 * i + 1] << 4));
}

template <bool NONNEG>
static inline void load_i4(const uint8_t* packed, const float* scale, int64_t start, int64_t n, int64_t skew, float* out) {
  uint8_t codes[I4_BLOCK];
  while (n > 0) {
    const int64_t at = start + skew;
    const int count = count_in_block(at, n, I4_BLOCK), odd = static_cast<int>(at & 1);
    const float block_scale = scale[at / I4_BLOCK - skew / I4_BLOCK];
    const uint8_t* from = packed + (at / 2 - skew / 2);
    if (count == I4_BLOCK) {
      unpack<NONNEG>(from, I4_BLOCK / 2, codes);
      decode_block<4, NONNEG>(codes, block_scale, I4_BLOCK, out);
    } else {
      const int pairs = (odd + count + 1) / 2;  // at most 64; without this bound GCC warns of an overflow
      unpack<NONNEG>(from, pairs < I4_BLOCK / 2 ? pairs : I4_BLOCK / 2, codes);
      decode_block<4, NONNEG>(codes + odd, block_scale, count, out);
    }
    start += count, n -= count, out += count;
  }
}

template <bool NONNEG>
static inline void store_i4(uint8_t* packed, float* scale, int64_t start, int64_t n, int64_t skew, const float* in) {
  uint8_t codes[I4_BLOCK + 1];
  while (n > 0) {
    const int64_t at = start + skew;
    const int count = count_in_block(at, n, I4_BLOCK), odd = static_cast<int>(at & 1);
    float& block_scale = scale[at / I4_BLOCK - skew / I4_BLOCK];
    uint8_t* to = packed + (at / 2 - skew / 2);
    if (count == I4_BLOCK) {
      block_scale = encode_block<4, NONNEG>(in, I4_BLOCK, codes);
      pack(codes, I4_BLOCK / 2, to);
    } else {
      // Halves of bytes that belong to no element of the piece are 0.
      std::memset(codes, 0, sizeof codes);
      block_scale = encode_block<4, NONNEG>(in, count, codes + odd);
      pack(codes, (odd + count + 1) / 2, to);
    }
    start += count, n -= count, in += count;
  }
}

// ---- 16-bit floats, to nearest even. ----

// NaN keeps its sign and the upper part of its payload, made quiet.
static FL_INLINE uint16_t bf16_nearest(float value) {
  const uint32_t bits = bits_of(value);
  const uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<uint16_t>((bits & MAGNITUDE) > INF_BITS ? (bits >> 16) | 0x40u : rounded);
}

static FL_INLINE float bf16_value(uint16_t half) { return float_of(static_cast<uint32_t>(half) << 16); }

constexpr uint32_t F16_REBIAS = 112u << 23;         // from the exponent bias 15 to 127
constexpr uint32_t F16_LEAST_NORMAL = 0x38800000u;  // 2^-14
constexpr uint32_t F16_LARGEST = 0x477FE000u;       // 65504
constexpr uint32_t F16_TO_INFINITY = 0x477FF000u;   // 65520, the midpoint to the value that would come next

static FL_INLINE uint16_t f16_nearest(float value) {
  const uint32_t bits = bits_of(value), magnitude = bits & MAGNITUDE;
  const uint32_t normal = (magnitude - F16_REBIAS + 0xFFFu + ((magnitude >> 13) & 1u)) >> 13;
  // The spacing of floats at 0.5 is that of subnormal halves: the addition itself rounds.
  const uint32_t subnormal = bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
  const uint32_t finite = magnitude < F16_LEAST_NORMAL ? subnormal : normal;
  const uint32_t number = magnitude < F16_TO_INFINITY ? finite : 0x7C00u;
  const uint32_t half = magnitude > INF_BITS ? 0x7E00u | ((magnitude >> 13) & 0x3FFu) : number;
  return static_cast<uint16_t>(half | (bits >> 31 << 15));
}

static FL_INLINE float f16_value(uint16_t half) {
  const uint32_t magnitude = static_cast<uint32_t>(half & 0x7FFF) << 13;
  // A subnormal half with the exponent field of 2^-14 put on is 2^-14 plus its value.
  const uint32_t subnormal = bits_of(float_of(magnitude + F16_LEAST_NORMAL) - float_of(F16_LEAST_NORMAL));
  const uint32_t finite = magnitude < (0x400u << 13) ? subnormal : magnitude + F16_REBIAS;
  const uint32_t special = magnitude > (0x7C00u << 13) ? magnitude | NAN_BITS : INF_BITS;
  const uint32_t number = magnitude < (0x7C00u << 13) ? finite : special;
  return float_of(number | static_cast<uint32_t>(half >> 15) << 31);
}

// ---- 16-bit floats, stochastic. ----

static FL_INLINE uint32_t mix32(uint32_t x) {  // "lowbias32" by Chris Wellons
  x = (x ^ (x >> 16)) * 0x7FEB352Du;
  x = (x ^ (x >> 15)) * 0x846CA68Bu;
  return x ^ (x >> 16);
}

static FL_INLINE uint64_t mix64(uint64_t x) {  // the finaliser of splitmix64
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

constexpr uint64_t GOLDEN64 = 0x9E3779B97F4A7C15u;
constexpr uint32_t GOLDEN32 = 0x9E3779B9u;

// Elements are served in groups of 256: one hash gives 16 bits to element j and 16 bits to element j + 128,
// which halves the hashing without any shuffling.
constexpr int GROUP = 256;

static FL_INLINE void random_bits(uint64_t key, int64_t group, uint32_t* __restrict random) {
  const uint64_t first = static_cast<uint64_t>(group) * (GROUP / 2);
  const uint32_t low = static_cast<uint32_t>(first), key_low = static_cast<uint32_t>(key);
  const uint32_t high = static_cast<uint32_t>(key >> 32) ^ (static_cast<uint32_t>(first >> 32) * GOLDEN32);
#pragma omp simd
  for (int j = 0; j < GROUP / 2; ++j) {
    const uint32_t hash = mix32(mix32((low + static_cast<uint32_t>(j)) ^ key_low) ^ high);
    random[j] = hash & 0xFFFFu;
    random[j + GROUP / 2] = hash >> 16;
  }
}

constexpr uint32_t BF16_LARGEST = 0x7F7F0000u;

// For magnitudes up to the largest finite bfloat16.
static FL_INLINE uint16_t bf16_stochastic(float value, uint32_t random) {
  return static_cast<uint16_t>((bits_of(value) + random) >> 16);
}

// For magnitudes up to the largest finite half.
static FL_INLINE uint16_t f16_stochastic(float value, uint32_t random) {
  const uint32_t bits = bits_of(value), magnitude = bits & MAGNITUDE;
  const uint32_t normal = (magnitude - F16_REBIAS + (random >> 3)) >> 13;
  // 16 bits below the spacing 2^-24 of subnormal halves; 0 for the others, a conversion must not overflow.
  const float small = magnitude < F16_LEAST_NORMAL ? float_of(magnitude) : 0.0f;
  const uint32_t subnormal = (static_cast<uint32_t>(static_cast<int32_t>(small * 0x1p40f)) + random) >> 16;
  return static_cast<uint16_t>((magnitude < F16_LEAST_NORMAL ? subnormal : normal) | (bits >> 31 << 15));
}

template <bool BRAIN>
static FL_INLINE void round_group(const float* __restrict in, const uint32_t* __restrict random, int n,
                                  uint16_t* __restrict out) {
  int32_t top = 0;
#pragma omp simd reduction(max : top)
  for (int i = 0; i < n; ++i) {
    const int32_t magnitude = static_cast<int32_t>(bits_of(in[i]) & MAGNITUDE);
    top = magnitude > top ? magnitude : top;
    out[i] = BRAIN ? bf16_stochastic(in[i], random[i]) : f16_stochastic(in[i], random[i]);
  }
  // Values beyond the largest finite number, which are rare, are rounded to nearest, never to infinity by chance.
  const uint32_t largest = BRAIN ? BF16_LARGEST : F16_LARGEST;
  if (static_cast<uint32_t>(top) > largest)
    for (int i = 0; i < n; ++i)
      if ((bits_of(in[i]) & MAGNITUDE) > largest) out[i] = BRAIN ? bf16_nearest(in[i]) : f16_nearest(in[i]);
}

// `index` is the index of the first element in the whole parameter: random bits belong to elements, not to memory.
template <bool BRAIN>
static inline void store_stochastic(uint16_t* data, int64_t index, int64_t n, const float* in, uint64_t key) {
  uint32_t random[GROUP];
  while (n > 0) {
    const int count = count_in_block(index, n, GROUP), first = static_cast<int>(index % GROUP);
    random_bits(key, index / GROUP, random);
    if (count == GROUP) round_group<BRAIN>(in, random, GROUP, data);
    else round_group<BRAIN>(in, random + first, count, data);
    index += count, n -= count, in += count, data += count;
  }
}

template <bool BRAIN>
static inline void store_nearest(uint16_t* __restrict data, int64_t n, const float* __restrict in) {
#ifdef __F16C__
  const int64_t vectors = BRAIN ? 0 : n / 8 * 8;
  for (int64_t i = 0; i < vectors; i += 8) {
    const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(data + i), halves);
  }
#else
  const int64_t vectors = 0;
#endif
  for (int64_t i = vectors; i < n; ++i) data[i] = BRAIN ? bf16_nearest(in[i]) : f16_nearest(in[i]);
}

template <bool BRAIN>
static inline void load_half(const uint16_t* __restrict data, int64_t n, float* __restrict out) {
#ifdef __F16C__
  const int64_t vectors = BRAIN ? 0 : n / 8 * 8;
  for (int64_t i = 0; i < vectors; i += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(data + i));
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(halves));
  }
#else
  const int64_t vectors = 0;
#endif
  for (int64_t i = vectors; i < n; ++i) out[i] = BRAIN ? bf16_value(data[i]) : f16_value(data[i]);
}

// ---- Any format. ----

// Reads elements [start, start + n) of a flat piece. Only low-bit formats use scale and skew.
static inline void load(Format format, const void* data, const float* scale, int64_t start, int64_t n, int64_t skew,
                        float* out) {
  const float* floats = static_cast<const float*>(data);
  const uint8_t* bytes = static_cast<const uint8_t*>(data);
  const uint16_t* halves = static_cast<const uint16_t*>(data);
  switch (format) {
    case F32: std::memcpy(out, floats + start, static_cast<size_t>(n) * sizeof(float)); break;
    case BF16: load_half<true>(halves + start, n, out); break;
    case F16: load_half<false>(halves + start, n, out); break;
    case I8_SIGNED: load_i8<false>(bytes, scale, start, n, skew, out); break;
    case I8_NONNEG: load_i8<true>(bytes, scale, start, n, skew, out); break;
    case I4_SIGNED: load_i4<false>(bytes, scale, start, n, skew, out); break;
    case I4_NONNEG: load_i4<true>(bytes, scale, start, n, skew, out); break;
  }
}

// How 16-bit formats round at random: by a key, and the index of a piece's first element in the whole parameter.
struct Random {
  bool used;
  uint64_t key;
  int64_t first;
};

// Writes elements [start, start + n); no other task writes to the low-bit blocks that they touch.
static inline void store(Format format, void* data, float* scale, int64_t start, int64_t n, int64_t skew, const float* in,
                         Random random) {
  float* floats = static_cast<float*>(data);
  uint8_t* bytes = static_cast<uint8_t*>(data);
  uint16_t* halves = static_cast<uint16_t*>(data) + start;
  switch (format) {
    case F32: std::memcpy(floats + start, in, static_cast<size_t>(n) * sizeof(float)); break;
    case BF16:
      if (random.used) store_stochastic<true>(halves, random.first + start, n, in, random.key);
      else store_nearest<true>(halves, n, in);
      break;
    case F16:
      if (random.used) store_stochastic<false>(halves, random.first + start, n, in, random.key);
      else store_nearest<false>(halves, n, in);
      break;
    case I8_SIGNED: store_i8<false>(bytes, scale, start, n, skew, in); break;
    case I8_NONNEG: store_i8<true>(bytes, scale, start, n, skew, in); break;
    case I4_SIGNED: store_i4<false>(bytes, scale, start, n, skew, in); break;
    case I4_NONNEG: store_i4<true>(bytes, scale, start, n, skew, in); break;
  }
}

}  // namespace FL_NS
