// The loops around the kernels, compiled once per instruction set together with the formats.

#define FL_NAME_(isa) fl_##isa
#define FL_NAME(isa) FL_NAME_(isa)
#define FL_NS FL_NAME(FL_ISA)

#include <algorithm>
#include <initializer_list>

#include "engine.h"
#include "formats.h"
#include "tasks.h"

extern const fl_entry FL_SHARD(0)[], FL_SHARD(1)[], FL_SHARD(2)[], FL_SHARD(3)[];

namespace FL_NS {
namespace {

constexpr int64_t PREFETCH_AHEAD = 2 * FL_STAGE;
// Columns are reduced over so many rows in float32, then in double.
constexpr int64_t ROWS_IN_FLOAT = 64;

struct Buffers {
    alignas(64) float data[FL_MAX_OPERANDS][FL_STAGE];
    alignas(64) float columns[FL_MAX_REDUCTIONS][FL_TILE_COLS];
};

inline bool is_direct(const fl_operand& o) { return o.format == F32 && !o.strides; }

inline int64_t element_bytes(int format) { return format == F32 ? 4 : format == BF16 || format == F16 ? 2 : 1; }

// Of n elements; 4-bit codes lie two in a byte.
inline int64_t bytes_of(int format, int64_t n) {
    return format == I4_SIGNED || format == I4_NONNEG ? n / 2 : n * element_bytes(format);
}

// Visits the elements [start, start + n) of a strided tensor in logical order as runs along the last axis.
template <class Visit>
void for_runs(const fl_tensor& t, const int64_t* strides, int64_t start, int64_t n, Visit visit) {
    int64_t index[64];
    int64_t rest = start, offset = 0;
    for (int d = t.ndim - 1; d >= 0; --d) {
        index[d] = rest % t.sizes[d];
        rest /= t.sizes[d];
        offset += index[d] * strides[d];
    }
    if (t.ndim == 0) {
        visit(0, 0, 1, 1);
        return;
    }
    const int last = t.ndim - 1;
    for (int64_t done = 0; done < n;) {
        const int64_t room = t.sizes[last] - index[last];
        const int64_t run = room < n - done ? room : n - done;
        visit(done, offset, strides[last], run);
        done += run;
        index[last] += run;
        offset += run * strides[last];
        for (int d = last; d > 0 && index[d] == t.sizes[d]; --d) {
            offset -= t.sizes[d] * strides[d];
            index[d] = 0;
            ++index[d - 1];
            offset += strides[d - 1];
        }
    }
}

void gather(const fl_tensor& t, const fl_operand& o, int64_t start, int64_t n, float* out) {
    const char* base = static_cast<const char*>(o.data);
    const int64_t size = element_bytes(o.format);
    for_runs(t, o.strides, start, n, [&](int64_t at, int64_t offset, int64_t stride, int64_t run) {
        if (o.format == F32) {
            const float* x = reinterpret_cast<const float*>(base) + offset;
            for (int64_t i = 0; i < run; ++i) out[at + i] = x[i * stride];
        } else {
            for (int64_t i = 0; i < run; ++i)
                load(static_cast<Format>(o.format), base + (offset + i * stride) * size, nullptr, 0, 1, out + at + i);
        }
    });
}

void scatter(const fl_tensor& t, const fl_operand& o, int64_t start, int64_t n, const float* in) {
    char* base = static_cast<char*>(o.data);
    // Rounded in logical order first: the random bits belong to the element, not to where it lies.
    alignas(64) uint16_t half[FL_STAGE];
    if (o.format != F32) store(static_cast<Format>(o.format), half - start, nullptr, start, n, in, o.stochastic, o.key);
    for_runs(t, o.strides, start, n, [&](int64_t at, int64_t offset, int64_t stride, int64_t run) {
        if (o.format == F32) {
            float* x = reinterpret_cast<float*>(base) + offset;
            for (int64_t i = 0; i < run; ++i) x[i * stride] = in[at + i];
        } else {
            uint16_t* x = reinterpret_cast<uint16_t*>(base) + offset;
            for (int64_t i = 0; i < run; ++i) x[i * stride] = half[at + i];
        }
    });
}

void fetch(const fl_tensor& t, const fl_operand& o, int64_t start, int64_t n, float* out) {
    if (o.strides)
        gather(t, o, start, n, out);
    else
        load(static_cast<Format>(o.format), o.data, o.scale, start, n, out);
}

void put(const fl_tensor& t, const fl_operand& o, int64_t start, int64_t n, const float* in) {
    if (o.strides)
        scatter(t, o, start, n, in);
    else
        store(static_cast<Format>(o.format), o.data, o.scale, start, n, in, o.stochastic, o.key);
}

// The scalars of a parameter as the kernels take them; those per segment are filled in later.
void fill_scalars(const fl_job* job, const fl_tensor& t, int64_t index, float* s) {
    const fl_program& p = *job->program;
    s[0] = static_cast<float>(job->grad_factor);
    const double* row = job->rows + static_cast<int64_t>(t.row) * p.n_row;
    for (int i = 0; i < p.n_row; ++i) s[1 + i] = static_cast<float>(row[i]);
    const double* scalar = job->scalars + index * p.n_scalars;
    for (int i = 0; i < p.n_scalars; ++i) s[1 + p.n_row + i] = static_cast<float>(scalar[i]);
}

// A segment inside one row of one matrix: its values per row and column.
struct Place {
    float* vectors[FL_MAX_REDUCTIONS * 2];
    const float* col[FL_MAX_REDUCTIONS * 2];
};

int64_t vector_size(const fl_tensor& t, int space) {
    return space == 4 || space == 6 ? t.batch * t.rows : space == 5 ? t.batch * t.cols : t.batch;
}

void locate_vectors(const fl_job* job, const fl_tensor& t, Place& place) {
    const fl_program& p = *job->program;
    float* at = reinterpret_cast<float*>(job->workspace + t.vector_at);
    for (int v = 0; v < p.n_vectors; ++v) {
        place.vectors[v] = at;
        at += vector_size(t, p.vector_space[v]);
    }
}

void enter_segment(const fl_program& p, const fl_tensor& t, int64_t matrix, int64_t row, int64_t col, Place& place,
                   float* s) {
    for (int i = 0; i < p.n_segment; ++i) {
        const int v = p.segment_vectors[i];
        const int64_t at = p.vector_space[v] == 3 ? matrix : matrix * t.rows + row;
        s[1 + p.n_row + p.n_scalars + i] = place.vectors[v][at];
    }
    for (int i = 0; i < p.n_column; ++i) place.col[i] = place.vectors[p.column_vectors[i]] + matrix * t.cols + col;
}

inline void prefetch_lines(const char* from, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(from + i, 0, 3);
}

static_assert(FL_STAGE <= fl_vec::SPAN, "packed kernels hold a stage");

// 8-bit states of a parameter whose other operands are plain float32: the packed kernel can take it.
bool is_packed(const fl_program& p, const fl_tensor& t) {
    if (!p.entry->packed || p.tiled || t.echo) return false;
    bool any = false;
    for (int o = 0; o < p.n_operands; ++o) {
        const int format = t.operands[o].format;
        const bool coded = p.packable >> o & 1;
        if (coded ? format != I8_SIGNED && format != I8_NONNEG : !is_direct(t.operands[o])) return false;
        any = any || coded;
    }
    return any;
}

// Whether no code of the stage that begins at start means NaN.
inline bool is_clean(const fl_operand& o, int64_t start) {
    bool marked = false;
    for (int64_t b = start / I8_BLOCK; b < (start + FL_STAGE) / I8_BLOCK; ++b) marked |= fl_vec::has_nan(o.scale[b]);
    return !marked;
}

// The last pass over whole clean blocks of 8-bit states; returns how many elements from start on it did.
int64_t write_packed(const fl_job* job, const fl_tensor& t, int64_t start, int64_t n, const float* s) {
    const fl_program& p = *job->program;
    float* io[FL_MAX_OPERANDS];
    uint8_t* codes[FL_MAX_OPERANDS];
    float* scales[FL_MAX_OPERANDS];
    int64_t done = 0;
    for (; done + FL_STAGE <= n; done += FL_STAGE) {
        const int64_t e = start + done;
        for (int o = 0; o < p.n_operands; ++o) {
            const fl_operand& operand = t.operands[o];
            if (!(p.packable >> o & 1)) {
                io[o] = static_cast<float*>(operand.data) + e;
                continue;
            }
            if (!is_clean(operand, e)) return done;
            codes[o] = static_cast<uint8_t*>(operand.data) + e;
            scales[o] = operand.scale + e / I8_BLOCK;
        }
        const fl_segment segment{FL_STAGE, io, s, nullptr, nullptr, nullptr, codes, scales};
        p.entry->packed(&segment);
    }
    return done;
}

// The last pass over [start, start + n) of a parameter.
void write_range(const fl_job* job, fl_tensor& t, int64_t start, int64_t n, bool direct, float* s, Place& place,
                 Buffers& buffers) {
    const fl_program& p = *job->program;
    const fl_kernel kernel = p.entry->passes[p.n_passes - 1];
    float* io[FL_MAX_OPERANDS];
    fl_segment segment{n, io, s, place.col, nullptr, nullptr, nullptr, nullptr};
    // Calls the kernel on [at, at + m) of the parameter, whose operands begin at block; rows are segments of their own.
    const auto compute = [&](float* const* block, int64_t at, int64_t m) {
        for (int64_t done = 0; done < m;) {
            int64_t run = m - done;
            if (p.tiled) {
                const int64_t line = (at + done) / t.cols, col = (at + done) % t.cols;
                run = t.cols - col < run ? t.cols - col : run;
                enter_segment(p, t, line / t.rows, line % t.rows, col, place, s);
            }
            for (int o = 0; o < p.n_operands; ++o) io[o] = block[o] + done;
            segment.n = run;
            kernel(&segment);
            done += run;
        }
    };
    if (direct) {
        float* whole[FL_MAX_OPERANDS];
        for (int o = 0; o < p.n_operands; ++o) whole[o] = static_cast<float*>(t.operands[o].data) + start;
        compute(whole, start, n);
        return;
    }
    const uint32_t reads = p.reads[p.n_passes - 1];
    for (int64_t e = start, end = start + n; e < end; e += FL_STAGE) {
        const int64_t m = end - e < FL_STAGE ? end - e : FL_STAGE;
        float* block[FL_MAX_OPERANDS];
        for (int o = 0; o < p.n_operands; ++o) {
            const fl_operand& operand = t.operands[o];
            const bool in_place = is_direct(operand);
            block[o] = in_place ? static_cast<float*>(operand.data) + e : buffers.data[o];
            if (!in_place && (reads >> o & 1)) fetch(t, operand, e, m, block[o]);
        }
        // While this block is computed and encoded the memory would idle: ask for the one after the next.
        if (e + PREFETCH_AHEAD + FL_STAGE <= t.numel)
            for (int o = 0; o < p.n_operands; ++o) {
                const fl_operand& operand = t.operands[o];
                if (operand.strides) continue;
                const char* data = static_cast<const char*>(operand.data);
                prefetch_lines(data + bytes_of(operand.format, e + PREFETCH_AHEAD), bytes_of(operand.format, m));
            }
        compute(block, e, m);
        for (int o = 0; o < p.n_operands; ++o)
            if ((p.writes >> o & 1) && !is_direct(t.operands[o])) put(t, t.operands[o], e, m, block[o]);
        if (t.echo && (p.writes & 1)) put(t, *t.echo, e, m, block[0]);
    }
}

// The parameter that a task is of; tasks are numbered through all parameters.
int64_t owner_of(const fl_job* job, int64_t task, int64_t fl_tensor::*first) {
    int64_t low = 0, high = job->n_tensors;
    while (low + 1 < high) {
        const int64_t middle = (low + high) / 2;
        (job->tensors[middle].*first <= task ? low : high) = middle;
    }
    return low;
}

void write_chunks(const fl_job* job, fl_tasks& tasks, int worker) {
    const fl_program& p = *job->program;
    Buffers buffers;
    Place place{};
    float s[FL_MAX_SCALARS];
    int64_t current = -1;
    bool direct = false, packed = false;
    for (int64_t begin, end; tasks.take(worker, begin, end);) {
        int64_t index = owner_of(job, begin, &fl_tensor::first_chunk);
        for (int64_t chunk = begin; chunk < end; ++chunk) {
            while (index + 1 < job->n_tensors && job->tensors[index + 1].first_chunk <= chunk) ++index;
            fl_tensor& t = job->tensors[index];
            if (t.row < 0) continue;
            if (index != current) {
                current = index;
                fill_scalars(job, t, index, s);
                if (p.n_vectors) locate_vectors(job, t, place);
                direct = !t.echo;
                for (int o = 0; o < p.n_operands; ++o) direct = direct && is_direct(t.operands[o]);
                packed = is_packed(p, t);
            }
            const int64_t start = (chunk - t.first_chunk) * FL_CHUNK;
            const int64_t n = t.numel - start < FL_CHUNK ? t.numel - start : FL_CHUNK;
            for (int64_t done = 0; done < n;) {
                if (packed) done += write_packed(job, t, start + done, n - done, s);
                // What is left: everything, one stage with a NaN, or the end of the parameter.
                const int64_t rest = packed && n - done > FL_STAGE ? FL_STAGE : n - done;
                if (rest > 0) write_range(job, t, start + done, rest, direct, s, place, buffers);
                done += rest;
            }
        }
    }
}

inline double combine(double a, double b, int is_max) { return is_max ? fl_math::maximum(a, b) : a + b; }

void reduce_tile(const fl_job* job, const fl_tensor& t, int64_t tile, int64_t tile_number, int pass, float* s,
                 Place& place, Buffers& buffers) {
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
        if (red.space == 5) {
            double* at = job->workspace + t.col_partial_at +
                         ((n_col * t.batch + matrix) * tiling.down + strip) * t.cols + col0;
            std::fill(at, at + width, start);
            std::fill(buffers.columns[n_col], buffers.columns[n_col] + width, static_cast<float>(start));
            columns[n_col++] = {red.is_max, at};
        } else if (red.space <= 2) {
            scalar_partial[n_scalar_kind] = start;
            targets[n_out++] = {red.is_max, red.space, n_scalar_kind++};
        } else {
            targets[n_out++] = {red.is_max, red.space, n_row_kind++};
        }
    }
    float *io[FL_MAX_OPERANDS], *col_out[FL_MAX_REDUCTIONS];
    fl_segment segment{0, io, s, place.col, out, col_out, nullptr, nullptr};
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
                io[o] = in_place ? static_cast<float*>(operand.data) + first : buffers.data[o];
                if (!in_place && (p.reads[pass] >> o & 1)) fetch(t, operand, first, m, io[o]);
            }
            if (p.tiled) enter_segment(p, t, matrix, row, col0 + at, place, s);
            for (int i = 0; i < n_col; ++i) col_out[i] = buffers.columns[i] + at;
            segment.n = m;
            kernel(&segment);
            at += m;
        }
        for (int i = 0; i < n_out; ++i) {
            if (targets[i].space <= 2) {
                double& acc = scalar_partial[targets[i].index];
                acc = combine(acc, out[i], targets[i].is_max);
            } else {
                const int64_t line = (targets[i].index * t.batch + matrix) * t.rows + row;
                job->workspace[t.row_partial_at + line * tiling.across + band] = out[i];
            }
        }
        if ((r + 1) % ROWS_IN_FLOAT && r + 1 < height) continue;
        for (int i = 0; i < n_col; ++i) {
            const float start = columns[i].is_max ? -HUGE_VALF : 0.0f;
            for (int64_t c = 0; c < width; ++c) {
                columns[i].at[c] = combine(columns[i].at[c], buffers.columns[i][c], columns[i].is_max);
                buffers.columns[i][c] = start;
            }
        }
    }
}

