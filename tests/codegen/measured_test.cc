// Compiled programs with dimensions that a step measures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/program.h"
#include "tests/codegen/compiled.h"

namespace braid::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ir::Tensor i64_scalar(std::int64_t value) {
  return ir::make_tensor(ir::DType::i64, {}, std::vector<std::int64_t>{value});
}

ir::Tensor measured_ramp(std::vector<std::int64_t> sizes) {
  ir::Tensor t = ir::make_tensor(ir::DType::f32, sizes);
  std::vector<float> values(static_cast<std::size_t>(t.numel()));
  for (std::size_t k = 0; k < values.size(); ++k) values[k] = static_cast<float>((k * 37 + 11) % 23) / 8 - 1;
  return ir::make_tensor(ir::DType::f32, std::move(sizes), values);
}

// Kinds of kernels over rows of which a value says how many there are.
constexpr const char* kMeasuredKinds = R"(graph g
dim n in [0, 40] dim b in [1, 3]
input %x: f32[40, 16] input %c: i64[] input %other: f32[b, 4]
constant %w: f32[16, 24] = splat(0.25)
constant %k: f32[8, 1, 3, 3] = splat(0.125)
measure n %c
%rows: f32[n, 16] = pointwise { %0 = load %x[16*i0 + i1] %1 = tanh %0 store %1 }
%y: f32[n, 24] = gemm %rows, %w
%m: f32[n] = reduction max over [24] { %0 = load %y store %0 }
%s: f32[n] = reduction sum over [24] { %0 = load %y %1 = load %m[i0] %2 = sub %0, %1 %3 = exp %2 store %3 }
%p: f32[n, 24] = pointwise { %0 = load %y %1 = load %m[i0] %2 = sub %0, %1 %3 = exp %2 %4 = load %s[i0] %5 = div %3, %4 store %5 }
%square: f32[24, 24] = gemm %p at 0 [24, n] strides [1, 24], %y
%image: f32[n, 4, 4, 8] = convolution %rows at 0 [n, 4, 4, 1] strides [16, 4, 1, 1], %k at 0 [1, 3, 3, 1, 8] strides [72, 3, 1, 9, 9] pad [1, 1]
%pooled: f32[n, 2, 2, 8] = pool max %image window [2, 2] stride [2, 2]
%across: f32[16, n] = pointwise { %0 = load %rows[16*i1 + i0] store %0 }
%a: f32[1, n, 2, 8] = attention %rows [1, 2, n, 8] strides [16*n, 8, 16, 1], %rows [1, 2, n, 8] strides [16*n, 8, 16, 1], %rows [1, 2, n, 8] strides [16*n, 8, 16, 1] scale 0.5 into %a [1, 2, n, 8] strides [16*n, 8, 16, 1]
%both: f32[n, b] = pointwise { %0 = load %rows[16*i0 + i1] %1 = load %other[4*i1] %2 = add %0, %1 store %2 }
output %p output %square output %pooled output %across output %a output %both)";

TEST(Measured, EveryKindOfKernelRunsOverTheMeasuredSize) {
  for (const bool checked : {false, true}) {
    Compiled compiled;
    compiled.add("kinds", kMeasuredKinds);
    const ir::Schedule schedule = compiled.schedule("kinds");
    compiled.add_schedule("checked", schedule, true);
    compiled.build();
    for (const std::int64_t n : {0, 1, 2, 17, 40, 3})
      compiled.expect_like_interpreter_on(checked ? "checked" : "kinds",
                                          {measured_ramp({40, 16}), i64_scalar(n), measured_ramp({2, 4})},
                                          1e-5, "n = " + std::to_string(n));
  }
}

constexpr const char* kMeasuredPrefix = R"(graph g
dim n in [1, 600]
input %x: f32[600, 8] input %c: i64[]
constant %w: f32[8, 8] = splat(0.5)
measure n %c from "count"
%rows: f32[n, 8] = pointwise { %0 = load %x[8*i0 + i1] store %0 }
%y: f32[n, 8] = gemm %rows, %w
output %y)";

