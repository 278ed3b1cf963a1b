// The data of the engine: the descriptions that Python fills in, and the functions that each instruction set implements.
//
// Everything is plain C: pointers, counts, strides.  Memory belongs to the caller, including the workspace of
// the reductions, so that a sharded model can sum it over its processes between two passes.
#pragma once

#include <cstdint>

#include "kernel.h"

// Every instruction set has its own copy: under one common name the linker would merge code compiled for several.
#ifdef FL_ISA
#define FL_NAME_(isa) fl_##isa
#define FL_NAME(isa) FL_NAME_(isa)
#define FL_NS FL_NAME(FL_ISA)
#endif

// One full-size tensor of one parameter: its place in memory and the format of its elements.
struct fl_operand {
    void* data;
    float* scale;            // scales of low-bit blocks
    const int64_t* strides;  // in elements; null: logical order is memory order
    int32_t format;          // formats.h
    int32_t stochastic;      // 16-bit formats: whether to round at random
    uint64_t key;            // key of the random bits
    float* edges;            // room for the values of the first and the last low-bit block, which other pieces may share
};

// A parameter, or a piece of one.
struct fl_tensor {
    int64_t numel;
    int64_t first;              // the logical index of its first element in the whole parameter
    int64_t whole;              // the elements of the whole parameter
    int64_t batch, rows, cols;  // the view that reductions use; flat: 1, 1, numel
    const int64_t* sizes;       // for strided operands
    int32_t ndim;
    int32_t set;                // its set of scalars; −1: takes no part in this step
    fl_operand* operands;       // parameter, gradient, states
    fl_operand* low_precision_copy;  // the 16-bit parameter beside its float32 master weights, or null
    float* const* small;        // reduced states
    // Filled in by fl_plan:
    int64_t first_chunk, first_tile;
    int64_t vector_at, row_partial_at, col_partial_at;
};

// The indices over which a value varies, as Space in rules/graph.py.
enum fl_space : int32_t { FL_ALL = 1, FL_TENSOR = 2, FL_BATCH = 3, FL_ROW = 4, FL_COL = 5, FL_DIM0 = 6 };

inline bool fl_is_scalar(int space) { return space <= FL_TENSOR; }
inline bool fl_is_row(int space) { return space == FL_ROW || space == FL_DIM0; }

inline int64_t fl_vector_size(const fl_tensor& t, int space) {
    return t.batch * (fl_is_row(space) ? t.rows : space == FL_COL ? t.cols : 1);
}

// The memory of one such array in the workspace: whole cache lines, because a vector that lies in two of them is loaded
// twice, which took a seventh of Adafactor's time.
constexpr int64_t FL_LINE_FLOATS = 16;
inline int64_t fl_vector_room(const fl_tensor& t, int space) {
    return (fl_vector_size(t, space) + FL_LINE_FLOATS - 1) / FL_LINE_FLOATS * FL_LINE_FLOATS;
}

// How the results of two parts are combined.
inline double fl_joined(double a, double b, int is_max) { return is_max ? fl_math::maximum(a, b) : a + b; }

// Where a reduction's result goes.
struct fl_reduction {
    int32_t pass;
    int32_t space;  // fl_space
    int32_t slot;   // scalar or vector
    int32_t is_max;
};

struct fl_program {
    const fl_entry* entry;
    int32_t grad_operand;           // −1: the program does not read it
    int32_t n_operands, n_host, n_scalars, n_vectors, n_passes, n_reductions;
    int32_t tiled;                  // some value is per row or column, so that segments may not cross rows
    uint32_t reads[FL_MAX_PASSES];  // operands that each pass loads
    uint32_t writes;                // operands that the last pass stores
    uint32_t packable;              // operands that the packed kernel takes as 8-bit codes
    const int32_t* vector_space;
    const fl_reduction* reductions;
    int32_t n_segment, n_column;    // vectors that are one number per segment; vectors per column
    const int32_t* segment_vectors;
    const int32_t* column_vectors;
};

struct fl_job {
    const fl_program* program;
    fl_tensor* tensors;
    int64_t n_tensors;
    void* const* grads;      // per parameter; null: it takes no part.  The array itself may be null
    const int32_t* set_of;   // per parameter: its set of scalars
    const double* sets;      // sets of program->n_host scalars
    double grad_factor;
    double* scalars;         // n_tensors × n_scalars
    double* workspace;       // fl_plan returns its size
    // Filled in by fl_plan:
    int64_t chunks, tiles, elements;
    int64_t scalar_partial_at, scalars_per_tile;
};

constexpr int64_t FL_CHUNK = 32768;     // elements of a task of the last pass
constexpr int64_t FL_STAGE = 1024;      // elements staged at once; a multiple of every low-bit block
constexpr int64_t FL_FLAT_TILE = 16384; // elements of a task of a reduction over whole tensors
constexpr int64_t FL_TILE_COLS = 1024;
constexpr int64_t FL_TILE_ELEMENTS = 65536;
constexpr int FL_MAX_OPERANDS = 12;
constexpr int FL_MAX_SCALARS = 128;
constexpr int FL_MAX_REDUCTIONS = 24;

// The position of the first element in its stage.  Blocks, stages and chunks begin where those of the whole parameter do,
// so that a low-bit block belongs to one task.
inline int64_t fl_skew(const fl_tensor& t) { return t.first % FL_STAGE; }

// The tiles of a parameter: their height in rows and width in columns; a tile never spans two matrices.
struct fl_tiling {
    int64_t height, width, down, across;
};

inline fl_tiling fl_tiles_of(const fl_tensor& t, bool tiled) {
    fl_tiling r;
    r.width = tiled ? FL_TILE_COLS : FL_FLAT_TILE;
    const int64_t cols = t.cols > 0 ? t.cols : 1;
    const int64_t wide = cols < r.width ? cols : r.width;
    r.height = tiled ? (FL_TILE_ELEMENTS / wide > 1 ? FL_TILE_ELEMENTS / wide : 1) : 1;
    r.down = (t.rows + r.height - 1) / r.height;
    r.across = (t.cols + r.width - 1) / r.width;
    return r;
}

// The distance of prefetches in passes that write, on this machine (instruction_sets.cpp).
extern const int64_t fl_ahead;

class fl_tasks;  // tasks.h

// The functions of one instruction set.  Every worker of a pass calls the same function.
struct fl_backend {
    const char* name;
    const fl_entry* (*find)(const char* kernel);
    void (*write_chunks)(const fl_job*, fl_tasks& tasks, int worker);
    void (*reduce_tiles)(const fl_job*, int pass, fl_tasks& tasks, int worker);
    void (*probe)(int reads, int writes, float* const* streams, int64_t begin, int64_t end, int64_t ahead);
};
