// The last pass, which computes and writes: in place where memory allows, packed on 8-bit states, staged otherwise.

#include <algorithm>

#include "segments.h"
#include "staging.h"
#include "tasks.h"

namespace FL_NS {
namespace {

constexpr int64_t PREFETCH_AHEAD = 2 * FL_STAGE;

inline void prefetch_lines(const char* from, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(from + i, 0, 3);
}

static_assert(FL_STAGE <= fl_vec::SPAN, "packed kernels hold a stage");

// Whether the packed kernel can take a parameter: 8-bit states, and all other operands plain float32.
bool is_packed(const fl_program& p, const fl_tensor& t) {
    if (!p.entry->packed || p.tiled || t.low_precision_copy) return false;
    bool any = false;
    for (int o = 0; o < p.n_operands; ++o) {
        const int format = t.operands[o].format;
        const bool coded = p.packable >> o & 1;
        if (coded ? format != I8_SIGNED && format != I8_NONNEG : !is_direct(t.operands[o])) return false;
        any = any || coded;
    }
    return any;
}

// Whether no code of the stage with these scales means NaN.
inline bool is_clean(const float* scale) {
    bool marked = false;
    for (int64_t b = 0; b < FL_STAGE / I8_BLOCK; ++b) marked |= fl_vec::has_nan(scale[b]);
    return !marked;
}

// Runs the last pass over whole stages of 8-bit states without NaN; returns the number of elements done from start on.
int64_t write_packed(const fl_job* job, const fl_tensor& t, int64_t start, int64_t n, const float* s) {
    const fl_program& p = *job->program;
    float* io[FL_MAX_OPERANDS];
    uint8_t* codes[FL_MAX_OPERANDS];
    float* scales[FL_MAX_OPERANDS];
    const int64_t skew = fl_skew(t);
    int64_t done = 0;
    for (; done + FL_STAGE <= n; done += FL_STAGE) {
        const int64_t e = start + done, block = (e + skew) / I8_BLOCK - skew / I8_BLOCK;
        for (int o = 0; o < p.n_operands; ++o) {
            const fl_operand& operand = t.operands[o];
            if (!(p.packable >> o & 1)) {
                io[o] = static_cast<float*>(operand.data) + e;
                continue;
            }
            if (!is_clean(operand.scale + block)) return done;
            codes[o] = static_cast<uint8_t*>(operand.data) + e;
            scales[o] = operand.scale + block;
        }
        const fl_segment segment{FL_STAGE, fl_ahead, io, s, nullptr, nullptr, nullptr, codes, scales, nullptr};
        p.entry->packed(&segment);
    }
    return done;
}

// The number of elements from e on that lie in the same stage.
inline int64_t room_in_stage(const fl_tensor& t, int64_t e) { return FL_STAGE - (e + fl_skew(t)) % FL_STAGE; }

// Whether [start, start + n) is a part of a stage that the whole parameter fills, and other pieces have the rest of it.
inline bool is_cut(const fl_tensor& t, int64_t start, int64_t n) {
    const int64_t at = t.first + start;
    return n < FL_STAGE && at - at % FL_STAGE + FL_STAGE <= t.whole;
}

// Runs the last pass over such a part as over the whole stage, so that its bits are those of the whole parameter: in memory
// where the elements of other pieces are zeros.  Returns whether it did: a code that means NaN is for the plain pass.
bool write_cut(const fl_job* job, const fl_tensor& t, int64_t start, int64_t n, const float* s, Staged& staged) {
    const fl_program& p = *job->program;
    const int64_t skew = fl_skew(t), at = (start + skew) % FL_STAGE, first = at / I8_BLOCK;
    const int64_t block = (start + skew) / I8_BLOCK - skew / I8_BLOCK, blocks = (at + n - 1) / I8_BLOCK - first + 1;
    alignas(64) uint8_t stage_codes[FL_MAX_OPERANDS][FL_STAGE];
    float stage_scales[FL_MAX_OPERANDS][FL_STAGE / I8_BLOCK];
    float* io[FL_MAX_OPERANDS];
    uint8_t* codes[FL_MAX_OPERANDS];
    float* scales[FL_MAX_OPERANDS];
    for (int o = 0; o < p.n_operands; ++o) {
        const fl_operand& operand = t.operands[o];
        io[o] = staged.operand[o];
        if (!(p.packable >> o & 1)) {
            std::memset(io[o], 0, sizeof staged.operand[o]);
            std::memcpy(io[o] + at, static_cast<const float*>(operand.data) + start, sizeof(float) * n);
            continue;
        }
        for (int64_t b = 0; b < blocks; ++b)
            if (fl_vec::has_nan(operand.scale[block + b])) return false;
        codes[o] = stage_codes[o];
        scales[o] = stage_scales[o];
        std::memset(codes[o], 0, sizeof stage_codes[o]);
        std::memcpy(codes[o] + at, static_cast<const uint8_t*>(operand.data) + start, n);
        std::memset(scales[o], 0, sizeof stage_scales[o]);
        std::memcpy(scales[o] + first, operand.scale + block, sizeof(float) * blocks);
    }
    const fl_segment segment{FL_STAGE, 0, io, s, nullptr, nullptr, nullptr, codes, scales, io};
    p.entry->packed(&segment);
    for (int o = 0; o < p.n_operands; ++o) {
        const fl_operand& operand = t.operands[o];
        if (!(p.writes >> o & 1)) continue;
        if (!(p.packable >> o & 1)) {
            std::memcpy(static_cast<float*>(operand.data) + start, io[o] + at, sizeof(float) * n);
            continue;
        }
        // A block at the edge of the piece has no scale yet: its values are kept.
        if (operand.edges) keep_edges(t, operand, start, n, io[o] + at);
        std::memcpy(static_cast<uint8_t*>(operand.data) + start, codes[o] + at, n);
        std::memcpy(operand.scale + block, scales[o] + first, sizeof(float) * blocks);
    }
    return true;
}

// The last pass over [start, start + n) of a parameter.
void write_range(const fl_job* job, fl_tensor& t, int64_t start, int64_t n, bool direct, float* s, Place& place,
                 Staged& staged) {
    const fl_program& p = *job->program;
    const fl_kernel kernel = p.entry->passes[p.n_passes - 1];
    float* io[FL_MAX_OPERANDS];
    fl_segment segment{n, fl_ahead, io, s, place.col, nullptr, nullptr, nullptr, nullptr, nullptr};
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
    for (int64_t e = start, end = start + n, m; e < end; e += m) {
        m = std::min(end - e, room_in_stage(t, e));
        float* block[FL_MAX_OPERANDS];
        for (int o = 0; o < p.n_operands; ++o) {
            const fl_operand& operand = t.operands[o];
            const bool in_place = is_direct(operand);
            block[o] = in_place ? static_cast<float*>(operand.data) + e : staged.operand[o];
            if (!in_place && (reads >> o & 1)) fetch(t, operand, e, m, block[o]);
        }
        // Memory would be idle while this block is computed and encoded, so request the block after the next.
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
        if (t.low_precision_copy && (p.writes & 1)) put(t, *t.low_precision_copy, e, m, block[0]);
    }
}

}  // namespace

void write_chunks(const fl_job* job, fl_tasks& tasks, int worker) {
    const fl_program& p = *job->program;
    Staged staged;
    Place place{};
    float s[FL_MAX_SCALARS];
    int64_t current = -1;
    bool direct = false, packed = false;
    for (int64_t begin, last; tasks.take(worker, begin, last);) {
        int64_t index = owner_of(job, begin, &fl_tensor::first_chunk);
        for (int64_t chunk = begin; chunk < last; ++chunk) {
            while (index + 1 < job->n_tensors && job->tensors[index + 1].first_chunk <= chunk) ++index;
            fl_tensor& t = job->tensors[index];
            if (t.set < 0) continue;
            if (index != current) {
                current = index;
                fill_scalars(job, t, index, s);
                if (p.n_vectors) locate_vectors(job, t, place);
                direct = !t.low_precision_copy;
                for (int o = 0; o < p.n_operands; ++o) direct = direct && is_direct(t.operands[o]);
                packed = is_packed(p, t);
            }
            const int64_t from = (chunk - t.first_chunk) * FL_CHUNK - fl_skew(t);
            const int64_t end = std::min(t.numel, from + FL_CHUNK);
            for (int64_t at = std::max<int64_t>(from, 0); at < end;) {
                if (packed && room_in_stage(t, at) == FL_STAGE) at += write_packed(job, t, at, end - at, s);
                // The rest: all elements, or one stage with a NaN or at an edge of the piece.
                const int64_t rest = packed ? std::min(end - at, room_in_stage(t, at)) : end - at;
                const bool done = packed && rest > 0 && is_cut(t, at, rest) && write_cut(job, t, at, rest, s, staged);
                if (!done && rest > 0) write_range(job, t, at, rest, direct, s, place, staged);
                at += rest;
            }
        }
    }
}

}  // namespace FL_NS
