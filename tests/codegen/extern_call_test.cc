// Extern kernels in C++ programs (codegen/extern_call.h).
#include "codegen/extern_call.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/codegen/compiled.h"
#include "tests/support/extern_kernels.h"
#include "tests/support/user_error.h"

namespace braid::test {
namespace {

using ::testing::HasSubstr;

class ExternCall : public ::testing::Test {
 protected:
  void SetUp() override { register_extern_kernels(); }
};

TEST_F(ExternCall, ProgramsCallWhatTheInterpreterCalls) {
  Compiled compiled("-O1");
  // Strides of a transposed view, a broadcast one, and an operand that is changed in place.
  compiled.add("views", R"(graph g
dim n in [0, 9]
input %x: f32[n, 4] input %v: f32[4]
%y: f32[4, n] = extern "blend" reads(%x [4, n] strides [1, 4]) attributes(scale = 2.0, shift = -3, text = "a\"b")
%z: f32[n, 4] = extern "blend" reads(%v [n, 4] strides [0, 1], %x) attributes(scale = 0.5, shift = 0, text = "")
%z.1 mutates %z = extern "blend" reads(%x, %z) writes(%z.1) attributes(scale = 1e-3, shift = 1, text = "s")
%s: f32[n, 4] = pointwise { %0 = load %z.1 %1 = load %y [i1 * n + i0] %2 = add %0, %1 store %2 }
output %y
output %s)");
  // Two calls of one kernel, whose source stands in the program once, and one inside of a region.
  compiled.add("region", R"(graph g
input %x: f32[3]
%y: f32[3] = pointwise { %0 = load %x store %0 }
%y.1 mutates %y = repeat 3 (%y) {
  %z: f32[3] = extern "host_only" reads(%y) attributes(scale = 3.0, shift = 2, text = "")
  yield %z
}
%w: f32[3] = extern "host_only" reads(%y.1) attributes(scale = -1.0, shift = 0, text = "")
output %w)");
  compiled.build();
  for (std::int64_t n : {0, 1, 5}) compiled.expect_like_interpreter("views", {{"n", n}});
  compiled.expect_like_interpreter("region");
  const std::string& source = compiled.emitted("region").source;
  const std::size_t definition = source.find("static const char* host_only(");
  EXPECT_NE(definition, std::string::npos);
  EXPECT_EQ(source.find("static const char* host_only(", definition + 1), std::string::npos);
}

TEST_F(ExternCall, AFailureEndsTheStepAndNamesTheNode) {
  Compiled compiled("-O1");
  compiled.add("fails", R"(graph g
input %x: f32[2]
%y: f32[2] = extern "blend" reads(%x) attributes(scale = 1.0, shift = 13, text = "") from "/layer/Blend"
output %y)");
  compiled.build();
  rt::Program program = compiled.open("fails");
  try {
    compiled.run(program, {random_tensor(ir::DType::f32, {2}, 1)});
    FAIL() << "the step succeeded";
  } catch (const rt::ProgramError& e) {
    EXPECT_THAT(e.what(), HasSubstr("node '/layer/Blend': the extern kernel failed: 13 is no shift"));
  }
}

// A program of one call, or the refusal.
std::string refusal(const std::string& call) {
  return error_of([&] {
    Compiled compiled;
    compiled.add("refused", fmt::format("graph g\ninput %x: f32[2, 3]\n{}\noutput %y", call));
  });
}

TEST_F(ExternCall, WhatTheTargetCannotCallIsRefused) {
  EXPECT_THAT(refusal("%y: f32[2] = extern \"unheard_of\" reads(%x)"),
              HasSubstr("extern kernel 'unheard_of', which no plug-in registers"));
  EXPECT_THAT(refusal("%y: f32[2] = extern reads(%x)"), HasSubstr("an operation without a body"));
  EXPECT_THAT(refusal("%y: f32[2, 3] = extern \"blend\" reads(%x) barrier"),
              HasSubstr("extern kernel 'blend' as a barrier"));
  EXPECT_THAT(refusal("%y: f32[3, 2] = extern \"host_only\" reads(%x [3, 2] strides [1, 3])"),
              HasSubstr("extern kernel 'host_only' on 'x', which is not row-major"));
  EXPECT_THAT(refusal("%y: f32[1, 1, 1, 1, 1, 1, 1, 2, 3] = extern \"host_only\" reads(%x)"),
              HasSubstr("which has 9 dimensions; at most 8"));
  EXPECT_THAT(refusal("%y: f32[2, 3] = extern \"blend\" reads(%x)"),
              HasSubstr("extern kernel 'blend', which needs the attribute scale"));
  EXPECT_THAT(refusal("%y: f64[2, 3] = extern \"blend\" reads(%x)"),
              HasSubstr("which takes one or two f32 tensors of the sizes of its result"));
}

}  // namespace
}  // namespace braid::test
