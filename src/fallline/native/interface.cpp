// The functions that Python calls to plan and run a job: whole steps, or one stage and one pass at a time.
//
// Tasks are cut by element count, never by thread, so results do not depend on the number of threads.

#include <algorithm>
#include <cstddef>

#include "combine.h"
#include "engine.h"
#include "exported.h"
#include "tasks.h"
#include "threads.h"

using fl_combine::combine_all;
using fl_combine::combine_tensor;
using fl_combine::vector_of;
using fl_threads::in_threads;

namespace {

// Elements, per thread, that all passes of a reducing rule visit before the next elements: the last pass may then still
// find in the shared cache what the first has read.  Fewer elements would leave threads without a tile.
constexpr int64_t PART = 262144;

int count(const fl_program& p, int pass, bool (*wanted)(int space)) {
    int n = 0;
    for (int r = 0; r < p.n_reductions; ++r) n += p.reductions[r].pass == pass && wanted(p.reductions[r].space);
    return n;
}

bool is_col(int space) { return space == FL_COL; }

bool couples_parameters(const fl_program& p) {
    return std::any_of(p.reductions, p.reductions + p.n_reductions, [](auto& r) { return r.space == FL_ALL; });
}

// Consecutive parameters [first, end).
struct Part {
    int64_t first, end;
};

Part whole(const fl_job* job) { return {0, job->n_tensors}; }

int64_t elements_of(const fl_job* job, Part part) {
    int64_t elements = 0;
    for (int64_t i = part.first; i < part.end; ++i) elements += job->tensors[i].numel;
    return elements;
}

// Runs one round of a stage of one parameter, or all of its rounds.
void run_stage_of(const fl_job* job, int64_t index, int k, int round) {
    const fl_program& p = *job->program;
    const fl_tensor& t = job->tensors[index];
    float* vectors[FL_MAX_REDUCTIONS * 2];
    for (int v = 0; v < p.n_vectors; ++v) vectors[v] = vector_of(job, t, v);
    const fl_small small{t.batch, t.rows, t.cols, job->sets + static_cast<int64_t>(t.set) * p.n_host,
                         job->scalars + index * p.n_scalars, vectors, t.small, round};
    p.entry->stages[k](&small);
}

// Calls work(i) for every parameter of a part that is stepped.
template <class Work>
void for_tensors(const fl_job* job, int threads, Part part, int64_t elements, Work work) {
    const int most = static_cast<int>(std::min<int64_t>(threads, part.end - part.first));
    fl_tasks tensors(part.first, part.end, most);
    in_threads(most, elements, [&](int worker) {
        for (int64_t begin, end; tensors.take(worker, begin, end);)
            for (int64_t i = begin; i < end; ++i)
                if (job->tensors[i].set >= 0) work(i);
    });
}

void run_stage(fl_job* job, int k, int round, int threads, Part part) {
    if (!job->program->entry->stages[k]) return;
    for_tensors(job, threads, part, elements_of(job, part), [&](int64_t i) { run_stage_of(job, i, k, round); });
}

// The tasks of a part, by the member that numbers them through all parameters.
fl_tasks tasks_of(const fl_job* job, Part part, int64_t fl_tensor::*first, int64_t all, int threads) {
    const int64_t end = part.end < job->n_tensors ? job->tensors[part.end].*first : all;
    return {part.first < part.end ? job->tensors[part.first].*first : end, end, threads};
}

// Runs pass k; `then` is called for each parameter whose own reductions are complete.
template <class Then>
void run_pass(fl_job* job, const fl_backend* backend, int k, int threads, Part part, Then then) {
    const fl_program& p = *job->program;
    if (!p.entry->passes[k]) return;
    const int64_t elements = elements_of(job, part);
    if (k == p.n_passes - 1) {
        fl_tasks chunks = tasks_of(job, part, &fl_tensor::first_chunk, job->chunks, threads);
        in_threads(threads, elements, [&](int worker) { backend->write_chunks(job, chunks, worker); });
        return;
    }
    fl_tasks tiles = tasks_of(job, part, &fl_tensor::first_tile, job->tiles, threads);
    in_threads(threads, elements, [&](int worker) { backend->reduce_tiles(job, k, tiles, worker); });
    for_tensors(job, threads, part, elements, [&](int64_t i) {
        combine_tensor(job, i, k);
        then(i);
    });
}

// Runs all passes over one part of the parameters, then over the next; a part has up to `most` elements, or one parameter.
void step_in_parts(fl_job* job, const fl_backend* backend, int threads, int64_t most) {
    const fl_program& p = *job->program;
    const bool coupled = couples_parameters(p);
    for (Part part{0, 0}; part.first < job->n_tensors; part.first = part.end) {
        int64_t elements = 0;
        do elements += job->tensors[part.end++].numel;
        while (part.end < job->n_tensors && (coupled || elements + job->tensors[part.end].numel <= most));
        run_stage(job, 0, FL_EVERY_ROUND, threads, part);
        for (int k = 0; k < p.n_passes; ++k) {
            // If no parameter waits for the others, its next stage follows at once, on the thread that has its sums.
            const bool at_once = !coupled && k + 1 < p.n_passes && p.entry->stages[k + 1];
            run_pass(job, backend, k, threads, part, [&](int64_t i) {
                if (at_once) run_stage_of(job, i, k + 1, FL_EVERY_ROUND);
            });
            if (!coupled || k + 1 == p.n_passes) continue;
            combine_all(job, k);
            run_stage(job, k + 1, FL_EVERY_ROUND, threads, part);
        }
    }
}

}  // namespace

