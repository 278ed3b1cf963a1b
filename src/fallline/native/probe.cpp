// Measures the memory bandwidth of this machine for a number of streams.  It is written by hand as the limit that kernels
// are compared with: plain sums, several elements in flight, software prefetch at a distance that the caller chooses.

#include <cstring>

#include "engine.h"

namespace FL_NS {
namespace {

// A cache line of floats, which compilers map to the registers of the instruction set.
typedef float line __attribute__((vector_size(64)));

inline line load(const float* from) {
    line value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

// READS streams are read, the first WRITES of them written back in place.
template <int READS, int WRITES>
void sweep(float* const* streams, int64_t begin, int64_t end, int64_t ahead) {
    float* s[READS];
    for (int k = 0; k < READS; ++k) s[k] = streams[k];
    line sink = {};
    int64_t i = begin;
    for (; i + 64 <= end; i += 64) {
        if (ahead)
            for (int k = 0; k < READS; ++k)
                for (int at = 0; at < 64; at += 16) __builtin_prefetch(s[k] + i + ahead + at, k < WRITES, 3);
        for (int at = 0; at < 64; at += 16) {
            line sum = load(s[0] + i + at);
            for (int k = 1; k < READS; ++k) sum += load(s[k] + i + at);
            for (int k = 0; k < WRITES; ++k) std::memcpy(s[k] + i + at, &sum, sizeof sum);
            if (WRITES == 0) sink += sum;
        }
    }
    float rest = 0.0f;
    for (; i < end; ++i) {
        float sum = 0.0f;
        for (int k = 0; k < READS; ++k) sum += s[k][i];
        for (int k = 0; k < WRITES; ++k) s[k][i] = sum;
        rest += sum;
    }
    // The compiler would remove reads whose sum is not used.
    if (WRITES == 0)
        for (int k = 0; k < 16; ++k) {
            volatile float keep = sink[k] + rest;
            (void)keep;
        }
}

using Sweep = void (*)(float* const*, int64_t, int64_t, int64_t);

template <int READS>
Sweep with_writes(int writes) {
    switch (writes) {
        case 0: return sweep<READS, 0>;
        case 1: return sweep<READS, READS < 1 ? READS : 1>;
        case 2: return sweep<READS, READS < 2 ? READS : 2>;
        case 3: return sweep<READS, READS < 3 ? READS : 3>;
        case 4: return sweep<READS, READS < 4 ? READS : 4>;
        case 5: return sweep<READS, READS < 5 ? READS : 5>;
        default: return sweep<READS, READS < 6 ? READS : 6>;
    }
}

Sweep chosen(int reads, int writes) {
    switch (reads) {
        case 1: return with_writes<1>(writes);
        case 2: return with_writes<2>(writes);
        case 3: return with_writes<3>(writes);
        case 4: return with_writes<4>(writes);
        case 5: return with_writes<5>(writes);
        case 6: return with_writes<6>(writes);
        case 7: return with_writes<7>(writes);
        default: return with_writes<8>(writes);
    }
}

}  // namespace

extern void probe(int reads, int writes, float* const* streams, int64_t begin, int64_t end, int64_t ahead);
void probe(int reads, int writes, float* const* streams, int64_t begin, int64_t end, int64_t ahead) {
    chosen(reads, writes)(streams, begin, end, ahead);
}

}  // namespace FL_NS
