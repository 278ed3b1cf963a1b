// The parts of a generated kernel: its interface to the engine, and the functions of the rule language.
//
// A kernel is one loop over a segment of consecutive elements, all in float32; the engine stages operands of
// other formats or layouts through small float32 buffers that stay in the L1 cache.  Only IEEE operations are
// used and contraction to fused multiply-add is off, so that a vector lane and a scalar tail, and every
// instruction set, give the same bits.  Rules that are compiled at run time include this file, too.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

struct fl_segment {
    int64_t n;
    int64_t ahead;             // distance of prefetches in a pass that writes, in elements; 0: none
    float* const* io;          // full-size operands at the segment's first element
    const float* s;            // [0] factor of the gradient, then the scalars of the program
    const float* const* col;   // values per column, at the segment's first column
    double* out;               // reductions to one value per segment; the kernel accumulates
    float* const* col_out;     // reductions per column; the kernel accumulates
    // Only for kernels on 8-bit states, whose segments are whole blocks; by operand, null for one without codes.
    uint8_t* const* codes;
    float* const* scales;
    float* const* values;      // room for the new states, or null, also the array: nobody needs them
};

// Between passes: scalars and small arrays of one parameter.
struct fl_small {
    int64_t batch, rows, cols;
    const double* host;        // scalars of the host
    double* scalar;            // values per parameter, by slot
    float* const* vec;         // values per row, column or batch, by slot
    float* const* state;       // reduced states
    int64_t round;             // the round to run, if the stage reduces small arrays, which may be pieces; or FL_EVERY_ROUND
};

constexpr int FL_EVERY_ROUND = -1;

// Whether a stage that is run now includes this round.
static inline bool fl_in_round(const fl_small* q, int64_t round) {
    return q->round == FL_EVERY_ROUND || q->round == round;
}

using fl_kernel = void (*)(const fl_segment*);
using fl_stage = void (*)(const fl_small*);

namespace fl_memory {

// The distance, in elements, of prefetches in passes that read, and in passes that write where instruction_sets.cpp
// says that they pay.
constexpr int64_t AHEAD = 512;
constexpr int64_t LINE = 64;   // bytes of a cache line
constexpr int64_t STRIP = 64;  // elements between two bursts of requests; larger bursts would fill the queue of misses

// Requests the cache lines of COUNT elements at that distance; beyond the end of an array this does no harm.  The address
// is computed as a number, because a pointer may not leave its array.
template <int64_t COUNT, class T>
static inline void fetch_ahead(const T* p, int64_t distance) {
    constexpr int64_t size = static_cast<int64_t>(sizeof(T)), step = LINE / size;
    const uintptr_t from = reinterpret_cast<uintptr_t>(p) + static_cast<uintptr_t>(distance * size);
#pragma GCC unroll 8
    for (int64_t i = 0; i < COUNT; i += step)
        __builtin_prefetch(reinterpret_cast<const void*>(from + static_cast<uintptr_t>(i * size)), 0, 3);
}

}  // namespace fl_memory

