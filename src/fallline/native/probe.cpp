// The memory bandwidth of this machine for so many streams, written by hand to be the limit that kernels are
// measured against: plain sums, several elements in flight, software prefetch at a distance the caller chooses.

#define FL_NAME_(isa) fl_##isa
#define FL_NAME(isa) FL_NAME_(isa)
#define FL_NS FL_NAME(FL_ISA)

#include "engine.h"

namespace FL_NS {
namespace {

// READS streams are read, the first WRITES of them written back in place.
template <int READS, int WRITES>
void sweep(float* const* streams, int64_t begin, int64_t end, int64_t ahead) {
    float* __restrict s[READS];
    for (int k = 0; k < READS; ++k) s[k] = streams[k];
    float sink = 0.0f;
    for (int64_t i = begin; i < end; i += 64) {
        const int64_t n = end - i < 64 ? end - i : 64;
        if (ahead)
            for (int k = 0; k < READS; ++k)
                for (int line = 0; line < 4; ++line) __builtin_prefetch(s[k] + i + ahead + 16 * line, k < WRITES, 3);
        float sum[64];
#pragma omp simd
        for (int64_t j = 0; j < n; ++j) {
            float total = 0.0f;
            for (int k = 0; k < READS; ++k) total += s[k][i + j];
            sum[j] = total;
        }
        for (int k = 0; k < WRITES; ++k) {
#pragma omp simd
            for (int64_t j = 0; j < n; ++j) s[k][i + j] = sum[j];
        }
        if (WRITES == 0) sink += sum[0];
    }
    if (WRITES == 0) {
        volatile float keep = sink;
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
