// The functions of one instruction set, as a table for instruction_sets.cpp and interface.cpp.

#include <cstring>
#include <initializer_list>

#include "engine.h"

extern const fl_entry FL_SHARD(0)[], FL_SHARD(1)[], FL_SHARD(2)[], FL_SHARD(3)[];

namespace FL_NS {

void write_chunks(const fl_job*, fl_tasks&, int worker);
void reduce_tiles(const fl_job*, int pass, fl_tasks&, int worker);
void probe(int reads, int writes, float* const* streams, int64_t begin, int64_t end, int64_t ahead);

namespace {

const fl_entry* find(const char* name) {
    for (const fl_entry* table : {FL_SHARD(0), FL_SHARD(1), FL_SHARD(2), FL_SHARD(3)})
        for (const fl_entry* entry = table; entry->name; ++entry)
            if (std::strcmp(entry->name, name) == 0) return entry;
    return nullptr;
}

}  // namespace

#define FL_STRING_(isa) #isa
#define FL_STRING(isa) FL_STRING_(isa)
extern const fl_backend backend;
const fl_backend backend = {FL_STRING(FL_ISA), find, write_chunks, reduce_tiles, probe};

}  // namespace FL_NS
