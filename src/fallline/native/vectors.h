// Vectors of floats: the functions of the rule language on them, and reductions in a fixed order.
//
// One lane computes exactly what kernel.h computes for one element, bit for bit; only multiply_add has no counterpart there.
#pragma once

#include "kernel.h"

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace fl_vec {

#if defined(__AVX512F__)
constexpr int WIDTH = 16;
#elif defined(__AVX2__)
constexpr int WIDTH = 8;
#else
constexpr int WIDTH = 4;
#endif

typedef float vf __attribute__((vector_size(4 * WIDTH)));
typedef int32_t vi __attribute__((vector_size(4 * WIDTH)));
typedef uint32_t vu __attribute__((vector_size(4 * WIDTH)));

static inline vf load(const float* p) {
    vf x;
    __builtin_memcpy(&x, p, sizeof x);
    return x;
}
static inline void store(float* p, vf x) { __builtin_memcpy(p, &x, sizeof x); }
static inline vf wide(float x) { return vf{} + x; }
static inline vf wide(vf x) { return x; }
static inline vi bits(vf x) { return (vi)x; }
static inline vf floats(vi x) { return (vf)x; }

static inline vf sqrt(vf x) {
#if defined(__AVX512F__)
    return _mm512_sqrt_ps(x);
#elif defined(__AVX2__)
    return _mm256_sqrt_ps(x);
#elif defined(__aarch64__)
    return (vf)vsqrtq_f32((float32x4_t)x);
#elif defined(__SSE2__)
    return _mm_sqrt_ps(x);
#else
    for (int i = 0; i < WIDTH; ++i) x[i] = __builtin_sqrtf(x[i]);
    return x;
#endif
}

// a · b + c, rounded once where the processor can.
static inline vf multiply_add(vf a, vf b, vf c) {
#if defined(__AVX512F__)
    return _mm512_fmadd_ps(a, b, c);
#elif defined(__FMA__)
    return _mm256_fmadd_ps(a, b, c);
#elif defined(__aarch64__)
    return (vf)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    return a * b + c;
#endif
}
template <class A, class B, class C>
static inline vf multiply_add(A a, B b, C c) { return multiply_add(wide(a), wide(b), wide(c)); }

}  // namespace fl_vec

// The functions of the rule language on vectors.
namespace fl_math {

using fl_vec::vf;
using fl_vec::vi;
using fl_vec::wide;

static inline vf sqrt(vf a) { return fl_vec::sqrt(a); }
static inline vf rsqrt(vf a) { return 1.0f / fl_vec::sqrt(a); }
static inline vf abs(vf a) { return fl_vec::floats(fl_vec::bits(a) & INT32_MAX); }
static inline vi negate(vi condition) { return condition == 0; }
static inline vf number(vi condition) { return fl_vec::floats(condition & fl_vec::bits(wide(1.0f))); }
static inline vf sign(vf a) { return number(a > 0.0f) - number(a < 0.0f); }

template <class A, class B>
static inline vf select(vi condition, A a, B b) { return condition ? wide(a) : wide(b); }
static inline vf select(bool condition, vf a, vf b) { return condition ? a : b; }
static inline vf select(bool condition, vf a, float b) { return condition ? a : wide(b); }
static inline vf select(bool condition, float a, vf b) { return condition ? wide(a) : b; }

static inline vf minimum(vf a, vf b) { return a != a ? a : a < b ? a : b; }
static inline vf minimum(vf a, float b) { return minimum(a, wide(b)); }
static inline vf minimum(float a, vf b) { return minimum(wide(a), b); }
static inline vf maximum(vf a, vf b) { return a != a ? a : a > b ? a : b; }
static inline vf maximum(vf a, float b) { return maximum(a, wide(b)); }
static inline vf maximum(float a, vf b) { return maximum(wide(a), b); }

template <class Function>
static inline vf each(vf a, Function function) {
    for (int i = 0; i < fl_vec::WIDTH; ++i) a[i] = function(a[i]);
    return a;
}
static inline vf exp(vf a) { return each(a, [](float x) { return exp(x); }); }
static inline vf log(vf a) { return each(a, [](float x) { return log(x); }); }
static inline vf tanh(vf a) { return each(a, [](float x) { return tanh(x); }); }
static inline vf pow(vf a, float b) { return each(a, [b](float x) { return pow(x, b); }); }
static inline vf pow(vf a, vf b) {
    for (int i = 0; i < fl_vec::WIDTH; ++i) a[i] = pow(a[i], b[i]);
    return a;
}
static inline vf pow(float a, vf b) { return pow(wide(a), b); }

}  // namespace fl_math

namespace fl_vec {

// Sums and maxima in a fixed order: lanes of float inside a block, double across blocks.  The number of lanes does not
// depend on the instruction set, so neither does the result.
constexpr int LANES = 16;
constexpr int64_t SUMMED = 256;  // elements of a block

// Every instruction set has its own copy, because the linker must not take one for the other.
namespace {

struct Sum {
    static constexpr float START = 0.0f;
    template <class T>
    static inline T join(T a, T b) { return a + b; }
};

struct Max {
    static constexpr float START = -HUGE_VALF;
    template <class T>
    static inline T join(T a, T b) { return fl_math::maximum(a, b); }
};

// The halves of each 2 · HALF elements, swapped.
template <int HALF>
static inline vf swapped(vf x) {
#if defined(__AVX512F__)
    return __builtin_shufflevector(x, x, 0 ^ HALF, 1 ^ HALF, 2 ^ HALF, 3 ^ HALF, 4 ^ HALF, 5 ^ HALF, 6 ^ HALF, 7 ^ HALF,
                                   8 ^ HALF, 9 ^ HALF, 10 ^ HALF, 11 ^ HALF, 12 ^ HALF, 13 ^ HALF, 14 ^ HALF, 15 ^ HALF);
#elif defined(__AVX2__)
    return __builtin_shufflevector(x, x, 0 ^ HALF, 1 ^ HALF, 2 ^ HALF, 3 ^ HALF, 4 ^ HALF, 5 ^ HALF, 6 ^ HALF, 7 ^ HALF);
#else
    return __builtin_shufflevector(x, x, 0 ^ HALF, 1 ^ HALF, 2 ^ HALF, 3 ^ HALF);
#endif
}

template <class Kind>
struct Lanes {
    static constexpr int PARTS = LANES / WIDTH;
    vf part[PARTS];

    Lanes() {
        for (vf& x : part) x = wide(Kind::START);
    }
    // Takes the values of the lanes from l on.
    inline void take(int l, vf x) { part[l / WIDTH] = Kind::join(part[l / WIDTH], x); }
    inline void take(const float (&x)[LANES]) {
        for (int l = 0; l < LANES; l += WIDTH) take(l, load(x + l));
    }
    inline double total() const {
        vf half[PARTS];
        for (int i = 0; i < PARTS; ++i) half[i] = part[i];
        for (int parts = PARTS / 2; parts > 0; parts /= 2)
            for (int i = 0; i < parts; ++i) half[i] = Kind::join(half[i], half[i + parts]);
        vf x = half[0];
        if constexpr (WIDTH > 8) x = Kind::join(x, swapped<8>(x));
        if constexpr (WIDTH > 4) x = Kind::join(x, swapped<4>(x));
        x = Kind::join(x, swapped<2>(x));
        return Kind::join(x, swapped<1>(x))[0];
    }
};

// The rest of a block after its last group of sixteen.
template <class Kind>
struct Rest {
    float lane[LANES];
    Rest() {
        for (float& x : lane) x = Kind::START;
    }
};

}  // namespace

}  // namespace fl_vec
