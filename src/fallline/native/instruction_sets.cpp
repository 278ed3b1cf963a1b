// Finds the instruction sets that this machine can run, when the library is loaded.

#include <cstring>
#include <initializer_list>

#include "engine.h"
#include "exported.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif

namespace fl_baseline { extern const fl_backend backend; }
#ifdef FL_HAVE_avx2
namespace fl_avx2 { extern const fl_backend backend; }
#endif
#ifdef FL_HAVE_avx512
namespace fl_avx512 { extern const fl_backend backend; }
#endif

namespace {

// Checks every extension that CMakeLists.txt lets the compiler use, because a virtual machine may hide any of them.
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

// The prefetchers of Intel's processors leave a part of the bandwidth unused when streams are also written; those of Zen 3
// do not, and requests beside theirs cost 5 to 18 %.  Passes that only read gain on both.
bool prefetch_pays() {
#ifdef __x86_64__
    unsigned a, b, c, d;
    return __get_cpuid(0, &a, &b, &c, &d) && b == signature_INTEL_ebx;
#else
    return false;
#endif
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
