// Runs work on several threads.
//
// The threads are OpenMP's.  Loaded after torch, this library shares torch's pool, so that the two do not compete for cores.
#pragma once

#include <pthread.h>

#include <cstdint>

#ifdef _OPENMP
#include <omp.h>
#endif
#ifdef __x86_64__
#include <xmmintrin.h>
#endif

namespace fl_threads {

// Below this number of elements, waking a second thread costs more than it saves.
constexpr int64_t SERIAL_BELOW = 32768;

// OpenMP's threads do not survive fork(), and a parallel region in the child would wait for them forever.
inline bool forked = false;
inline const int watches_forks = pthread_atfork(nullptr, nullptr, [] { forked = true; });

// The rounding mode of a thread, and whether it flushes subnormal numbers; torch.set_flush_denormal() sets this for its
// caller only.
class FloatingPointMode {
  public:
#ifdef __x86_64__
    FloatingPointMode() : mode_(_mm_getcsr()) {}
    void apply() const { _mm_setcsr(mode_); }

  private:
    unsigned mode_;
#else
    void apply() const {}
#endif
};

template <class Work>
void in_threads(int threads, int64_t elements, Work work) {
#ifdef _OPENMP
    if (threads > 1 && !forked && elements >= SERIAL_BELOW) {
        const FloatingPointMode callers;
#pragma omp parallel num_threads(threads)
        {
            // Results must have the same bits whichever thread takes a task.
            const FloatingPointMode own;
            callers.apply();
            work(omp_get_thread_num());
            own.apply();
        }
        return;
    }
#endif
    (void)threads;
    (void)elements;
    work(0);
}

}  // namespace fl_threads
