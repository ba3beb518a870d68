// Loop kernels of the C++ target against the interpreter.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/codegen/compiled.h"

namespace braid::test {
namespace {

// One library for all tests of this file.
class CppLoops : public ::testing::Test {
 protected:
  static void SetUpTestSuite();
  static void TearDownTestSuite() { compiled_.reset(); }
  static Compiled& compiled() { return *compiled_; }
  static inline std::unique_ptr<Compiled> compiled_;
};

const char* kSoftmax = R"(graph main
dim n in [1, 64]
input %x: f32[n, {width}]
%m: f32[n] = reduction max over [{width}] {{ %0 = load %x store %0 }}
%e: f32[n, {width}] = pointwise {{ %0 = load %x %1 = load %m[i0] %2 = sub %0, %1 %3 = exp %2 store %3 }}
%s: f32[n] = reduction sum over [{width}] {{ %0 = load %e store %0 }}
%y: f32[n, {width}] = pointwise {{ %0 = load %e %1 = load %s[i0] %2 = div %0, %1 store %2 }}
output %y
)";

const char* kLayerNorm = R"(graph main
dim n in [1, 64]
input %x: f32[2, n, 96]
input %g: f32[96]
input %b: f32[96]
%sum: f32[2, n] = reduction sum over [96] { %0 = load %x store %0 }
%mean: f32[2, n] = pointwise { %0 = load %sum %1 = constant f32 96 %2 = div %0, %1 store %2 }
%d: f32[2, n, 96] = pointwise { %0 = load %x %1 = load %mean[n*i0 + i1] %2 = sub %0, %1 store %2 }
%sq: f32[2, n] = reduction sum over [96] { %0 = load %d %1 = mul %0, %0 store %1 }
%r: f32[2, n] = pointwise { %0 = load %sq %1 = constant f32 96 %2 = div %0, %1 %3 = constant f32 1e-5 %4 = add %2, %3 %5 = rsqrt %4 store %5 }
%y: f32[2, n, 96] = pointwise { %0 = load %d %1 = load %r[n*i0 + i1] %2 = mul %0, %1 %3 = load %g[i2] %4 = mul %2, %3 %5 = load %b[i2] %6 = add %4, %5 store %6 }
output %y
)";

// Angles of rows that are narrow, wide and infinite, of all of them in one row; a sine of a sine; a sum.
const char* kAngles = R"(graph main
dim n in [1, 8]
input %x: f32[n, 70] input %f: f32[n]
%y: f32[n, 70] = pointwise { %0 = load %x %1 = load %f[i0] %2 = mul %0, %1 %3 = sin %2 %4 = cos %2 %5 = add %3, %4 store %5 }
%z: f32[70*n] = pointwise { %0 = load %x[i0] %1 = sin %0 %2 = sin %1 store %2 }
%s: f32[n] = reduction sum over [70] { %0 = load %y store %0 }
output %y output %z output %s
)";

// Angles of other types beside narrow ones.
const char* kMixedAngles = R"(graph main
dim n in [1, 8]
input %x: f32[n, 70]
%d: f64[70*n] = pointwise { %0 = load %x[i0] %1 = sin %0 %2 = cast f64 %0 %3 = constant f64 1e6 %4 = mul %2, %3 %5 = sin %4 %6 = cast f64 %1 %7 = add %5, %6 store %7 }
%h: f16[70*n] = pointwise { %0 = load %x[i0] %1 = sin %0 %2 = constant f32 2e4 %3 = mul %0, %2 %4 = cast f16 %3 %5 = sin %4 %6 = cast f16 %1 %7 = add %5, %6 store %7 }
output %d output %h
)";

// Element of a row, chosen by an index that is made of the truth value %1.
const char* kChosenByTruth = R"(graph main
input %x: f32[3, 64]
%y: f32[3, 64] = pointwise {{ %0 = load %x %c = constant f32 0 %1 = gt %0, %c {index} %v = load %x[64*i0 + %k] store %v }}
output %y
)";
const std::pair<const char*, const char*> kTruthIndices[] = {
    {"cast", "%a = cast i64 %1 %k = check_index %a, 64"},
    {"unchecked", "%k = cast i64 %1"},
    {"wrapped",
     "%a = cast i64 %1 %z = constant i64 0 %n = lt %a, %z %w = constant i64 64 %b = add %a, %w %s = where "
     "%n, %b, %a %k = "
     "check_index %s, 64"},
    {"affine", "%a = cast i64 %1 %t = constant i64 3 %b = mul %a, %t %s = constant i64 2 %k = add %b, %s"},
    {"narrow", "%a = cast u8 %1 %t = constant u8 2 %b = mul %a, %t %k = cast i64 %b"},
    {"byte", "%k = cast u8 %1"},
    {"half_word", "%k = cast i16 %1"},
    {"word", "%k = cast i32 %1"},
    {"chosen", "%s = constant i64 7 %t = constant i64 3 %k = where %1, %s, %t"},
    {"of_float", "%a = cast f32 %1 %k = cast i64 %a"},
    {"after_a_row", "%a = cast i64 %1 %r = index i64 i0 %k = add %a, %r"},
};

