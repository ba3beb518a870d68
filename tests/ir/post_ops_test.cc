// Steps that are recognised in the epilogue of a product, and others that only look like them.
#include "ir/post_ops.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "ir/activation.h"
#include "ir/parser.h"
#include "ir/scalar.h"
#include "tests/support/random.h"

namespace braid::test {
namespace {

using ir::DType;
using ir::OpCode;
using ir::PostOp;
using ir::ValueId;

// "add_vector relu"; "-" where the epilogue is a loop. %0 is the accumulator in `type`.
std::string found(const std::string& body, const std::string& type = "f32") {
  const std::string acc = type == "f32" ? "%0 = acc f32 " : "%a = acc f32 %0 = cast " + type + " %a ";
  const ir::Schedule s = ir::parse_schedule(
      fmt::format("graph main input %x: {0}[4, 6] input %w: {0}[6, 8] input %b: {0}[8] input %r: {0}[4, 8] "
                  "%y: {0}[4, 8] = gemm %x, %w epilogue {{ {1} {2} }} output %y",
                  type, acc, body));
  ir::Gemm gemm = *s.graph.ops.at(0).as<ir::Gemm>();
  gemm.post_ops = ir::find_post_ops(s.graph, gemm);
  std::string text;
  for (const PostOp& op : gemm.post_ops) text += (text.empty() ? "" : " ") + std::string(to_string(op.kind));
  return ir::named_to_the_end(gemm) ? text : "-";
}

struct Form {
  const char* body;
  const char* ops;
};

TEST(Epilogue, ActivationsInTheSpellingsOfExporters) {
  const Form forms[] = {
      {"%1 = constant f32 0 %2 = max %1, %0 return %2", "relu"},
      {"%1 = constant f32 0 %2 = lt %0, %1 %3 = where %2, %1, %0 return %3", "relu"},
      {"%1 = constant f32 0 %2 = ge %1, %0 %3 = where %2, %1, %0 return %3", "relu"},
      {"%1 = abs %0 %2 = add %0, %1 %3 = constant f32 2 %4 = div %2, %3 return %4", "relu"},
      {"%1 = constant f32 0 %2 = min %0, %1 %3 = sub %0, %2 return %3", "relu"},
      {"%1 = constant f32 0 %2 = gt %0, %1 %3 = cast f32 %2 %4 = mul %3, %0 return %4", "relu"},
      {"%1 = constant f32 0 %2 = max %0, %1 %3 = max %1, %2 return %3", "relu"},
      {"%1 = neg %0 %2 = exp %1 %3 = constant f32 1 %4 = add %3, %2 %5 = div %3, %4 return %5", "sigmoid"},
      {"%1 = neg %0 %2 = exp %1 %3 = constant f32 1 %4 = add %2, %3 %5 = reciprocal %4 return %5", "sigmoid"},
      {"%1 = constant f32 0.5 %2 = mul %0, %1 %3 = tanh %2 %4 = mul %3, %1 %5 = add %4, %1 return %5",
       "sigmoid"},
      {"%1 = constant f32 2 %2 = mul %0, %1 %3 = sigmoid %2 %4 = mul %3, %1 %5 = constant f32 1 %6 = sub %4, "
       "%5 "
       "return %6",
       "tanh"},
      {"%1 = neg %0 %2 = tanh %1 %3 = neg %2 return %3", "tanh"},
      // PyTorch: x / sqrt(2), the half at last.
      {"%1 = constant f32 1.4142135381698608 %2 = div %0, %1 %3 = erf %2 %4 = constant f32 1 %5 = add %3, %4 "
       "%6 = mul %0, %5 %7 = constant f32 0.5 %8 = mul %6, %7 return %8",
       "gelu_erf"},
      // TensorFlow: the half first, a rounded reciprocal root.
      {"%1 = constant f32 0.70710677 %2 = mul %0, %1 %3 = erf %2 %4 = constant f32 1 %5 = add %4, %3 "
       "%6 = constant f32 0.5 %7 = mul %6, %0 %8 = mul %7, %5 return %8",
       "gelu_erf"},
      // JAX: by the error function of -x.
      {"%1 = constant f32 0.5 %2 = sqrt %1 %3 = neg %0 %4 = mul %3, %2 %5 = erf %4 %6 = constant f32 1 "
       "%7 = sub %6, %5 %8 = mul %0, %7 %9 = mul %8, %1 return %9",
       "gelu_erf"},
      // GPT-2: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 pow(x, 3)))).
      {"%1 = constant f32 3 %2 = pow %0, %1 %3 = constant f32 0.044715 %4 = mul %2, %3 %5 = add %0, %4 "
       "%6 = constant f32 0.7978845834732056 %7 = mul %5, %6 %8 = tanh %7 %9 = constant f32 1 %10 = add %8, "
       "%9 "
       "%11 = constant f32 0.5 %12 = mul %0, %11 %13 = mul %12, %10 return %13",
       "gelu_tanh"},
      // "gelu_fast": x 0.7978845608 (1 + 0.044715 x x).
      {"%1 = constant f32 0.044715 %2 = mul %0, %1 %3 = mul %2, %0 %4 = constant f32 1 %5 = add %3, %4 "
       "%6 = constant f32 0.7978845608 %7 = mul %0, %6 %8 = mul %7, %5 %9 = tanh %8 %10 = add %4, %9 "
       "%11 = constant f32 0.5 %12 = mul %0, %11 %13 = mul %12, %10 return %13",
       "gelu_tanh"},
      // By the sigmoid of twice the argument.
      {"%1 = mul %0, %0 %2 = mul %1, %0 %3 = constant f32 0.044714998453855515 %4 = mul %2, %3 %5 = add %0, "
       "%4 "
       "%6 = constant f32 1.5957691216057308 %7 = mul %5, %6 %8 = sigmoid %7 %9 = mul %8, %0 return %9",
       "gelu_tanh"},
  };
  for (const Form& f : forms) {
    EXPECT_EQ(found(f.body), f.ops) << f.body;
  }
}

TEST(Epilogue, LookAlikesAreLoops) {
  const char* const bodies[] = {
      // Clip at 10, ReLU6, capped by a difference of two, switched off above 20.
      "%1 = constant f32 0 %2 = max %0, %1 %3 = constant f32 10 %4 = min %2, %3 return %4",
      "%1 = constant f32 5 %2 = min %0, %1 %3 = constant f32 0 %4 = max %2, %3 return %4",
      "%1 = constant f32 0 %2 = max %0, %1 %3 = constant f32 9 %4 = sub %0, %3 %5 = max %4, %1 %6 = sub %2, "
      "%5 "
      "return %6",
      "%1 = constant f32 0 %2 = max %0, %1 %3 = constant f32 20 %4 = gt %0, %3 %5 = where %4, %1, %2 return "
      "%5",
      "%1 = constant f32 0 %2 = max %0, %1 %3 = constant f32 3.4028234663852886e38 %4 = min %2, %3 return %4",
      // Leaky, bent or bounded elsewhere than at 0.
      "%1 = constant f32 1e-08 %2 = mul %0, %1 %3 = max %0, %2 return %3",
      "%1 = constant f32 0 %2 = lt %0, %1 %3 = constant f32 0.01 %4 = mul %0, %3 %5 = where %2, %4, %0 "
      "return %5",
      "%1 = constant f32 1e-30 %2 = max %0, %1 return %2",
      "%1 = constant f32 0.001 %2 = max %0, %1 return %2",
      "%1 = constant f32 0 %2 = min %0, %1 return %2",
      "%1 = constant f32 -0.0 %2 = max %0, %1 return %2",
      // NaN becomes 0.
      "%1 = constant f32 0 %2 = gt %0, %1 %3 = where %2, %0, %1 return %3",
      // 1 where x is 0, beside a ReLU.
      "%1 = constant f32 0 %2 = ge %0, %1 %3 = gt %0, %1 %4 = cast f32 %2 %5 = cast f32 %3 %6 = sub %4, %5 "
      "%7 = max %0, %1 %8 = add %7, %6 return %8",
      // The sigmoid's approximation of GELU, GELU with other constants, of a bounded argument.
      "%1 = constant f32 1.702 %2 = mul %0, %1 %3 = sigmoid %2 %4 = mul %0, %3 return %4",
      "%1 = mul %0, %0 %2 = mul %1, %0 %3 = constant f32 0.0447 %4 = mul %2, %3 %5 = add %0, %4 "
      "%6 = constant f32 0.7978846 %7 = mul %5, %6 %8 = tanh %7 %9 = constant f32 1 %10 = add %8, %9 "
      "%11 = constant f32 0.5 %12 = mul %0, %11 %13 = mul %12, %10 return %13",
      "%1 = constant f32 0.70703125 %2 = mul %0, %1 %3 = erf %2 %4 = constant f32 1 %5 = add %4, %3 "
      "%6 = constant f32 0.5 %7 = mul %6, %0 %8 = mul %7, %5 return %8",
      "%1 = constant f32 0.5 %2 = mul %0, %1 %3 = constant f32 0.70710677 %4 = constant f32 8 %5 = min %0, "
      "%4 "
      "%6 = mul %5, %3 %7 = erf %6 %8 = constant f32 1 %9 = add %7, %8 %10 = mul %2, %9 return %10",
      // Infinite over infinite from 89 on.
      "%1 = exp %0 %2 = constant f32 1 %3 = add %1, %2 %4 = div %1, %3 return %4",
      "%1 = constant f32 -1 %2 = max %0, %1 %3 = constant f32 1 %4 = min %2, %3 %5 = tanh %4 return %5",
      // Rounds to whole numbers, and to a half type in between.
      "%1 = constant f32 12582912 %2 = add %0, %1 %3 = sub %2, %1 return %3",
      "%1 = constant f32 700 %2 = add %0, %1 %3 = sub %2, %1 return %3",
      "%1 = cast bf16 %0 %2 = cast f32 %1 %3 = constant f32 0 %4 = max %2, %3 return %4",
      "%1 = cast f16 %0 %2 = cast f32 %1 %3 = load %b[i1] %4 = add %2, %3 return %4",
      "%1 = mul %0, %0 %2 = mul %1, %0 %3 = add %2, %0 %4 = sub %3, %2 return %4",
      // Not finite, or 0, as a float32.
      "%1 = constant f32 1e30 %2 = mul %0, %1 %3 = mul %2, %1 %4 = div %3, %1 %5 = div %4, %1 %6 = abs %5 "
      "return %6",
      "%1 = sin %0 return %1",
      "%1 = load %b[i0] %2 = add %0, %1 return %2",
      "%1 = load %b[i0] %2 = mul %0, %1 return %2",
      // Limits of a ReLU6 the wrong way round, and a sixth that is a fifth.
      "%1 = constant f32 0 %2 = min %0, %1 %3 = constant f32 6 %4 = max %2, %3 return %4",
      "%1 = constant f32 3 %2 = add %0, %1 %3 = constant f32 0 %4 = max %2, %3 %5 = constant f32 6 %6 = min "
      "%4, %5 "
      "%7 = mul %0, %6 %8 = constant f32 5 %9 = div %7, %8 return %9",
  };
  for (const char* body : bodies) EXPECT_EQ(found(body), "-") << body;
}

TEST(Epilogue, LimitsAndGates) {
  EXPECT_EQ(found("%1 = constant f32 6 %2 = min %0, %1 %3 = constant f32 0 %4 = max %2, %3 return %4"),
            "relu6");
  EXPECT_EQ(found("%1 = constant f32 0 %2 = max %0, %1 %3 = constant f32 6 %4 = min %2, %3 return %4"),
            "relu6");
  EXPECT_EQ(found("%1 = sigmoid %0 %2 = mul %1, %0 return %2"), "swish");
  EXPECT_EQ(
      found("%1 = constant f32 3 %2 = add %0, %1 %3 = constant f32 0 %4 = max %2, %3 %5 = constant f32 6 "
            "%6 = min %4, %5 %7 = mul %0, %6 %8 = constant f32 6 %9 = div %7, %8 return %9"),
      "hard_swish");
  EXPECT_EQ(found("%1 = constant f32 0.16666667 %2 = mul %0, %1 %3 = constant f32 0.5 %4 = add %2, %3 "
                  "%5 = constant f32 1 %6 = min %4, %5 %7 = constant f32 0 %8 = max %6, %7 %9 = mul %0, %8 "
                  "return %9"),
            "hard_swish");
  EXPECT_EQ(found("%1 = load %b[i1] %2 = mul %0, %1 return %2"), "mul_vector");
}

TEST(Epilogue, ListsOfOperations) {
  EXPECT_EQ(found("return %0"), "identity");
  EXPECT_EQ(found("%1 = constant f32 1 %2 = mul %0, %1 %3 = neg %2 %4 = neg %3 return %4"), "identity");
  EXPECT_EQ(found("%1 = constant f32 8 %2 = div %0, %1 %3 = load %b[i1] %4 = add %3, %2 %5 = tanh %4 "
                  "%6 = load %r %7 = add %5, %6 return %7"),
            "scale add_vector tanh add_matrix");
  EXPECT_EQ(found("%1 = load %b[i1] %2 = add %0, %1 %3 = cast f64 %2 %4 = constant f64 0 %5 = max %3, %4 "
                  "%6 = cast f32 %5 return %6"),
            "add_vector relu");
}

// A value that is also used as an index is needed after the step that it seems to end in.
TEST(Epilogue, AValueThatIsAnIndexPassesBesideTheSteps) {
  EXPECT_EQ(found("%1 = cast i64 %0 %2 = constant i64 0 %3 = max %1, %2 %4 = constant i64 7 %5 = min %3, %4 "
                  "%6 = constant f32 0 %7 = max %0, %6 %8 = load %b[%5] %9 = add %7, %8 return %9"),
            "-");
}

// A constant is rounded to its type, then widened.
TEST(Epilogue, AFactorIsTheConstantInItsType) {
  const auto factor = [](const std::string& constant) -> double {
    const ir::Schedule s = ir::parse_schedule(
        "graph main input %x: f32[4, 6] input %w: f32[6, 8] %y: f32[4, 8] = gemm %x, %w epilogue { %0 = acc "
        "f32 "
        "%1 = constant " +
            constant + " %2 = cast f32 %1 %3 = mul %0, %2 return %3 } output %y",
        "test");
    const std::vector<PostOp> steps = ir::find_post_ops(s.graph, *s.graph.ops.at(0).as<ir::Gemm>());
    return steps.empty() ? NAN : steps[0].factor;
  };
  EXPECT_EQ(factor("f16 0.1"), 0.0999755859375);
  EXPECT_EQ(factor("bf16 0.1"), 0.10009765625);
  EXPECT_TRUE(std::isnan(factor("f16 1e-9"))) << "0 as a half";
  EXPECT_TRUE(std::isnan(factor("f16 1e6"))) << "infinite as a half";
}

TEST(Epilogue, ABodyWhoseResultStandsBeforeTheAccumulatorHasNoSteps) {
  std::string text;
  for (int k = 1; k < 200; ++k) text += " %" + std::to_string(k) + " = constant f32 " + std::to_string(k);
  const ir::Schedule late = ir::parse_schedule(
      "graph main input %x: f32[4, 6] input %w: f32[6, 8] %y: f32[4, 8] = gemm %x, %w epilogue { %0 = "
      "constant f32 3" +
          text + " %200 = acc f32 return %0 } output %y",
      "test");
  EXPECT_TRUE(ir::find_post_ops(late.graph, *late.graph.ops.at(0).as<ir::Gemm>()).empty());
}

// The library rounds once where the epilogue rounds to the output's type at each step; constants are those of
// the type.
TEST(Epilogue, OfHalfTypes) {
  for (const std::string type : {"f16", "bf16"}) {
    const std::string gelu = type == "f16"
                                 ? "%4 = constant f16 0.044708251953125 %7 = constant f16 0.7978515625 "
                                 : "%4 = constant bf16 0.044677734375 %7 = constant bf16 0.796875 ";
    EXPECT_EQ(found(fmt::format("%1 = load %b[i1] %2 = add %0, %1 {1} %3 = constant {0} 3 %5 = pow %2, %3 "
                                "%6 = mul %5, %4 %8 = add %2, %6 %9 = mul %8, %7 %10 = tanh %9 "
                                "%11 = constant {0} 1 %12 = add %10, %11 %13 = constant {0} 0.5 "
                                "%14 = mul %2, %13 %15 = mul %14, %12 return %15",
                                type, gelu),
                    type),
              "add_vector gelu_tanh");
    EXPECT_EQ(found(fmt::format("%1 = cast f32 %0 %2 = constant f32 0.7071067811865476 %3 = mul %1, %2 "
                                "%4 = erf %3 %5 = constant f32 1 %6 = add %4, %5 %7 = mul %1, %6 "
                                "%8 = constant f32 0.5 %9 = mul %7, %8 %10 = cast {} %9 return %10",
                                type),
                    type),
              "gelu_erf");
  }
  // Another half type is less in one way or the other.
  EXPECT_EQ(found("%1 = cast bf16 %0 %2 = cast f16 %1 return %2", "f16"), "-");
  EXPECT_EQ(found("%1 = cast f16 %0 %2 = cast bf16 %1 return %2", "bf16"), "-");
}

double activated(PostOp::Kind a, double x) {
  switch (a) {
    case PostOp::Kind::identity:
      return x;
    case PostOp::Kind::relu:
      return std::max(x, 0.0);
    case PostOp::Kind::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    case PostOp::Kind::gelu_erf:
      return 0.5 * x * (1 + std::erf(x * 0.7071067811865476));
    case PostOp::Kind::tanh:
      return std::tanh(x);
    case PostOp::Kind::sigmoid:
      return 1 / (1 + std::exp(-x));
    case PostOp::Kind::swish:
      return x / (1 + std::exp(-x));
    case PostOp::Kind::relu6:
      return std::min(std::max(x, 0.0), 6.0);
    case PostOp::Kind::hard_swish:
      return x * std::min(std::max(x + 3, 0.0), 6.0) / 6;
    default:
      return NAN;
  }
}

// Random arithmetic over one value, with the constants and functions of activations.
ir::LoopBody random_body(std::mt19937_64& random, ir::ExprPool& pool) {
  const auto pick = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  ir::BodyBuilder b(pool);
  std::vector<ValueId> values = {b.acc(DType::f32)};
  constexpr double kConstants[] = {0,          0,          1,     -1,    0.5, 2,        3,
                                   6,          10,         0.01,  1e-30, 1e7, 0.044715, 0.7978845608,
                                   0.70710678, 1.41421356, 1.702, -0.0};
  constexpr OpCode kUnary[] = {OpCode::neg, OpCode::abs, OpCode::tanh,      OpCode::sigmoid,
                               OpCode::erf, OpCode::exp, OpCode::reciprocal};
  constexpr OpCode kBinary[] = {OpCode::add, OpCode::add, OpCode::sub, OpCode::mul,
                                OpCode::mul, OpCode::div, OpCode::max, OpCode::min};
  constexpr OpCode kCompare[] = {OpCode::lt, OpCode::le, OpCode::gt, OpCode::ge};
  const auto operand = [&] {
    return pick(3) == 0 ? b.constant_of(DType::f32, kConstants[pick(std::size(kConstants))])
                        : values[pick(values.size())];
  };
  for (std::size_t n = 1 + pick(5); n > 0; --n) {
    const std::size_t kind = pick(8);
    if (kind < 2)
      values.push_back(b.unary(kUnary[pick(std::size(kUnary))], values[pick(values.size())]));
    else if (kind < 7)
      values.push_back(b.binary(kBinary[pick(std::size(kBinary))], operand(), operand()));
    else
      values.push_back(b.where(b.binary(kCompare[pick(4)], operand(), operand()), operand(), operand()));
  }
  return b.finish(values.back());
}

// As the interpreter computes it.
double interpreted(const ir::LoopBody& body, double x) {
  std::vector<ir::Scalar> v;
  for (const ir::Instr& instr : body.instrs) {
    ir::Scalar operands[3];
    for (std::size_t k = 0; k < instr.operands.size(); ++k)
      operands[k] = v[static_cast<std::size_t>(instr.operands[k].index)];
    const bool selects = instr.code == OpCode::where;
    if (instr.code == OpCode::acc)
      v.push_back({.d = x});
    else if (instr.code == OpCode::constant)
      v.push_back(ir::to_scalar(instr.literal));
    else
      v.push_back(ir::apply(instr.code, body[instr.operands[selects ? 1 : 0]].dtype, operands[0], operands[1],
                            operands[2]));
  }
  return v.back().d;
}

TEST(Epilogue, WhatIsRecognisedInRandomBodiesHasTheValuesOfTheActivation) {
  std::mt19937_64 random(1);
  ir::ExprPool pool;
  int recognised = 0;
  const int cases = test::random_cases(100000);
  for (int k = 0; k < cases; ++k) {
    const ir::LoopBody body = random_body(random, pool);
    const auto at = [&](OpCode code) {
      return std::find_if(body.instrs.begin(), body.instrs.end(),
                          [&](const ir::Instr& i) { return i.code == code; }) -
             body.instrs.begin();
    };
    const auto acc = static_cast<std::size_t>(at(OpCode::acc));
    if (acc == body.instrs.size()) continue;
    const auto activation =
        ir::activation_between(body, acc, static_cast<std::size_t>(body.result.index), DType::f32);
    if (!activation) continue;
    recognised += *activation != PostOp::Kind::identity;
    for (double x :
         {0.0, 1e-3, 0.1, 0.7, 1.0, 2.3, 5.0, 7.9, 8.1, 9.9, 10.1, 30.0, 88.0, 100.0, 1e3, 1e6, 1e10}) {
      for (double sign : {1.0, -1.0}) {
        const double point = static_cast<float>(x * sign), got = interpreted(body, point);
        ASSERT_NEAR(got, activated(*activation, point), 4e-6 * std::max(1.0, x))
            << to_string(*activation) << " at " << point << ", body " << k;
      }
    }
    ASSERT_TRUE(std::isnan(interpreted(body, NAN))) << to_string(*activation) << ", body " << k;
  }
  EXPECT_GT(recognised, cases / 200);
}

}  // namespace
}  // namespace braid::test
