#include "tests/gpu_bundle/model_flops.h"

#include <gtest/gtest.h>

#include "bench/gpu/rotation.h"
#include "ir/parser.h"

namespace braid::test {
namespace {

double flops_of_text(const std::string& text) {
  const ir::Schedule schedule = ir::parse_schedule(text, "test");
  return model_flops(schedule.graph, [](const ir::Expr& e) {
    return ir::evaluate(e, [](ir::Expr) { return std::int64_t{3}; });  // n
  });
}

TEST(ModelFlops, OfAConvolutionAreTwicePerTapAndChannel) {
  // 3 images of 4 x 4 pixels with 2 filters of 3 x 3 taps over 5 channels: those in the padding count.
  EXPECT_EQ(flops_of_text(R"(graph main
dim n in [1, 8]
input %x: f16[n, 8, 8, 5]
input %w: f16[2, 5, 3, 3]
%y: f16[n, 4, 4, 2] output = convolution %x, %w [1, 3, 3, 5, 2] strides [0, 3, 1, 9, 45] stride [2, 2] pad [1, 1] into %y [n, 4, 4, 2]
output %y
)"),
            2.0 * (3 * 4 * 4 * 2) * (3 * 3 * 5));
}

TEST(ModelFlops, OfABiasAreOnePerElementAndOfAReluNone) {
  EXPECT_EQ(flops_of_text(R"(graph main
dim n in [1, 8]
input %x: f32[n, 16]
input %b: f32[16]
%y: f32[n, 16] output = pointwise [n, 16] {
  %0 = load %x[16*i0 + i1]
  %1 = load %b[i1]
  %2 = add %0, %1
  %3 = constant f32 0.0
  %4 = max %2, %3
  store %4 at 16*i0 + i1
}
output %y
)"),
            3.0 * 16);
}

TEST(ModelFlops, OfConversionsComparisonsAndIndicesAreNone) {
  EXPECT_EQ(flops_of_text(R"(graph main
dim n in [1, 8]
input %x: f16[n, 16]
%y: f32[n, 16] output = pointwise [n, 16] {
  %0 = index i64 i1
  %1 = constant i64 3
  %2 = add %0, %1
  %3 = constant i64 9
  %4 = lt %2, %3
  %5 = load %x[16*i0 + i1] if %4
  %6 = cast f32 %5
  store %6 at 16*i0 + i1
}
output %y
)"),
            0);
}

TEST(ModelFlops, OfAProductAreTwiceItsMultiplyAdds) {
  EXPECT_EQ(flops_of_text(R"(graph main
dim n in [1, 8]
input %x: f16[n, 40]
input %w: f16[40, 24]
%y: f16[n, 24] output = gemm %x, %w
output %y
)"),
            2.0 * 3 * 40 * 24);
}

// bench/gpu/rotation.py has the same rule; bundle_test.py holds it against the same numbers.
TEST(Rotation, CopiesExceedFourTimesL2) {
  EXPECT_EQ(gpu_bundle::rotation_copies(0, 100, 60, 1'000'000), 3u);
  EXPECT_EQ(gpu_bundle::rotation_copies(0, 240, 60, 1'000'000), 1u);
  EXPECT_EQ(gpu_bundle::rotation_copies(200, 10, 60, 1'000'000), 4u);
  EXPECT_EQ(gpu_bundle::rotation_copies(300, 10, 60, 1'000'000), 1u);
}

TEST(Rotation, CopiesAreBoundedByNumberAndByMemory) {
  EXPECT_EQ(gpu_bundle::rotation_copies(0, 1, 60, 1'000'000), 16u);
  EXPECT_EQ(gpu_bundle::rotation_copies(0, 50, 60, 400), 4u);
  EXPECT_EQ(gpu_bundle::rotation_copies(0, 50, 60, 10), 1u);
  EXPECT_EQ(gpu_bundle::rotation_copies(0, 0, 60, 1'000'000), 16u);
}

}  // namespace
}  // namespace braid::test