namespace fl_math {

// Two selections, because compilers vectorise them, while they would branch on a compound condition.
template <class T>
static inline T minimum_of(T a, T b) {
    const T least = a < b ? a : b;
    return a != a ? a : least;
}
template <class T>
static inline T maximum_of(T a, T b) {
    const T largest = a > b ? a : b;
    return a != a ? a : largest;
}
static inline float minimum(float a, float b) { return minimum_of(a, b); }
static inline float maximum(float a, float b) { return maximum_of(a, b); }
static inline double minimum(double a, double b) { return minimum_of(a, b); }
static inline double maximum(double a, double b) { return maximum_of(a, b); }
static inline float sign(float a) { return static_cast<float>(a > 0.0f) - static_cast<float>(a < 0.0f); }
static inline float sqrt(float a) { return __builtin_sqrtf(a); }
static inline float rsqrt(float a) { return 1.0f / __builtin_sqrtf(a); }
static inline float abs(float a) { return __builtin_fabsf(a); }

static inline double sign(double a) { return static_cast<double>(a > 0.0) - static_cast<double>(a < 0.0); }
static inline double sqrt(double a) { return __builtin_sqrt(a); }
static inline double rsqrt(double a) { return 1.0 / __builtin_sqrt(a); }
static inline double abs(double a) { return __builtin_fabs(a); }
static inline double exp(double a) { return std::exp(a); }
static inline double log(double a) { return std::log(a); }
static inline double tanh(double a) { return std::tanh(a); }
static inline double pow(double a, double b) { return std::pow(a, b); }

static inline float select(bool condition, float a, float b) { return condition ? a : b; }
static inline double select(bool condition, double a, double b) { return condition ? a : b; }
static inline bool negate(bool condition) { return !condition; }
static inline double select(bool condition, double a, float b) { return condition ? a : b; }
static inline double select(bool condition, float a, double b) { return condition ? a : b; }
static inline float number(bool condition) { return condition ? 1.0f : 0.0f; }

template <class To, class From>
static inline To bits(From value) {
    static_assert(sizeof(To) == sizeof(From), "same size");
    To result;
    __builtin_memcpy(&result, &value, sizeof(To));
    return result;
}

// exp and log in double with branch-free polynomials, so that float32 results are correctly rounded except for
// rare ties, and loops over them vectorise (the C library's functions would be called element by element).
static inline double exp_poly(double x) {
    const double clamped = x < -745.0 ? -745.0 : (x > 709.0 ? 709.0 : x);
    const double shift = 0x1.8p52;
    const double k = (clamped * 0x1.71547652b82fep0 + shift) - shift;
    const double r = (clamped - k * 0x1.62e42fefa3800p-1) - k * 0x1.ef35793c76730p-45;
    double p = 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    // Scaling takes two factors, so that it neither overflows nor becomes subnormal too early.
    const int64_t ki = bits<int64_t>(k + shift) - bits<int64_t>(shift);
    const int64_t half = ki >> 1;
    const double a = bits<double>((half + 1023) << 52), b = bits<double>((ki - half + 1023) << 52);
    const double y = p * a * b;
    return x != x ? x : (x > 709.782712893384 ? HUGE_VAL : (x < -745.2 ? 0.0 : y));
}

static inline double log_poly(double x) {
    // Subnormal doubles do not occur: the argument was a float.
    const int64_t i = bits<int64_t>(x);
    const int64_t e = (i - 0x3fe6a09e667f3bcdLL) >> 52;
    const double m = bits<double>(i - e * (int64_t{1} << 52));  // e may be negative, and a negative number must not be shifted
    const double f = (m - 1.0) / (m + 1.0), z = f * f;
    double p = 1.0 / 21.0;
    p = p * z + 1.0 / 19.0;
    p = p * z + 1.0 / 17.0;
    p = p * z + 1.0 / 15.0;
    p = p * z + 1.0 / 13.0;
    p = p * z + 1.0 / 11.0;
    p = p * z + 1.0 / 9.0;
    p = p * z + 1.0 / 7.0;
    p = p * z + 1.0 / 5.0;
    p = p * z + 1.0 / 3.0;
    p = p * z + 1.0;
    const double magic = 0x1.8p52;
    const double ed = bits<double>(e + bits<int64_t>(magic)) - magic;
    const double y = 2.0 * f * p + ed * 0x1.62e42fefa39efp-1;
    return x != x ? x : (x < 0.0 ? NAN : (x == 0.0 ? -HUGE_VAL : (x > 1.7976931348623157e308 ? x : y)));
}

static inline float exp(float x) { return static_cast<float>(exp_poly(x)); }
static inline float log(float x) { return static_cast<float>(log_poly(x)); }

static inline float tanh(float x) {
    const double a = __builtin_fabs(static_cast<double>(x));
    const double e = exp_poly(-2.0 * a);
    const double big = (1.0 - e) / (1.0 + e);
    // Near zero 1 − e cancels; the series to a⁹ is exact to float32 below 1/8.
    const double z = a * a;
    const double tiny = a * (1.0 + z * (-1.0 / 3.0 + z * (2.0 / 15.0 + z * (-17.0 / 315.0 + z * (62.0 / 2835.0)))));
    const double y = a < 0.125 ? tiny : big;
    return static_cast<float>(x != x ? static_cast<double>(x) : __builtin_copysign(y, static_cast<double>(x)));
}

static inline float pow(float x, float y) {
    const double xd = x, yd = y;
    const double magnitude = exp_poly(yd * log_poly(__builtin_fabs(xd)));
    const double nearest = (yd + 0x1.8p52) - 0x1.8p52;
    const bool whole = (nearest == yd) | (__builtin_fabs(yd) > 0x1p51);
    const double half = yd * 0.5;
    const bool odd = whole & (((half + 0x1.8p52) - 0x1.8p52) != half) & (__builtin_fabs(yd) < 0x1p24);
    const double broken = xd == -HUGE_VAL ? magnitude : static_cast<double>(NAN);
    double r = x < 0.0f ? (whole ? (odd ? -magnitude : magnitude) : broken) : magnitude;
    const double sign = odd ? __builtin_copysign(1.0, xd) : 1.0;
    r = (xd == 0.0) & (yd < 0.0) ? sign * HUGE_VAL : r;
    r = (xd == 0.0) & (yd > 0.0) ? sign * 0.0 : r;
    const bool one = (yd == 0.0) | (xd == 1.0) | ((xd == -1.0) & (__builtin_fabs(yd) == HUGE_VAL));
    return static_cast<float>(one ? 1.0 : r);
}

}  // namespace fl_math

