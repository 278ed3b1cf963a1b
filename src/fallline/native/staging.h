// Operands that are not plain float32 in memory order (16-bit, low-bit, strided) pass through buffers that stay in the L1
// cache, so that kernels see consecutive floats.
#pragma once

#include "engine.h"
#include "formats.h"

namespace FL_NS {
namespace {

struct Staged {
    alignas(64) float operand[FL_MAX_OPERANDS][FL_STAGE];
};

inline bool is_direct(const fl_operand& o) { return o.format == F32 && !o.strides; }

inline int64_t element_bytes(int format) { return format == F32 ? 4 : format == BF16 || format == F16 ? 2 : 1; }

// The bytes of n elements; 4-bit codes lie two in a byte.
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

inline void gather(const fl_tensor& t, const fl_operand& o, int64_t start, int64_t n, float* out) {
    const char* base = static_cast<const char*>(o.data);
    const int64_t size = element_bytes(o.format);
    for_runs(t, o.strides, start, n, [&](int64_t at, int64_t offset, int64_t stride, int64_t run) {
        if (o.format == F32) {
            const float* x = reinterpret_cast<const float*>(base) + offset;
            for (int64_t i = 0; i < run; ++i) out[at + i] = x[i * stride];
        } else {
            for (int64_t i = 0; i < run; ++i)
                load(static_cast<Format>(o.format), base + (offset + i * stride) * size, nullptr, 0, 1, 0, out + at + i);
        }
    });
}

inline Random randomness(const fl_tensor& t, const fl_operand& o, int64_t start) {
    return {o.stochastic != 0, o.key, t.first + start};
}

inline void scatter(const fl_tensor& t, const fl_operand& o, int64_t start, int64_t n, const float* in) {
    char* base = static_cast<char*>(o.data);
    // Rounding comes first, in logical order, because random bits belong to elements, not to their places in memory.
    alignas(64) uint16_t half[FL_STAGE];
    if (o.format != F32) store(static_cast<Format>(o.format), half, nullptr, 0, n, 0, in, randomness(t, o, start));
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

inline void fetch(const fl_tensor& t, const fl_operand& o, int64_t start, int64_t n, float* out) {
    if (o.strides)
        gather(t, o, start, n, out);
    else
        load(static_cast<Format>(o.format), o.data, o.scale, start, n, fl_skew(t), out);
}

// The first and the last block of a piece may go on in other pieces, so that their scale is not known here.  Their values
// are kept, each at its position in the block, and encoded when the scale is known.
inline void keep_edges(const fl_tensor& t, const fl_operand& o, int64_t start, int64_t n, const float* in) {
    const int64_t block = o.format == I4_SIGNED || o.format == I4_NONNEG ? I4_BLOCK : I8_BLOCK;
    const int64_t skew = fl_skew(t), last = (skew + t.numel - 1) / block;
    for (int64_t i = 0; i < n;) {
        const int64_t at = start + i + skew, here = at / block;
        const int64_t count = count_in_block(at, n - i, static_cast<int>(block));
        if (here == skew / block) std::memcpy(o.edges + at % block, in + i, sizeof(float) * count);
        else if (here == last) std::memcpy(o.edges + block + at % block, in + i, sizeof(float) * count);
        i += count;
    }
}

inline void put(const fl_tensor& t, const fl_operand& o, int64_t start, int64_t n, const float* in) {
    if (o.edges) keep_edges(t, o, start, n, in);
    if (o.strides)
        scatter(t, o, start, n, in);
    else
        store(static_cast<Format>(o.format), o.data, o.scale, start, n, fl_skew(t), in, randomness(t, o, 0));
}

}  // namespace
}  // namespace FL_NS
