// Compares the runtime's description of this processor with the kernel's.
#include "runtime/processor.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace braid::test {
namespace {

std::set<std::string> kernels_flags() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("flags")) continue;
    std::istringstream words(line);
    std::set<std::string> flags;
    for (std::string word; words >> word;) flags.insert(word);
    return flags;
  }
  return {};
}

TEST(Processor, HasTheFeaturesThatTheKernelLists) {
  const std::set<std::string> flags = kernels_flags();
  if (flags.empty()) GTEST_SKIP() << "/proc/cpuinfo has no flags";
  for (const auto& [feature, name] : {std::pair{rt::kFeatureAvx, "avx"},
                                      {rt::kFeatureAvx2, "avx2"},
                                      {rt::kFeatureFma, "fma"},
                                      {rt::kFeatureBmi2, "bmi2"},
                                      {rt::kFeatureAvx512f, "avx512f"},
                                      {rt::kFeatureAvx512bw, "avx512bw"},
                                      {rt::kFeatureAvx512dq, "avx512dq"},
                                      {rt::kFeatureAvx512vl, "avx512vl"},
                                      {rt::kFeatureAvx512vbmi, "avx512vbmi"},
                                      {rt::kFeatureAvx512vnni, "avx512_vnni"},
                                      {rt::kFeatureAvx512bf16, "avx512_bf16"},
                                      {rt::kFeatureSse42, "sse4_2"},
                                      {rt::kFeaturePopcnt, "popcnt"},
                                      {rt::kFeatureBmi, "bmi1"},
                                      {rt::kFeatureF16c, "f16c"},
                                      {rt::kFeatureAvx512ifma, "avx512ifma"},
                                      {rt::kFeatureAvx512vbmi2, "avx512_vbmi2"},
                                      {rt::kFeatureAvx512bitalg, "avx512_bitalg"},
                                      {rt::kFeatureAvx512vpopcntdq, "avx512_vpopcntdq"},
                                      {rt::kFeatureGfni, "gfni"},
                                      {rt::kFeatureVpclmulqdq, "vpclmulqdq"},
                                      {rt::kFeatureAvxVnni, "avx_vnni"},
                                      {rt::kFeatureAvx512fp16, "avx512_fp16"}}) {
    const char* missing = rt::missing_feature(feature);
    EXPECT_EQ(missing == nullptr, flags.count(name) > 0) << name;
  }
  EXPECT_EQ(rt::missing_feature(0), nullptr);
  EXPECT_EQ(rt::missing_feature(rt::kCompiledFeatures), nullptr);  // this test runs
}

}  // namespace
}  // namespace braid::test