// A compiled program: stage k runs before pass k; the last pass writes.
constexpr int FL_MAX_PASSES = 6;
// The table of shard N of the library, one per instruction set.
#define FL_JOIN3(a, b, c) a##b##_##c
#define FL_SHARD_NAME(isa, n) FL_JOIN3(fl_shard_, isa, n)
#define FL_SHARD(n) FL_SHARD_NAME(FL_ISA, n)

struct fl_entry {
    const char* name;
    uint64_t layout;   // FL_KERNEL_LAYOUT of the sources that it was compiled with
    fl_stage stages[FL_MAX_PASSES];
    fl_kernel passes[FL_MAX_PASSES];
    fl_kernel packed;  // the last pass with 8-bit states, or null
};

// The offsets of the members of the structs between the engine and a kernel, as one number.
constexpr uint64_t fl_folded() { return 0; }
template <class... Rest>
constexpr uint64_t fl_folded(uint64_t first, Rest... rest) {
    return (fl_folded(rest...) * 1099511628211u) ^ (first + 1);
}
constexpr uint64_t FL_KERNEL_LAYOUT = fl_folded(
    sizeof(fl_segment), offsetof(fl_segment, n), offsetof(fl_segment, ahead), offsetof(fl_segment, io),
    offsetof(fl_segment, s), offsetof(fl_segment, col), offsetof(fl_segment, out), offsetof(fl_segment, col_out),
    offsetof(fl_segment, codes), offsetof(fl_segment, scales), offsetof(fl_segment, values),
    sizeof(fl_small), offsetof(fl_small, batch), offsetof(fl_small, rows), offsetof(fl_small, cols),
    offsetof(fl_small, host), offsetof(fl_small, scalar), offsetof(fl_small, vec), offsetof(fl_small, state),
    offsetof(fl_small, round),
    sizeof(fl_entry), offsetof(fl_entry, name), offsetof(fl_entry, layout), offsetof(fl_entry, stages),
    offsetof(fl_entry, passes), offsetof(fl_entry, packed));
