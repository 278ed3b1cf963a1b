// The arguments of a kernel besides its operands: the scalars of a parameter, and its values per row and column.
#pragma once

#include "engine.h"

namespace FL_NS {
namespace {

// The scalars of a parameter as the kernels take them; those per segment are filled in later.
inline void fill_scalars(const fl_job* job, const fl_tensor& t, int64_t index, float* s) {
    const fl_program& p = *job->program;
    s[0] = static_cast<float>(job->grad_factor);
    const double* host = job->sets + static_cast<int64_t>(t.set) * p.n_host;
    for (int i = 0; i < p.n_host; ++i) s[1 + i] = static_cast<float>(host[i]);
    const double* scalar = job->scalars + index * p.n_scalars;
    for (int i = 0; i < p.n_scalars; ++i) s[1 + p.n_host + i] = static_cast<float>(scalar[i]);
}

// A segment inside one row of one matrix: its values per row and column.
struct Place {
    float* vectors[FL_MAX_REDUCTIONS * 2];
    const float* col[FL_MAX_REDUCTIONS * 2];
};

inline void locate_vectors(const fl_job* job, const fl_tensor& t, Place& place) {
    const fl_program& p = *job->program;
    float* at = reinterpret_cast<float*>(job->workspace + t.vector_at);
    for (int v = 0; v < p.n_vectors; ++v) {
        place.vectors[v] = at;
        at += fl_vector_room(t, p.vector_space[v]);
    }
}

inline void enter_segment(const fl_program& p, const fl_tensor& t, int64_t matrix, int64_t row, int64_t col, Place& place,
                   float* s) {
    for (int i = 0; i < p.n_segment; ++i) {
        const int v = p.segment_vectors[i];
        const int64_t at = p.vector_space[v] == FL_BATCH ? matrix : matrix * t.rows + row;
        s[1 + p.n_host + p.n_scalars + i] = place.vectors[v][at];
    }
    for (int i = 0; i < p.n_column; ++i) place.col[i] = place.vectors[p.column_vectors[i]] + matrix * t.cols + col;
}

// The parameter of a task; tasks are numbered through all parameters.
inline int64_t owner_of(const fl_job* job, int64_t task, int64_t fl_tensor::*first) {
    int64_t low = 0, high = job->n_tensors;
    while (low + 1 < high) {
        const int64_t middle = (low + high) / 2;
        (job->tensors[middle].*first <= task ? low : high) = middle;
    }
    return low;
}

}  // namespace
}  // namespace FL_NS