void reduce_tiles(const fl_job* job, int pass, fl_tasks& tasks, int worker) {
    const fl_program& p = *job->program;
    Buffers buffers;
    Place place{};
    float s[FL_MAX_SCALARS];
    int64_t current = -1;
    for (int64_t begin, end; tasks.take(worker, begin, end);) {
        int64_t index = owner_of(job, begin, &fl_tensor::first_tile);
        for (int64_t tile = begin; tile < end; ++tile) {
            while (index + 1 < job->n_tensors && job->tensors[index + 1].first_tile <= tile) ++index;
            const fl_tensor& t = job->tensors[index];
            if (t.row < 0 || t.numel == 0) continue;
            if (index != current) {
                current = index;
                fill_scalars(job, t, index, s);
                if (p.n_vectors) locate_vectors(job, t, place);
            }
            reduce_tile(job, t, tile - t.first_tile, tile, pass, s, place, buffers);
        }
    }
}

const fl_entry* find(const char* name) {
    for (const fl_entry* table : {FL_SHARD(0), FL_SHARD(1), FL_SHARD(2), FL_SHARD(3)})
        for (const fl_entry* entry = table; entry->name; ++entry)
            if (std::strcmp(entry->name, name) == 0) return entry;
    return nullptr;
}

}  // namespace

#define FL_STRING_(isa) #isa
#define FL_STRING(isa) FL_STRING_(isa)
extern void probe(int, int, float* const*, int64_t, int64_t, int64_t);
extern const fl_backend backend;
const fl_backend backend = {FL_STRING(FL_ISA), find, write_chunks, reduce_tiles, probe};

}  // namespace FL_NS