FL_API int fl_has_threads() {
#ifdef _OPENMP
    return 1;
#else
    return 0;
#endif
}

// Numbers the tasks and lays out the workspace; returns the number of doubles of workspace that the job needs.
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
        job->chunks += t.numel ? (fl_skew(t) + t.numel + FL_CHUNK - 1) / FL_CHUNK : 0;
        job->elements += t.numel;
        t.first_tile = job->tiles;
        if (!p.n_reductions && !p.n_vectors) continue;
        const fl_tiling tiling = fl_tiles_of(t, p.tiled);
        job->tiles += t.numel ? t.batch * tiling.down * tiling.across : 0;
        at = (at + FL_LINE_FLOATS / 2 - 1) / (FL_LINE_FLOATS / 2) * (FL_LINE_FLOATS / 2);
        t.vector_at = at;
        for (int v = 0; v < p.n_vectors; ++v) at += fl_vector_room(t, p.vector_space[v]) / 2;
        t.row_partial_at = at;
        at += row_kinds * t.batch * t.rows * tiling.across;
        t.col_partial_at = at;
        at += col_kinds * t.batch * tiling.down * t.cols;
    }
    job->scalar_partial_at = at;
    job->scalars_per_tile = scalar_kinds;
    return at + job->tiles * scalar_kinds;
}

// Copies this step's gradients and sets of scalars into the descriptions.
FL_API void fl_begin(fl_job* job) {
    const int grad = job->program->grad_operand;
    for (int64_t i = 0; i < job->n_tensors; ++i) {
        fl_tensor& t = job->tensors[i];
        t.set = job->set_of[i];
        if (!job->grads) continue;
        if (grad >= 0) t.operands[grad].data = job->grads[i];
        if (!job->grads[i] && t.numel) t.set = -1;
    }
}

// Computes the scalars and small arrays that follow from finished reductions, before pass k: one round, which ends with
// reductions of small arrays.
FL_API void fl_stage_run(fl_job* job, int k, int round, int threads) { run_stage(job, k, round, threads, whole(job)); }