void CppLoops::SetUpTestSuite() {
  compiled_ = std::make_unique<Compiled>();
  Compiled& c = *compiled_;
  c.add("copy",
        "graph main input %x: f32[5, 7] %y: f32[5, 7] = pointwise { %0 = load %x store %0 } output %y");
  c.add("scalar",
        "graph main input %x: f32[] %y: f32[] = pointwise { %0 = load %x %1 = exp %0 store %1 } output %y");
  c.add("transpose",
        "graph main dim n in [1, 40] input %x: f32[n, 12] %y: f32[12, n] = pointwise { %0 = load %x[12*i1 + "
        "i0] store %0 } output %y");
  c.add("empty",
        "graph main dim n in [0, 4] input %x: f32[n] %y: f32[n] = pointwise { %0 = load %x[0] store %0 } "
        "output "
        "%y");
  c.add("never",
        "graph main input %x: f32[0] %y: f32[0, 3] = pointwise { %0 = load %x[0] store %0 } output %y");
  c.add("softmax", fmt::format(fmt::runtime(kSoftmax), fmt::arg("width", 33)));
  c.add("softmax_wide", fmt::format(fmt::runtime(kSoftmax), fmt::arg("width", 9001)));
  c.add("softmax_unfused", fmt::format(fmt::runtime(kSoftmax), fmt::arg("width", 33)), "plan_memory");
  c.add("angles", kAngles);
  c.add("mixed_angles", kMixedAngles);
  c.add("layer_norm", kLayerNorm);
  c.add("layer_norm_unfused", kLayerNorm, "plan_memory");
  for (const auto& [name, index] : kTruthIndices)
    c.add(name, fmt::format(fmt::runtime(kChosenByTruth), fmt::arg("index", index)));
  c.build();
}

TEST_F(CppLoops, CopyScalarAndTranspose) {
  compiled().expect_like_interpreter("copy", {}, 0);
  compiled().expect_like_interpreter("scalar");
  for (int n : {1, 7, 40}) compiled().expect_like_interpreter("transpose", {{"n", n}}, 0);
}

// An input without elements may be a null pointer.
TEST_F(CppLoops, NothingIsReadOfWhatIsEmpty) {
  for (const char* name : {"empty", "never"}) {
    rt::Program program = compiled().open(name);
    const std::vector<ir::Tensor> out = compiled().run(program, {ir::Tensor{ir::DType::f32, {0}, {}}});
    EXPECT_EQ(out[0].numel(), 0);
  }
  compiled().expect_like_interpreter("empty", {{"n", 3}}, 0);
}

TEST_F(CppLoops, SoftmaxFusedAndUnfusedAtEverySize) {
  for (int n : {1, 3, 64}) {
    for (const char* name : {"softmax", "softmax_wide", "softmax_unfused"})
      compiled().expect_like_interpreter(name, {{"n", n}});
  }
}

TEST_F(CppLoops, LayerNormFusedAndUnfusedAtEverySize) {
  for (int n : {1, 3, 64}) {
    for (const char* name : {"layer_norm", "layer_norm_unfused"})
      compiled().expect_like_interpreter(name, {{"n", n}});
  }
}

TEST_F(CppLoops, NarrowAndWideAngles) {
  for (const std::vector<float>& factors : {std::vector<float>{1, 1e7f, 100, INFINITY},
                                            std::vector<float>{1000}, std::vector<float>{1e20f, -1}}) {
    const auto n = static_cast<std::int64_t>(factors.size());
    compiled().expect_like_interpreter_on(
        "angles", {random_tensor(ir::DType::f32, {n, 70}, 3), ir::make_tensor(ir::DType::f32, {n}, factors)},
        1e-6);
  }
  compiled().expect_like_interpreter("mixed_angles", {{"n", 5}}, 1e-3);
}

// GCC takes the mask of a vector comparison for the offsets of a gathered load (opaque_index).
TEST_F(CppLoops, IndicesMadeOfTruthValues) {
  for (const auto& [name, index] : kTruthIndices) {
    SCOPED_TRACE(name);
    compiled().expect_like_interpreter(name, {}, 0);
  }
}

}  // namespace
}  // namespace braid::test
