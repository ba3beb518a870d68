#include "codegen/cuda/forms.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/support/build.h"

namespace braid::codegen::cuda {
namespace {

using ir::BodyBuilder;
using ir::BufferId;
using ir::DType;
using ir::Expr;
using ir::LoopBody;
using ir::OpCode;
using ir::OpId;
using ir::ValueId;

constexpr std::int64_t kPortable = 97 * 1024;

struct Loop : test::Builder {
  using Body = std::function<ValueId(BodyBuilder&)>;

  Expr i(std::size_t k) { return pool.index(k); }
  // y[i0, ...] = body
  OpId loop(BufferId y, const Body& body) {
    BodyBuilder b(pool);
    const ValueId value = body(b);
    return emit(
        {"loop", ir::Loops{graph[y].sizes, 0, ir::ReduceKind::sum, b.finish(value), at(y)}, {y}, {}, {}});
  }
  std::string forms(LoopPlan plan) {
    choose_forms(graph, plan);
    return forms_text(graph, plan);
  }
  std::string forms_of(const std::vector<OpId>& ops) {
    const auto node = ir::analyse_fused(graph, ops);
    if (!node) throw std::runtime_error("not a fused node");
    return forms(plan_loops(graph, *node, {}, kPortable));
  }
};

// The forms of y = body(x), elementwise.
std::string forms_of(DType in, DType out, const std::function<ValueId(BodyBuilder&, ValueId)>& body) {
  Loop l;
  const BufferId x = l.input("x", {1024}, in), y = l.result("y", {1024}, out);
  return l.forms(
      plan_loops(l.graph, l.loop(y, [&](BodyBuilder& b) { return body(b, b.load(x, in, l.i(0))); })));
}

// y = x / s, s a sum over the row.
std::string forms_of_row(DType dtype) {
  Loop l;
  const BufferId x = l.input("x", {8, 64}, dtype), s = l.activation("s", {8}, dtype),
                 y = l.result("y", {8, 64}, dtype);
  const OpId sum = l.reduce("sum", s, x);
  const OpId quotient = l.loop(y, [&](BodyBuilder& b) {
    return b.binary(OpCode::div, b.load(x, dtype, l.i(0) * 64 + l.i(1)), b.load(s, dtype, l.i(0)));
  });
  return l.forms_of({sum, quotient});
}

TEST(Forms, ADivisorOfARowBecomesAReciprocal) {
  for (DType dtype : {DType::f32, DType::bf16})
    EXPECT_EQ(forms_of_row(dtype), "y %2 div scaled_product\n") << ir::to_string(dtype);
  EXPECT_EQ(forms_of_row(DType::f16), "y %2 div product\n");  // whatever its value, f32 has the reciprocal
  for (DType dtype : {DType::f64, DType::i32, DType::i64})
    EXPECT_EQ(forms_of_row(dtype), "") << ir::to_string(dtype);
}

TEST(Forms, ADivisorOfEachElementStays) {
  EXPECT_EQ(forms_of(DType::f32, DType::f32, [](auto& b, ValueId x) { return b.binary(OpCode::div, x, x); }),
            "");
  EXPECT_EQ(
      forms_of(DType::f32, DType::f32,
               [](auto& b, ValueId x) { return b.binary(OpCode::div, b.constant_of(DType::f32, 3), x); }),
      "");
}

// A quotient per row has a divisor of its own.
TEST(Forms, AQuotientOfTheRowItselfStays) {
  Loop l;
  const BufferId x = l.input("x", {8, 64}), s = l.activation("s", {8}), q = l.activation("q", {8}),
                 y = l.result("y", {8, 64});
  const OpId sum = l.reduce("sum", s, x);
  const OpId quotient = l.loop(q, [&](BodyBuilder& b) {
    const ValueId v = b.load(s, DType::f32, l.i(0));
    return b.binary(OpCode::div, b.constant_of(DType::f32, 1), v);
  });
  EXPECT_EQ(l.forms_of({sum, quotient, l.add("y", y, {x, q})}), "");
}

// Points in packs along i1, divisors by i0: a pack has one. Without packs it is the divisor of one element.
TEST(Forms, PacksShareADivisor) {
  for (const std::int64_t columns : {64, 77}) {
    Loop l;
    const BufferId x = l.input("x", {8, columns}), s = l.input("s", {8}), y = l.result("y", {8, columns});
    const OpId op = l.loop(y, [&](BodyBuilder& b) {
      return b.binary(OpCode::div, b.load(x, DType::f32, l.i(0) * columns + l.i(1)),
                      b.load(s, DType::f32, l.i(0)));
    });
    EXPECT_EQ(l.forms(plan_loops(l.graph, op)), columns == 64 ? "y %2 div scaled_product\n" : "");
  }
}

TEST(Forms, LiteralDivisorsWithANormalReciprocalBecomeProducts) {
  const auto by = [](double divisor) {
    return forms_of(DType::f32, DType::f32, [&](auto& b, ValueId x) {
      return b.binary(OpCode::div, x, b.constant_of(DType::f32, divisor));
    });
  };
  for (double divisor : {768.0, -0.1, 0x1p126, 0x1p-126})
    EXPECT_EQ(by(divisor), "y %2 div literal_product\n") << divisor;
  for (double divisor : {0.0, -0.0, HUGE_VAL, std::nan(""), 0x1.8p126, 0x1p-127})
    EXPECT_EQ(by(divisor), "") << divisor;
  EXPECT_EQ(literal_reciprocal(1024), 0x1p-10f);
  EXPECT_EQ(literal_reciprocal(768), static_cast<float>(1.0 / 768));
}

// 7.5 / 3 is 2.5 and rounds to 2, 7.5 * 0.33333334 is more.
TEST(Forms, WhatIsRoundedToIntegersStays) {
  const auto rounded = [](OpCode code) {
    return forms_of(DType::f32, DType::f32, [&](auto& b, ValueId x) {
      return b.unary(code, b.binary(OpCode::add, b.binary(OpCode::div, x, b.constant_of(DType::f32, 3)), x));
    });
  };
  for (OpCode code : {OpCode::round, OpCode::floor, OpCode::ceil}) EXPECT_EQ(rounded(code), "");
  EXPECT_EQ(rounded(OpCode::neg), "y %2 div literal_product\n");
  EXPECT_EQ(forms_of(DType::f32, DType::u8,
                     [](auto& b, ValueId x) { return b.cast(b.unary(OpCode::sqrt, x), DType::u8); }),
            "");
  // In a later member.
  Loop l;
  const BufferId x = l.input("x", {8, 64}), q = l.activation("q", {8, 64}), y = l.result("y", {8, 64});
  const auto at = [&](BodyBuilder& b, BufferId from) {
    return b.load(from, DType::f32, l.i(0) * 64 + l.i(1));
  };
  const OpId quotient = l.loop(
      q, [&](BodyBuilder& b) { return b.binary(OpCode::div, at(b, x), b.constant_of(DType::f32, 3)); });
  const OpId round = l.loop(y, [&](BodyBuilder& b) { return b.unary(OpCode::round, at(b, q)); });
  EXPECT_EQ(l.forms_of({quotient, round}), "");
}

TEST(Forms, FunctionsOfF32AndHalvesMakeNoCalls) {
  for (OpCode code : {OpCode::sqrt, OpCode::rsqrt, OpCode::reciprocal, OpCode::sigmoid}) {
    const auto unary = [&](auto& b, ValueId x) { return b.unary(code, x); };
    for (DType dtype : {DType::f32, DType::f16, DType::bf16})
      EXPECT_EQ(forms_of(dtype, dtype, unary), fmt::format("y %1 {} refined\n", ir::to_string(code)));
    EXPECT_EQ(forms_of(DType::f64, DType::f64, unary), "");
  }
}

// y * 0.5 * (erf(y * 0.7) + 1), computed in f32.
ValueId gelu(BodyBuilder& b, ValueId x) {
  const auto f = [&](double v) { return b.constant_of(DType::f32, v); };
  const ValueId wide = b.cast(x, DType::f32), half = b.binary(OpCode::mul, wide, f(0.5));
  const ValueId sum = b.binary(OpCode::add, b.unary(OpCode::erf, b.binary(OpCode::mul, wide, f(0.7))), f(1));
  return b.binary(OpCode::mul, half, sum);
}

TEST(Forms, ErfInASumThatIsRoundedHasFewTerms) {
  for (DType dtype : {DType::f16, DType::bf16}) {
    EXPECT_EQ(forms_of(dtype, dtype, [&](auto& b, ValueId x) { return b.cast(gelu(b, x), dtype); }),
              "y %7 erf for_half\n");
    EXPECT_EQ(forms_of(dtype, DType::f32, gelu), "");
  }
}

// erf(x) of a small x is about x: an absolute error would be all of it.
TEST(Forms, ErfThatIsNotAddedToALargeNumberStays) {
  const auto rounded = [](const std::function<ValueId(BodyBuilder&, ValueId)>& of_erf) {
    return forms_of(DType::f16, DType::f16, [&](auto& b, ValueId x) {
      const ValueId erf = b.unary(OpCode::erf, b.cast(x, DType::f32));
      return b.cast(of_erf(b, erf), DType::f16);
    });
  };
  const auto f = [](BodyBuilder& b, double v) { return b.constant_of(DType::f32, v); };
  const auto plus_one = [&](BodyBuilder& b, ValueId erf) { return b.binary(OpCode::add, erf, f(b, 1)); };
  EXPECT_NE(rounded(plus_one), "");
  EXPECT_EQ(rounded([](auto&, ValueId erf) { return erf; }), "");
  EXPECT_EQ(rounded([&](auto& b, ValueId erf) { return b.binary(OpCode::mul, erf, f(b, 3)); }), "");
  EXPECT_EQ(rounded([&](auto& b, ValueId erf) { return b.binary(OpCode::add, erf, f(b, 0.25)); }), "");
  // The sum, or the value beside it, has another use.
  EXPECT_EQ(rounded([&](auto& b, ValueId erf) { return b.binary(OpCode::mul, plus_one(b, erf), erf); }), "");
  EXPECT_EQ(rounded([&](auto& b, ValueId erf) { return b.binary(OpCode::sub, plus_one(b, erf), f(b, 1)); }),
            "");
  EXPECT_EQ(rounded([&](auto& b, ValueId erf) {
              const ValueId sum = plus_one(b, erf), small = b.binary(OpCode::lt, sum, f(b, 0.1));
              return b.where(small, f(b, 0), sum);
            }),
            "");
}

TEST(Forms, ExpThatIsRoundedHasFewTerms) {
  const auto exp = [](BodyBuilder& b, ValueId x) { return b.unary(OpCode::exp, b.cast(x, DType::f32)); };
  EXPECT_EQ(
      forms_of(DType::f16, DType::f16, [&](auto& b, ValueId x) { return b.cast(exp(b, x), DType::f16); }),
      "y %2 exp for_half\n");
  EXPECT_EQ(forms_of(DType::bf16, DType::bf16, [&](auto& b, ValueId x) { return b.unary(OpCode::exp, x); }),
            "y %1 exp for_half\n");
  // One use is in f32 until the next rounding.
  EXPECT_EQ(forms_of(DType::f16, DType::bf16,
                     [&](auto& b, ValueId x) {
                       const ValueId power = exp(b, x),
                                     rounded = b.cast(b.cast(power, DType::f16), DType::f32);
                       return b.cast(b.binary(OpCode::mul, power, rounded), DType::bf16);
                     }),
            "y %2 exp for_half\n");
  EXPECT_EQ(forms_of(DType::f16, DType::f32, exp), "");
  EXPECT_EQ(forms_of(DType::f32, DType::f32, exp), "");
  // exp(x) - 1 loses the digits that both have.
  EXPECT_EQ(forms_of(DType::f16, DType::f16,
                     [&](auto& b, ValueId x) {
                       return b.cast(b.binary(OpCode::sub, exp(b, x), b.constant_of(DType::f32, 1)),
                                     DType::f16);
                     }),
            "");
}

// A sum of halves is rounded once, after it.
TEST(Forms, ExpInAFoldOfUnroundedValuesStays) {
  Loop l;
  const BufferId x = l.input("x", {8, 64}, DType::f16), s = l.result("s", {8}, DType::f16);
  const auto sum = [&](bool rounds) {
    BodyBuilder b(l.pool);
    ValueId v = b.unary(OpCode::exp, b.cast(b.load(x, DType::f16, l.i(0) * 64 + l.i(1)), DType::f32));
    if (rounds) v = b.cast(v, DType::f16);
    return l.forms(plan_loops(
        l.graph,
        l.emit({"sum", ir::Loops{{8, 64}, 1, ir::ReduceKind::sum, b.finish(v), l.i(0)}, {s}, {}, {}})));
  };
  EXPECT_EQ(sum(false), "");
  EXPECT_EQ(sum(true), "s %2 exp for_half\n");
}

}  // namespace
}  // namespace braid::codegen::cuda
