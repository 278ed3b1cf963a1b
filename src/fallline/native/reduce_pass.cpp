// Passes that read and reduce: each tile has partial results of its own, which combine.h adds up in a fixed order.

#include <algorithm>

#include "segments.h"
#include "staging.h"
#include "tasks.h"

namespace FL_NS {
namespace {

// Columns are reduced over this number of rows in float32, then in double.
constexpr int64_t ROWS_IN_FLOAT = 64;

struct Columns {
    alignas(64) float column[FL_MAX_REDUCTIONS][FL_TILE_COLS];
};

void reduce_tile(const fl_job* job, const fl_tensor& t, int64_t tile, int64_t tile_number, int pass, float* s,
                 Place& place, Staged& staged, Columns& sums) {
    const fl_program& p = *job->program;
    const fl_kernel kernel = p.entry->passes[pass];
    const fl_tiling tiling = fl_tiles_of(t, p.tiled);
    const int64_t per_matrix = tiling.down * tiling.across;
    const int64_t matrix = tile / per_matrix, strip = tile % per_matrix / tiling.across, band = tile % tiling.across;
    const int64_t row0 = strip * tiling.height, col0 = band * tiling.width;
    const int64_t height = t.rows - row0 < tiling.height ? t.rows - row0 : tiling.height;
    const int64_t width = t.cols - col0 < tiling.width ? t.cols - col0 : tiling.width;

    double* scalar_partial = job->workspace + job->scalar_partial_at + tile_number * job->scalars_per_tile;
    double out[FL_MAX_REDUCTIONS];
    struct Target { int is_max, space, index; } targets[FL_MAX_REDUCTIONS];
    struct Column { int is_max; double* at; } columns[FL_MAX_REDUCTIONS];
    int n_out = 0, n_col = 0, n_row_kind = 0, n_scalar_kind = 0;
    for (int r = 0; r < p.n_reductions; ++r) {
        const fl_reduction& red = p.reductions[r];
        if (red.pass != pass) continue;
        const double start = red.is_max ? -HUGE_VAL : 0.0;
        if (red.space == FL_COL) {
            double* at = job->workspace + t.col_partial_at +
                         ((n_col * t.batch + matrix) * tiling.down + strip) * t.cols + col0;
            std::fill(at, at + width, start);
            std::fill(sums.column[n_col], sums.column[n_col] + width, static_cast<float>(start));
            columns[n_col++] = {red.is_max, at};
        } else if (fl_is_scalar(red.space)) {
            scalar_partial[n_scalar_kind] = start;
            targets[n_out++] = {red.is_max, red.space, n_scalar_kind++};
        } else {
            targets[n_out++] = {red.is_max, red.space, n_row_kind++};
        }
    }
    float *io[FL_MAX_OPERANDS], *col_out[FL_MAX_REDUCTIONS];
    fl_segment segment{0, fl_ahead, io, s, place.col, out, col_out, nullptr, nullptr, nullptr};
    for (int64_t r = 0; r < height; ++r) {
        const int64_t row = row0 + r;
        for (int i = 0; i < n_out; ++i) out[i] = targets[i].is_max ? -HUGE_VAL : 0.0;
        for (int64_t at = 0; at < width;) {
            const int64_t first = (matrix * t.rows + row) * t.cols + col0 + at;
            int64_t m = width - at;
            for (int o = 0; o < p.n_operands; ++o)
                if ((p.reads[pass] >> o & 1) && !is_direct(t.operands[o]) && m > FL_STAGE) m = FL_STAGE;
            for (int o = 0; o < p.n_operands; ++o) {
                const fl_operand& operand = t.operands[o];
                const bool in_place = is_direct(operand);
                io[o] = in_place ? static_cast<float*>(operand.data) + first : staged.operand[o];
                if (!in_place && (p.reads[pass] >> o & 1)) fetch(t, operand, first, m, io[o]);
            }
            if (p.tiled) enter_segment(p, t, matrix, row, col0 + at, place, s);
            for (int i = 0; i < n_col; ++i) col_out[i] = sums.column[i] + at;
            segment.n = m;
            kernel(&segment);
            at += m;
        }
        for (int i = 0; i < n_out; ++i) {
            if (fl_is_scalar(targets[i].space)) {
                double& acc = scalar_partial[targets[i].index];
                acc = fl_joined(acc, out[i], targets[i].is_max);
            } else {
                const int64_t line = (targets[i].index * t.batch + matrix) * t.rows + row;
                job->workspace[t.row_partial_at + line * tiling.across + band] = out[i];
            }
        }
        if ((r + 1) % ROWS_IN_FLOAT && r + 1 < height) continue;
        for (int i = 0; i < n_col; ++i) {
            const float start = columns[i].is_max ? -HUGE_VALF : 0.0f;
            for (int64_t c = 0; c < width; ++c) {
                columns[i].at[c] = fl_joined(columns[i].at[c], sums.column[i][c], columns[i].is_max);
                sums.column[i][c] = start;
            }
        }
    }
}

}  // namespace

void reduce_tiles(const fl_job* job, int pass, fl_tasks& tasks, int worker) {
    const fl_program& p = *job->program;
    Staged staged;
    Columns sums;
    Place place{};
    float s[FL_MAX_SCALARS];
    int64_t current = -1;
    for (int64_t begin, end; tasks.take(worker, begin, end);) {
        int64_t index = owner_of(job, begin, &fl_tensor::first_tile);
        for (int64_t tile = begin; tile < end; ++tile) {
            while (index + 1 < job->n_tensors && job->tensors[index + 1].first_tile <= tile) ++index;
            const fl_tensor& t = job->tensors[index];
            if (t.set < 0 || t.numel == 0) continue;
            if (index != current) {
                current = index;
                fill_scalars(job, t, index, s);
                if (p.n_vectors) locate_vectors(job, t, place);
            }
            reduce_tile(job, t, tile - t.first_tile, tile, pass, s, place, staged, sums);
        }
    }
}

}  // namespace FL_NS
