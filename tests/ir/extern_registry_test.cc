#include "ir/extern_registry.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "ir/error.h"
#include "ir/lowering.h"
#include "ir/parser.h"

namespace braid::ir {
namespace {

// Every element becomes `value`.
ExternFn fill(float value) {
  return [value](ExternCall& call) {
    std::vector<float> values(static_cast<std::size_t>(call.writes[0].numel()), value);
    call.writes[0] = make_tensor(DType::f32, call.writes[0].sizes, values);
  };
}

std::string takes_all(const Graph&, const ExternKernel&) { return {}; }

std::vector<Tensor> run_extern(const std::string& callee, const InterpreterOptions& options = {}) {
  const Schedule schedule = parse_schedule("graph g\ninput %x: f32[2]\n%y: f32[2] = extern \"" + callee +
                                           "\" reads(%x)\noutput %y");
  const std::vector<std::vector<Tensor>> inputs = {{make_tensor(DType::f32, {2}, std::vector<float>{1, 2})}};
  return run(schedule, inputs, options).outputs[0];
}

TEST(ExternRegistry, TheInterpreterCallsWhatIsRegisteredUnlessItIsGivenAnother) {
  register_extern_kernel({.symbol = "registered_fill",
                          .interpret = fill(7),
                          .refuses = takes_all,
                          .kernel_class = KernelClass::other});
  ASSERT_NE(find_extern_kernel("registered_fill"), nullptr);
  const auto filled = [](float v) { return make_tensor(DType::f32, {2}, std::vector<float>{v, v}).bytes; };
  EXPECT_EQ(run_extern("registered_fill")[0].bytes, filled(7));
  InterpreterOptions others;
  others.externs[""] = fill(3);
  EXPECT_EQ(run_extern("registered_fill", others)[0].bytes, filled(7));
  EXPECT_EQ(run_extern("unknown_fill", others)[0].bytes, filled(3));
  InterpreterOptions given;
  given.externs["registered_fill"] = fill(5);
  EXPECT_EQ(run_extern("registered_fill", given)[0].bytes, filled(5));
}

TEST(ExternRegistry, ACallThatTheKernelCannotTakeIsAUserError) {
  register_extern_kernel({.symbol = "picky_fill",
                          .interpret = fill(1),
                          .refuses = [](const Graph&, const ExternKernel&) { return "takes nothing"; },
                          .kernel_class = KernelClass::other});
  try {
    run_extern("picky_fill");
    FAIL() << "it was called";
  } catch (const UserError& e) {
    EXPECT_EQ(e.code(), 703);
    EXPECT_NE(e.message().find("the extern kernel 'picky_fill' takes nothing"), std::string::npos);
  }
}

TEST(ExternRegistry, UnusableKernelsAreRefused) {
  EXPECT_THROW(register_extern_kernel({.symbol = "two words",
                                       .interpret = fill(1),
                                       .refuses = takes_all,
                                       .kernel_class = KernelClass::other}),
               InternalError);
  EXPECT_THROW(
      register_extern_kernel(
          {.symbol = "", .interpret = fill(1), .refuses = takes_all, .kernel_class = KernelClass::other}),
      InternalError);
  EXPECT_THROW(
      register_extern_kernel(
          {.symbol = "1st", .interpret = fill(1), .refuses = takes_all, .kernel_class = KernelClass::other}),
      InternalError);
  EXPECT_THROW(register_extern_kernel(
                   {.symbol = "no_interpret", .refuses = takes_all, .kernel_class = KernelClass::other}),
               InternalError);
  EXPECT_THROW(register_extern_kernel(
                   {.symbol = "no_refuses", .interpret = fill(1), .kernel_class = KernelClass::other}),
               InternalError);
  register_extern_kernel({.symbol = "taken_fill",
                          .interpret = fill(1),
                          .refuses = takes_all,
                          .kernel_class = KernelClass::other});
  EXPECT_THROW(register_extern_kernel({.symbol = "taken_fill",
                                       .interpret = fill(2),
                                       .refuses = takes_all,
                                       .kernel_class = KernelClass::other}),
               InternalError);
}

// A transposed input, as the operand of a kernel.
Graph call_on_transposed(const std::string& symbol) {
  Graph graph;
  Lowering lowering(graph);
  const TensorBox x = lowering.permute(lowering.input("x", DType::f32, {2, 8}), {1, 0});
  lowering.output("y", lowering.extern_call(symbol, {x}, {{DType::f32, x.sizes()}})[0]);
  return graph;
}

const ExternKernel& call_of(const Graph& graph) {
  for (const Operation& op : graph.ops) {
    if (const auto* kernel = op.as<ExternKernel>()) return *kernel;
  }
  throw std::runtime_error("no call");
}

TEST(ExternRegistry, OperandsAreRowMajorUnlessTheKernelTakesAnyStrides) {
  register_extern_kernel({.symbol = "row_major_fill",
                          .interpret = fill(1),
                          .refuses = takes_all,
                          .kernel_class = KernelClass::other});
  register_extern_kernel({.symbol = "strided_fill",
                          .strided = true,
                          .interpret = fill(1),
                          .refuses = takes_all,
                          .kernel_class = KernelClass::other});
  const Graph copied = call_on_transposed("row_major_fill"), viewed = call_on_transposed("strided_fill");
  const TensorRef row_major = call_of(copied).reads[0], strided = call_of(viewed).reads[0];
  EXPECT_TRUE(is_contiguous(row_major.sizes, row_major.strides));
  EXPECT_NE(row_major.buffer, copied.inputs[0].buffer);
  EXPECT_EQ(strided.buffer, viewed.inputs[0].buffer);
  EXPECT_EQ(strided.strides, (std::vector<Expr>{1, 8}));
}

}  // namespace
}  // namespace braid::ir
