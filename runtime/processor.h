// The instruction sets and features of this processor.
#pragma once

#include <cstdint>

namespace braid::rt {

enum class InstructionSet : uint8_t {
  baseline,
  avx2,    // with FMA and F16C
  avx512,  // F, BW, DQ and VL
};

// The widest one for which the runtime has kernels of its own, and which BRAID_INSTRUCTIONS allows.
InstructionSet instruction_set();

// How many processors this thread may run on; at least 1.
int processors_of_this_thread();

// Extensions of x86-64 for which a compiler may have built a program, as bits.
enum ProcessorFeature : uint32_t {
  kFeatureAvx = 1 << 0,
  kFeatureAvx2 = 1 << 1,
  kFeatureFma = 1 << 2,
  kFeatureBmi2 = 1 << 3,
  kFeatureAvx512f = 1 << 4,
  kFeatureAvx512bw = 1 << 5,
  kFeatureAvx512dq = 1 << 6,
  kFeatureAvx512vl = 1 << 7,
  kFeatureAvx512vbmi = 1 << 8,
  kFeatureAvx512vnni = 1 << 9,
  kFeatureAvx512bf16 = 1 << 10,
  kFeatureSse42 = 1 << 11,
  kFeaturePopcnt = 1 << 12,
  kFeatureBmi = 1 << 13,
  kFeatureF16c = 1 << 14,
  kFeatureAvx512ifma = 1 << 15,
  kFeatureAvx512vbmi2 = 1 << 16,
  kFeatureAvx512bitalg = 1 << 17,
  kFeatureAvx512vpopcntdq = 1 << 18,
  kFeatureGfni = 1 << 19,
  kFeatureVpclmulqdq = 1 << 20,
  kFeatureAvxVnni = 1 << 21,
  kFeatureAvx512fp16 = 1 << 22,
};

// The features for which the including translation unit is built.
static constexpr uint32_t kCompiledFeatures = 0
#ifdef __AVX__
                                              | kFeatureAvx
#endif
#ifdef __AVX2__
                                              | kFeatureAvx2
#endif
#ifdef __FMA__
                                              | kFeatureFma
#endif
#ifdef __BMI2__
                                              | kFeatureBmi2
#endif
#ifdef __AVX512F__
                                              | kFeatureAvx512f
#endif
#ifdef __AVX512BW__
                                              | kFeatureAvx512bw
#endif
#ifdef __AVX512DQ__
                                              | kFeatureAvx512dq
#endif
#ifdef __AVX512VL__
                                              | kFeatureAvx512vl
#endif
#ifdef __AVX512VBMI__
                                              | kFeatureAvx512vbmi
#endif
#ifdef __AVX512VNNI__
                                              | kFeatureAvx512vnni
#endif
#ifdef __AVX512BF16__
                                              | kFeatureAvx512bf16
#endif
#ifdef __SSE4_2__
                                              | kFeatureSse42
#endif
#ifdef __POPCNT__
                                              | kFeaturePopcnt
#endif
#ifdef __BMI__
                                              | kFeatureBmi
#endif
#ifdef __F16C__
                                              | kFeatureF16c
#endif
#ifdef __AVX512IFMA__
                                              | kFeatureAvx512ifma
#endif
#ifdef __AVX512VBMI2__
                                              | kFeatureAvx512vbmi2
#endif
#ifdef __AVX512BITALG__
                                              | kFeatureAvx512bitalg
#endif
#ifdef __AVX512VPOPCNTDQ__
                                              | kFeatureAvx512vpopcntdq
#endif
#ifdef __GFNI__
                                              | kFeatureGfni
#endif
#ifdef __VPCLMULQDQ__
                                              | kFeatureVpclmulqdq
#endif
#ifdef __AVXVNNI__
                                              | kFeatureAvxVnni
#endif
#ifdef __AVX512FP16__
                                              | kFeatureAvx512fp16
#endif
    ;

// The name of the first of these features that this processor lacks; null if it has all.
const char* missing_feature(uint32_t features);

}  // namespace braid::rt