// More sizes than an instance keeps (runtime/instance.cc), each twice.
TEST(Measured, ManySizesOneAfterAnother) {
  Compiled compiled;
  compiled.add("prefix", kMeasuredPrefix);
  compiled.build();
  rt::Program program = compiled.open("prefix");
  const ir::Tensor x = measured_ramp({600, 8});
  const std::vector<float> all = compiled.run(program, {x, i64_scalar(600)})[0].values<float>();
  for (int round = 0; round < 2; ++round) {
    for (std::int64_t n = 600; n >= 1; --n) {
      const std::vector<ir::Tensor> out = compiled.run(program, {x, i64_scalar(n)});
      ASSERT_THAT(out[0].sizes, ElementsAre(n, 8));
      ASSERT_NEAR(out[0].values<float>().back(), all[static_cast<std::size_t>(8 * n - 1)], 1e-5);
    }
  }
}

// The memory of an output is for its largest size, which is not that at the largest measured one.
TEST(Measured, SizesThatFallWhereOthersRise) {
  Compiled compiled;
  compiled.add("rest", R"(graph g
dim n in [0, 40] dim b in [1, 40]
input %x: f32[b, 16] input %c: i64[]
measure n %c
guard n <= b
%y: f32[b - n, 16] = pointwise { %0 = load %x[16*n + 16*i0 + i1] store %0 }
output %y)");
  compiled.build();
  rt::Program program = compiled.open("rest");
  for (const std::int64_t b : {40, 7}) {
    for (const std::int64_t n : {0, 3, 7}) {
      compiled.expect_like_interpreter_on("rest", {measured_ramp({b, 16}), i64_scalar(n)}, 0);
      EXPECT_THAT(compiled.run(program, {measured_ramp({b, 16}), i64_scalar(n)})[0].sizes,
                  ElementsAre(b - n, 16));
      EXPECT_THAT(program.output_shape(0), ElementsAre(40, 16));
    }
  }
  try {
    compiled.run(program, {measured_ramp({2, 16}), i64_scalar(3)});
    ADD_FAILURE();
  } catch (const rt::ProgramError& error) {
    EXPECT_THAT(error.what(), HasSubstr("n <= b does not hold for n = 3, b = 2"));
  }
}

// A step that fails leaves an instance that goes on.
TEST(Measured, AValueBeyondTheCapacityFailsTheStepOnly) {
  Compiled compiled;
  compiled.add("prefix", kMeasuredPrefix);
  compiled.build();
  rt::Program program = compiled.open("prefix");
  EXPECT_EQ(program.table().dims[0].measured, 1);
  const ir::Tensor x = measured_ramp({600, 8});
  for (const auto& [n, message] : {std::pair<std::int64_t, const char*>{601, "more than its capacity of 600"},
                                   {0, "less than 1"},
                                   {-5, "less than 1"},
                                   {std::int64_t{1} << 60, "more than its capacity of 600"}}) {
    try {
      compiled.run(program, {x, i64_scalar(n)});
      ADD_FAILURE() << n;
    } catch (const rt::ProgramError& error) {
      EXPECT_EQ(error.code(), rt::kWrongSize);
      EXPECT_THAT(error.what(), HasSubstr("'count': dimension 'n' is " + std::to_string(n) + ", " + message));
    }
    EXPECT_THAT(compiled.run(program, {x, i64_scalar(7)})[0].sizes, ElementsAre(7, 8));
  }
}

TEST(Measured, GuardsOverMeasuredSizesAreChecked) {
  Compiled compiled;
  compiled.add("guarded", R"(graph g dim n in [0, 5] dim m in [0, 5] guard n == m from "add"
input %a: i64[] input %b: i64[] input %x: f32[5]
measure n %a measure m %b
%y: f32[n] = pointwise { %0 = load %x[i0] %1 = load %x[m - n + i0] %2 = add %0, %1 store %2 }
output %y)");
  compiled.build();
  rt::Program program = compiled.open("guarded");
  EXPECT_THAT(compiled.run(program, {i64_scalar(3), i64_scalar(3), measured_ramp({5})})[0].sizes,
              ElementsAre(3));
  EXPECT_THROW(compiled.run(program, {i64_scalar(3), i64_scalar(2), measured_ramp({5})}), rt::ProgramError);
}

}  // namespace
}  // namespace braid::test
