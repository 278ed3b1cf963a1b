// Combines the results of the tiles of a reducing pass, always in the same order.
#pragma once

#include "engine.h"

namespace fl_combine {

inline float* vector_of(const fl_job* job, const fl_tensor& t, int slot) {
    float* at = reinterpret_cast<float*>(job->workspace + t.vector_at);
    for (int v = 0; v < slot; ++v) at += fl_vector_room(t, job->program->vector_space[v]);
    return at;
}

// Combines the results of the tiles, always in the same order.
inline void combine_tensor(fl_job* job, int64_t index, int pass) {
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

inline void combine_all(fl_job* job, int pass) {
    const fl_program& p = *job->program;
    for (int r = 0; r < p.n_reductions; ++r) {
        const fl_reduction& red = p.reductions[r];
        if (red.pass != pass || red.space != FL_ALL) continue;
        double acc = red.is_max ? -HUGE_VAL : 0.0;
        for (int64_t i = 0; i < job->n_tensors; ++i)
            if (job->tensors[i].set >= 0) acc = fl_joined(acc, job->scalars[i * p.n_scalars + red.slot], red.is_max);
        for (int64_t i = 0; i < job->n_tensors; ++i) job->scalars[i * p.n_scalars + red.slot] = acc;
    }
}

}  // namespace fl_combine
