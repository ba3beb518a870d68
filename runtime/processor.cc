#include "runtime/processor.h"

#include <sched.h>

#include <algorithm>

#include "runtime/kernel_variables.h"

namespace braid::rt {
namespace {

InstructionSet detect() {
#ifdef __x86_64__
  __builtin_cpu_init();
  const bool avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    return InstructionSet::avx512;
  }
  if (avx2) return InstructionSet::avx2;
#endif
  return InstructionSet::baseline;
}

}  // namespace

InstructionSet instruction_set() {
  static const InstructionSet found = [] {
    const std::string_view widest = word_of(kInstructionsVariable);
    if (widest == "baseline") return InstructionSet::baseline;
    return widest == "avx2" ? std::min(detect(), InstructionSet::avx2) : detect();
  }();
  return found;
}

int processors_of_this_thread() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

const char* missing_feature([[maybe_unused]] uint32_t features) {
#ifdef __x86_64__
  __builtin_cpu_init();
#define BRAID_LACKS(feature, name) \
  if ((features & feature) != 0 && !__builtin_cpu_supports(name)) return name;
  BRAID_LACKS(kFeatureAvx, "avx")
  BRAID_LACKS(kFeatureAvx2, "avx2")
  BRAID_LACKS(kFeatureFma, "fma")
  BRAID_LACKS(kFeatureBmi2, "bmi2")
  BRAID_LACKS(kFeatureAvx512f, "avx512f")
  BRAID_LACKS(kFeatureAvx512bw, "avx512bw")
  BRAID_LACKS(kFeatureAvx512dq, "avx512dq")
  BRAID_LACKS(kFeatureAvx512vl, "avx512vl")
  BRAID_LACKS(kFeatureAvx512vbmi, "avx512vbmi")
  BRAID_LACKS(kFeatureAvx512vnni, "avx512vnni")
  BRAID_LACKS(kFeatureAvx512bf16, "avx512bf16")
  BRAID_LACKS(kFeatureSse42, "sse4.2")
  BRAID_LACKS(kFeaturePopcnt, "popcnt")
  BRAID_LACKS(kFeatureBmi, "bmi")
  BRAID_LACKS(kFeatureF16c, "f16c")
  BRAID_LACKS(kFeatureAvx512ifma, "avx512ifma")
  BRAID_LACKS(kFeatureAvx512vbmi2, "avx512vbmi2")
  BRAID_LACKS(kFeatureAvx512bitalg, "avx512bitalg")
  BRAID_LACKS(kFeatureAvx512vpopcntdq, "avx512vpopcntdq")
  BRAID_LACKS(kFeatureGfni, "gfni")
  BRAID_LACKS(kFeatureVpclmulqdq, "vpclmulqdq")
#ifndef __clang__  // which does not know these names
  BRAID_LACKS(kFeatureAvxVnni, "avxvnni")
  BRAID_LACKS(kFeatureAvx512fp16, "avx512fp16")
#endif
#undef BRAID_LACKS
#endif
  return nullptr;
}

}  // namespace braid::rt
