// The C interface: picks the instruction set, runs passes over threads, combines reductions.
//
// Threads are OpenMP's: loaded after torch, this library shares torch's pool, so the two never fight for
// cores.  Tasks are cut by element count, never by thread, so results do not depend on their number.

#include <pthread.h>

#include <algorithm>
#include <cstring>

#include "engine.h"
#include "tasks.h"

#ifdef _OPENMP
#include <omp.h>
#endif
#ifdef __x86_64__
#include <cpuid.h>
#include <xmmintrin.h>
#endif

#define FL_API extern "C" __attribute__((visibility("default")))

namespace fl_baseline { extern const fl_backend backend; }
#ifdef FL_HAVE_avx2
namespace fl_avx2 { extern const fl_backend backend; }
#endif
#ifdef FL_HAVE_avx512
namespace fl_avx512 { extern const fl_backend backend; }
#endif

namespace {

// Below this many elements waking a second thread costs more than it saves.
constexpr int64_t SERIAL_BELOW = 32768;

// Elements, per thread, that all passes of a reducing rule visit before the next ones are begun: what the first pass has
// read, the last may still find in the cache that the cores share.  Fewer would leave threads without a tile.
constexpr int64_t PART = 262144;

// Everything that CMakeLists.txt lets the compiler use: a virtual machine may hide any one of them.
#ifdef FL_HAVE_avx2
bool has_avx2() {
    unsigned a, b, c, d;
    const bool f16c = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
    return f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
}
#endif
#ifdef FL_HAVE_avx512
bool has_avx512() {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

const fl_backend* backend_named(const char* name) {
    if (std::strcmp(name, "baseline") == 0) return &fl_baseline::backend;
#ifdef FL_HAVE_avx2
    if (std::strcmp(name, "avx2") == 0 && has_avx2()) return &fl_avx2::backend;
#endif
#ifdef FL_HAVE_avx512
    if (std::strcmp(name, "avx512") == 0 && has_avx512()) return &fl_avx512::backend;
#endif
    return nullptr;
}

// Prefetchers of Intel's processors leave a part of the bandwidth unused when streams are written too; those of Zen 3 do not,
// and requests beside theirs cost 5 to 18 %.  Passes that only read gain on both.
bool prefetch_pays() {
#ifdef __x86_64__
    unsigned a, b, c, d;
    return __get_cpuid(0, &a, &b, &c, &d) && b == signature_INTEL_ebx;
#else
    return false;
#endif
}

// OpenMP's threads do not survive fork(), and a parallel region in the child would wait for them forever.
bool forked = false;
__attribute__((constructor)) void watch_forks() { pthread_atfork(nullptr, nullptr, [] { forked = true; }); }

// How a thread rounds and whether it flushes subnormal numbers, as torch.set_flush_denormal() sets it for its caller.
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
            // The same bits whoever takes a task.
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

int count(const fl_program& p, int pass, bool (*wanted)(int space)) {
    int n = 0;
    for (int r = 0; r < p.n_reductions; ++r) n += p.reductions[r].pass == pass && wanted(p.reductions[r].space);
    return n;
}

bool is_col(int space) { return space == FL_COL; }

float* vector_of(const fl_job* job, const fl_tensor& t, int slot) {
    float* at = reinterpret_cast<float*>(job->workspace + t.vector_at);
    for (int v = 0; v < slot; ++v) at += fl_vector_size(t, job->program->vector_space[v]);
    return at;
}

// Adds the tiles' results up, always in the same order.
void combine_tensor(fl_job* job, int64_t index, int pass) {
    const fl_program& p = *job->program;
    fl_tensor& t = job->tensors[index];
    const fl_tiling tiling = fl_tiles_of(t, p.tiled);
    const int64_t tiles = t.batch * tiling.down * tiling.across;
    int n_scalar = 0, n_row = 0, n_col = 0;
    for (int r = 0; r < p.n_reductions; ++r) {
        const fl_reduction& red = p.reductions[r];
        if (red.pass != pass) continue;
        const double start = red.is_max ? -HUGE_VAL : 0.0;
        if (fl_is_scalar(red.space)) {
            double acc = start;
            const double* at = job->workspace + job->scalar_partial_at + t.first_tile * job->scalars_per_tile + n_scalar;
            if (t.numel)
                for (int64_t k = 0; k < tiles; ++k) acc = fl_joined(acc, at[k * job->scalars_per_tile], red.is_max);
            job->scalars[index * p.n_scalars + red.slot] = acc;
            ++n_scalar;
        } else if (fl_is_row(red.space)) {
            float* result = vector_of(job, t, red.slot);
            const double* at = job->workspace + t.row_partial_at + n_row * t.batch * t.rows * tiling.across;
            for (int64_t k = 0; k < t.batch * t.rows; ++k) {
                double acc = start;
                for (int64_t b = 0; b < tiling.across; ++b) acc = fl_joined(acc, at[k * tiling.across + b], red.is_max);
                result[k] = static_cast<float>(acc);
            }
            ++n_row;
        } else {
            float* result = vector_of(job, t, red.slot);
            const double* at = job->workspace + t.col_partial_at + n_col * t.batch * tiling.down * t.cols;
            for (int64_t m = 0; m < t.batch; ++m)
                for (int64_t c = 0; c < t.cols; ++c) {
                    double acc = start;
                    for (int64_t d = 0; d < tiling.down; ++d)
                        acc = fl_joined(acc, at[(m * tiling.down + d) * t.cols + c], red.is_max);
                    result[m * t.cols + c] = static_cast<float>(acc);
                }
            ++n_col;
        }
    }
}

void combine_all(fl_job* job, int pass) {
    const fl_program& p = *job->program;
    for (int r = 0; r < p.n_reductions; ++r) {
        const fl_reduction& red = p.reductions[r];
        if (red.pass != pass || red.space != FL_ALL) continue;
        double acc = red.is_max ? -HUGE_VAL : 0.0;
        for (int64_t i = 0; i < job->n_tensors; ++i)
            if (job->tensors[i].row >= 0) acc = fl_joined(acc, job->scalars[i * p.n_scalars + red.slot], red.is_max);
        for (int64_t i = 0; i < job->n_tensors; ++i) job->scalars[i * p.n_scalars + red.slot] = acc;
    }
}

// Consecutive parameters [first, end).
struct Part {
    int64_t first, end;
};

Part whole(const fl_job* job) { return {0, job->n_tensors}; }

void run_stage(fl_job* job, int k, Part part) {
    const fl_program& p = *job->program;
    const fl_stage stage = p.entry->stages[k];
    if (!stage) return;
    for (int64_t i = part.first; i < part.end; ++i) {
        fl_tensor& t = job->tensors[i];
        if (t.row < 0) continue;
        float* vectors[FL_MAX_REDUCTIONS * 2];
        for (int v = 0; v < p.n_vectors; ++v) vectors[v] = vector_of(job, t, v);
        const fl_small small{t.batch, t.rows, t.cols, job->rows + static_cast<int64_t>(t.row) * p.n_row,
                             job->scalars + i * p.n_scalars, vectors, t.small};
        stage(&small);
    }
}

// The tasks of a part, by the member that numbers them through all parameters.
fl_tasks tasks_of(const fl_job* job, Part part, int64_t fl_tensor::*first, int64_t all, int threads) {
    const int64_t end = part.end < job->n_tensors ? job->tensors[part.end].*first : all;
    return {part.first < part.end ? job->tensors[part.first].*first : end, end, threads};
}

void run_pass(fl_job* job, const fl_backend* backend, int k, int threads, Part part) {
    const fl_program& p = *job->program;
    if (!p.entry->passes[k]) return;
    int64_t elements = 0;
    for (int64_t i = part.first; i < part.end; ++i) elements += job->tensors[i].numel;
    if (k == p.n_passes - 1) {
        fl_tasks chunks = tasks_of(job, part, &fl_tensor::first_chunk, job->chunks, threads);
        in_threads(threads, elements, [&](int worker) { backend->write_chunks(job, chunks, worker); });
        return;
    }
    fl_tasks tiles = tasks_of(job, part, &fl_tensor::first_tile, job->tiles, threads);
    in_threads(threads, elements, [&](int worker) { backend->reduce_tiles(job, k, tiles, worker); });
    fl_tasks tensors(part.first, part.end, threads);
    in_threads(threads, elements, [&](int worker) {
        for (int64_t begin, end; tensors.take(worker, begin, end);)
            for (int64_t i = begin; i < end; ++i)
                if (job->tensors[i].row >= 0) combine_tensor(job, i, k);
    });
    combine_all(job, k);
}

bool couples_parameters(const fl_program& p) {
    return std::any_of(p.reductions, p.reductions + p.n_reductions, [](auto& r) { return r.space == FL_ALL; });
}

// All passes over one part of the parameters, then over the next; a part has at most so many elements, or one parameter.
void step_in_parts(fl_job* job, const fl_backend* backend, int threads, int64_t most) {
    const bool together = couples_parameters(*job->program);
    for (Part part{0, 0}; part.first < job->n_tensors; part.first = part.end) {
        int64_t elements = 0;
        do elements += job->tensors[part.end++].numel;
        while (part.end < job->n_tensors && (together || elements + job->tensors[part.end].numel <= most));
        for (int k = 0; k < job->program->n_passes; ++k) {
            run_stage(job, k, part);
            run_pass(job, backend, k, threads, part);
        }
    }
}

}  // namespace

const int64_t fl_ahead = prefetch_pays() ? fl_memory::AHEAD : 0;

// The fastest instruction set of this machine, or the named one if the machine has it; null otherwise.
FL_API const fl_backend* fl_select(const char* name) {
    if (name && *name) return backend_named(name);
    for (const char* candidate : {"avx512", "avx2", "baseline"})
        if (const fl_backend* found = backend_named(candidate)) return found;
    return nullptr;
}

FL_API const char* fl_backend_name(const fl_backend* backend) { return backend->name; }
FL_API const fl_entry* fl_find(const fl_backend* backend, const char* kernel) { return backend->find(kernel); }
FL_API int fl_has_threads() {
#ifdef _OPENMP
    return 1;
#else
    return 0;
#endif
}

// Numbers the tasks and lays out the workspace; returns how many doubles of workspace the job needs.
FL_API int64_t fl_plan(fl_job* job) {
    const fl_program& p = *job->program;
    int64_t at = 0;
    job->chunks = job->tiles = job->elements = 0;
    int scalar_kinds = 0, row_kinds = 0, col_kinds = 0;
    for (int k = 0; k < p.n_passes; ++k) {
        scalar_kinds = std::max(scalar_kinds, count(p, k, fl_is_scalar));
        row_kinds = std::max(row_kinds, count(p, k, fl_is_row));
        col_kinds = std::max(col_kinds, count(p, k, is_col));
    }
    for (int64_t i = 0; i < job->n_tensors; ++i) {
        fl_tensor& t = job->tensors[i];
        t.first_chunk = job->chunks;
        job->chunks += (t.numel + FL_CHUNK - 1) / FL_CHUNK;
        job->elements += t.numel;
        t.first_tile = job->tiles;
        if (!p.n_reductions && !p.n_vectors) continue;
        const fl_tiling tiling = fl_tiles_of(t, p.tiled);
        job->tiles += t.numel ? t.batch * tiling.down * tiling.across : 0;
        t.vector_at = at;
        int64_t floats = 0;
        for (int v = 0; v < p.n_vectors; ++v) floats += fl_vector_size(t, p.vector_space[v]);
        at += (floats + 1) / 2;
        t.row_partial_at = at;
        at += row_kinds * t.batch * t.rows * tiling.across;
        t.col_partial_at = at;
        at += col_kinds * t.batch * tiling.down * t.cols;
    }
    job->scalar_partial_at = at;
    job->scalars_per_tile = scalar_kinds;
    return at + job->tiles * scalar_kinds;
}

// Takes this step's gradients and rows over into the descriptions.
FL_API void fl_begin(fl_job* job) {
    const int grad = job->program->grad_operand;
    for (int64_t i = 0; i < job->n_tensors; ++i) {
        fl_tensor& t = job->tensors[i];
        t.row = job->row_of[i];
        if (!job->grads) continue;
        if (grad >= 0) t.operands[grad].data = job->grads[i];
        if (!job->grads[i] && t.numel) t.row = -1;
    }
}

// Scalars and small arrays that follow from the finished reductions, before pass k.
FL_API void fl_stage_run(fl_job* job, int k) { run_stage(job, k, whole(job)); }

// Pass k over all elements.  After a reducing pass the results are in the job's scalars and vectors.
FL_API void fl_pass(fl_job* job, const fl_backend* backend, int k, int threads) {
    run_pass(job, backend, k, threads, whole(job));
}

// A whole step.
FL_API void fl_step(fl_job* job, const fl_backend* backend, int threads) {
    fl_begin(job);
    step_in_parts(job, backend, threads, job->program->n_passes > 1 ? PART * threads : job->elements);
}

// One step launched parameter by parameter: the same kernels, as many launches as parameters.
FL_API void fl_step_each(fl_job* job, const fl_backend* backend, int threads) {
    fl_begin(job);
    step_in_parts(job, backend, threads, 0);
}

// One sweep over n elements of each stream, in pieces that the threads take as kernels do.
FL_API void fl_probe(const fl_backend* backend, int reads, int writes, float* const* streams, int64_t n, int threads,
                     int64_t ahead) {
    const int64_t share = (n / std::max(threads, 1) + 63) / 64 * 64;
    const int64_t piece = std::min<int64_t>(65536, std::max<int64_t>(64, share));
    fl_tasks pieces(0, (n + piece - 1) / piece, threads);
    in_threads(threads, n, [&](int worker) {
        for (int64_t begin, end; pieces.take(worker, begin, end);)
            backend->probe(reads, writes, streams, begin * piece, std::min(n, end * piece), ahead);
    });
}

// For the loader: a library whose structs differ from what Python describes must not be used.
FL_API void fl_sizes(int64_t* out) {
    out[0] = sizeof(fl_operand);
    out[1] = sizeof(fl_tensor);
    out[2] = sizeof(fl_reduction);
    out[3] = sizeof(fl_program);
    out[4] = sizeof(fl_job);
}