// Runs pass k over all elements.  After a reducing pass the results are in the job's scalars and vectors.
FL_API void fl_pass(fl_job* job, const fl_backend* backend, int k, int threads) {
    run_pass(job, backend, k, threads, whole(job), [](int64_t) {});
    combine_all(job, k);
}

// Runs a whole step.
FL_API void fl_step(fl_job* job, const fl_backend* backend, int threads) {
    fl_begin(job);
    step_in_parts(job, backend, threads, job->program->n_passes > 1 ? PART * threads : job->elements);
}

// Runs one step parameter by parameter, with the same kernels and one launch for each.
FL_API void fl_step_each(fl_job* job, const fl_backend* backend, int threads) {
    fl_begin(job);
    step_in_parts(job, backend, threads, 0);
}

// Runs one sweep over n elements of each stream, in pieces that threads take as they take those of kernels.
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

// The offsets of the members of the structs, for the loader: a library that was built from other sources than the package
// that describes its jobs must not be used.  Writes at most n numbers and returns how many there are.
FL_API int64_t fl_layout(int64_t* out, int64_t n) {
    const int64_t layout[] = {
        sizeof(fl_operand), offsetof(fl_operand, data), offsetof(fl_operand, scale), offsetof(fl_operand, strides),
        offsetof(fl_operand, format), offsetof(fl_operand, stochastic), offsetof(fl_operand, key), offsetof(fl_operand, edges),
        sizeof(fl_tensor), offsetof(fl_tensor, numel), offsetof(fl_tensor, first), offsetof(fl_tensor, whole), offsetof(fl_tensor, batch),
        offsetof(fl_tensor, rows), offsetof(fl_tensor, cols), offsetof(fl_tensor, sizes), offsetof(fl_tensor, ndim),
        offsetof(fl_tensor, set), offsetof(fl_tensor, operands), offsetof(fl_tensor, low_precision_copy),
        offsetof(fl_tensor, small), offsetof(fl_tensor, first_chunk), offsetof(fl_tensor, first_tile),
        offsetof(fl_tensor, vector_at), offsetof(fl_tensor, row_partial_at), offsetof(fl_tensor, col_partial_at),
        sizeof(fl_reduction), offsetof(fl_reduction, pass), offsetof(fl_reduction, space), offsetof(fl_reduction, slot),
        offsetof(fl_reduction, is_max),
        sizeof(fl_program), offsetof(fl_program, entry), offsetof(fl_program, grad_operand),
        offsetof(fl_program, n_operands), offsetof(fl_program, n_host), offsetof(fl_program, n_scalars),
        offsetof(fl_program, n_vectors), offsetof(fl_program, n_passes), offsetof(fl_program, n_reductions),
        offsetof(fl_program, tiled), offsetof(fl_program, reads), offsetof(fl_program, writes),
        offsetof(fl_program, packable), offsetof(fl_program, vector_space), offsetof(fl_program, reductions),
        offsetof(fl_program, n_segment), offsetof(fl_program, n_column), offsetof(fl_program, segment_vectors),
        offsetof(fl_program, column_vectors),
        sizeof(fl_job), offsetof(fl_job, program), offsetof(fl_job, tensors), offsetof(fl_job, n_tensors),
        offsetof(fl_job, grads), offsetof(fl_job, set_of), offsetof(fl_job, sets), offsetof(fl_job, grad_factor),
        offsetof(fl_job, scalars), offsetof(fl_job, workspace), offsetof(fl_job, chunks), offsetof(fl_job, tiles),
        offsetof(fl_job, elements), offsetof(fl_job, scalar_partial_at), offsetof(fl_job, scalars_per_tile),
    };
    const int64_t found = sizeof layout / sizeof *layout;
    std::copy(layout, layout + std::min(found, n), out);
    return found;
}

// Whether a kernel, which may have been compiled at run time, was compiled with the structs of this library.
FL_API int fl_accepts(const fl_entry* entry) { return entry->layout == FL_KERNEL_LAYOUT; }
