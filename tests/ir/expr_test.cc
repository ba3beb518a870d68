// Random expressions against brute force over every point within their bounds.
#include "ir/expr.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "ir/error.h"
#include "ir/graph.h"
#include "ir/parser.h"
#include "tests/support/random.h"

namespace braid::ir {
namespace {

struct Point {
  std::int64_t a, b, i0, i1;
};

// An expression and what it should be worth.
struct Pair {
  Expr e;
  std::function<std::int64_t(const Point&)> value;
};

std::int64_t floor_of(std::int64_t a, std::int64_t b) { return a / b - (a % b != 0 && a < 0); }

class RandomExpr {
 public:
  explicit RandomExpr(std::uint64_t seed) : random_(seed) {
    a_ = graph_.add_dim("a", {0, 3});
    b_ = graph_.add_dim("b", {1, 4});
    extents_ = {3, b_};
  }

  Graph& graph() { return graph_; }
  Expr a() const { return a_; }
  Expr b() const { return b_; }
  const std::vector<Expr>& extents() const { return extents_; }
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n));
  }

  Pair leaf() {
    switch (below(5)) {
      case 0:
        return {a_, [](const Point& p) { return p.a; }};
      case 1:
        return {b_, [](const Point& p) { return p.b; }};
      case 2:
        return {graph_.pool->index(0), [](const Point& p) { return p.i0; }};
      case 3:
        return {graph_.pool->index(1), [](const Point& p) { return p.i1; }};
      default: {
        const std::int64_t c = below(13) - 6;
        return {c, [c](const Point&) { return c; }};
      }
    }
  }

  Pair divisor() {
    const std::int64_t c = 1 + below(6);
    if (below(3) == 0) return {b_ * c, [c](const Point& p) { return p.b * c; }};
    if (below(4) == 0) return {b_ + c, [c](const Point& p) { return p.b + c; }};
    return {c, [c](const Point&) { return c; }};
  }

  Pair tree(int depth) {
    if (depth == 0) return leaf();
    const Pair x = tree(depth - 1), y = below(3) == 0 ? leaf() : tree(depth - 1);
    const auto f = x.value, g = y.value;
    switch (below(8)) {
      case 0:
      case 1:
        return {x.e + y.e, [f, g](const Point& p) { return f(p) + g(p); }};
      case 2:
        return {x.e - y.e, [f, g](const Point& p) { return f(p) - g(p); }};
      case 3: {
        const Pair z = leaf();
        const auto h = z.value;
        return {x.e * z.e, [f, h](const Point& p) { return f(p) * h(p); }};
      }
      case 4: {
        const Pair d = divisor();
        const auto h = d.value;
        if (below(4) == 0)
          return {ceil_div(x.e, d.e), [f, h](const Point& p) { return -floor_of(-f(p), h(p)); }};
        return {floor_div(x.e, d.e), [f, h](const Point& p) { return floor_of(f(p), h(p)); }};
      }
      case 5: {
        const Pair d = divisor();
        const auto h = d.value;
        return {mod(x.e, d.e), [f, h](const Point& p) { return f(p) - floor_of(f(p), h(p)) * h(p); }};
      }
      case 6:
        return {min(x.e, y.e), [f, g](const Point& p) { return std::min(f(p), g(p)); }};
      default:
        return {max(x.e, y.e), [f, g](const Point& p) { return std::max(f(p), g(p)); }};
    }
  }

  std::int64_t value(Expr e, const Point& p) const {
    return evaluate(e, [&](Expr s) {
      if (s.is_symbol(SymbolKind::index)) return s.symbol_number() == 0 ? p.i0 : p.i1;
      return s == a_ ? p.a : p.b;
    });
  }

  // Every point within the bounds of dimensions and the extents of the loop.
  template <class Fn>
  static void for_each_point(Fn&& fn) {
    for (std::int64_t a = 0; a <= 3; ++a) {
      for (std::int64_t b = 1; b <= 4; ++b) {
        for (std::int64_t i0 = 0; i0 < 3; ++i0) {
          for (std::int64_t i1 = 0; i1 < b; ++i1) fn(Point{a, b, i0, i1});
        }
      }
    }
  }

 private:
  std::mt19937_64 random_;
  Graph graph_;
  Expr a_, b_;
  std::vector<Expr> extents_;
};

template <class Fn>
void for_random_trees(int cases, Fn&& fn) {
  const std::uint64_t seed = test::first_seed();
  for (int i = 0; i < test::random_cases(cases); ++i) {
    SCOPED_TRACE(fmt::format("BRAID_TEST_SEED={}", seed + static_cast<std::uint64_t>(i)));
    RandomExpr random(seed + static_cast<std::uint64_t>(i));
    const Pair p = random.tree(1 + i % 4);
    SCOPED_TRACE(to_string(p.e));
    fn(random, p);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(RandomExpr, ArithmeticKeepsTheValue) {
  for_random_trees(1000, [](RandomExpr& r, const Pair& p) {
    RandomExpr::for_each_point([&](const Point& at) { ASSERT_EQ(r.value(p.e, at), p.value(at)); });
  });
}

TEST(RandomExpr, BoundsHoldAndProofsAreTrue) {
  for_random_trees(1000, [](RandomExpr& r, const Pair& p) {
    const Bounds bound = bounds(p.e, r.extents());
    const bool non_negative = provably_non_negative(p.e, r.extents()),
               less = provably_less(p.e, r.a() + 2, r.extents());
    RandomExpr::for_each_point([&](const Point& at) {
      const std::int64_t v = p.value(at);
      ASSERT_LE(bound.min, v);
      ASSERT_GE(bound.max, v);
      ASSERT_TRUE(!non_negative || v >= 0) << v;
      ASSERT_TRUE(!less || v < at.a + 2) << v;
    });
  });
}

TEST(RandomExpr, SimplifyKeepsTheValueWithinTheLoop) {
  for_random_trees(1000, [](RandomExpr& r, const Pair& p) {
    const Expr simple = simplify(p.e, r.extents());
    RandomExpr::for_each_point(
        [&](const Point& at) { ASSERT_EQ(r.value(simple, at), p.value(at)) << to_string(simple); });
  });
}

TEST(RandomExpr, SubstitutionIsComposition) {
  for_random_trees(500, [](RandomExpr& r, const Pair& p) {
    // Indices are never negative: what stands for one must not be either.
    const Pair x = r.tree(1);
    if (!provably_non_negative(x.e, r.extents())) return;
    const Expr replaced = substitute_indices(p.e, std::vector<Expr>{x.e});
    RandomExpr::for_each_point([&](const Point& at) {
      const Point moved{at.a, at.b, x.value(at), at.i1};
      ASSERT_EQ(r.value(replaced, at), p.value(moved)) << to_string(replaced);
    });
  });
}

TEST(RandomExpr, StridesAreDifferences) {
  for_random_trees(500, [](RandomExpr& r, const Pair& p) {
    const Expr i0 = r.graph().pool->index(0);
    const std::optional<Expr> stride = stride_of(p.e, i0);
    if (!stride) return;
    RandomExpr::for_each_point([&](const Point& at) {
      const Point next{at.a, at.b, at.i0 + 1, at.i1};
      ASSERT_EQ(r.value(p.e, next) - r.value(p.e, at), r.value(*stride, at)) << to_string(*stride);
    });
    EXPECT_TRUE(!stride->is_constant(0) || !contains(p.e, i0));
  });
}

TEST(RandomExpr, ExactDivisionUndoesMultiplication) {
  for_random_trees(500, [](RandomExpr& r, const Pair& p) {
    const Expr d = r.divisor().e;
    const std::optional<Expr> quotient = divide_exactly(p.e * d, d);
    ASSERT_TRUE(quotient.has_value());
    EXPECT_EQ(*quotient, p.e);
    const std::optional<Expr> q = divide_exactly(p.e, d);
    EXPECT_TRUE(!q || *q * d == p.e);
  });
}

TEST(RandomExpr, EqualPolynomialsAreTheSameNode) {
  for_random_trees(500, [](RandomExpr& r, const Pair& p) {
    const Expr x = p.e, y = r.tree(2).e, z = r.leaf().e;
    EXPECT_EQ(x + y, y + x);
    EXPECT_EQ((x + y) * z, x * z + y * z);
    EXPECT_EQ(x - x, Expr(0));
    EXPECT_EQ(min(x, y), min(y, x));
    EXPECT_EQ(compare(x, y), -compare(y, x));
    EXPECT_EQ(compare(x, y) == 0, x == y);
  });
}

TEST(RandomExpr, TextReadsBackAsTheSameNode) {
  for_random_trees(
      500, [](RandomExpr& r, const Pair& p) { EXPECT_EQ(parse_expr(to_string(p.e), r.graph()), p.e); });
}

TEST(RandomExpr, SymbolsAreVisitedOnceAndAllOfThem) {
  for_random_trees(200, [](RandomExpr& r, const Pair& p) {
    std::vector<Expr> seen;
    for_each_symbol(p.e, [&](Expr s) { seen.push_back(s); });
    for (std::size_t i = 1; i < seen.size(); ++i) EXPECT_LT(compare(seen[i - 1], seen[i]), 0);
    // A symbol that is not among them does not matter.
    if (contains(p.e, r.a())) return;
    RandomExpr::for_each_point([&](const Point& at) {
      ASSERT_EQ(p.value(at), p.value({0, at.b, at.i0, at.i1}));
    });
  });
}

TEST(Expr, IndexArithmeticOfReshapesFolds) {
  Graph g;
  const Expr n = g.add_dim("n", {1, 64}), i = g.pool->index(0), j = g.pool->index(1);
  const std::vector<Expr> extents = {n, 12};
  EXPECT_EQ(simplify(floor_div(i * 12 + j, 12), extents), i);
  EXPECT_EQ(simplify(mod(i * 12 + j, 12), extents), j);
  EXPECT_EQ(floor_div(floor_div(i, 4), 3), floor_div(i, 12));
  EXPECT_EQ(floor_div(n * i * 4, n), i * 4);
  EXPECT_TRUE(provably_less(i * 12 + j, n * 12, extents));
  EXPECT_FALSE(provably_less(i * 12 + j + 1, n * 12, extents));
}

// The size of an axis that is read backwards and may be empty.
TEST(Expr, PaddedRowsAreNoShorterThanTheirElements) {
  Graph graph;
  const Expr n = graph.add_dim("n", {0, 100}), m = graph.add_dim("m", {0, 100});
  EXPECT_TRUE(provably_non_negative(ceil_div(n, 8) * 8 - n));
  EXPECT_TRUE(provably_non_negative(ceil_div(n, 8) * 8 * m - n * m));
  EXPECT_TRUE(provably_non_negative(n - floor_div(n, 8) * 8));
  EXPECT_TRUE(provably_non_negative(floor_div(n, 8) * 8 - n + 7));
  EXPECT_FALSE(provably_non_negative(floor_div(n, 8) * 8 - n + 6));
  EXPECT_FALSE(provably_non_negative(ceil_div(n, 8) * 8 - n - 1));
}

TEST(Expr, MinimumAbsorbsAMaximumOfItselfAndTheOtherWayRound) {
  Graph g;
  const Expr n = g.add_dim("n", {0, 8});
  EXPECT_EQ(min(3 * n - 1, max(0, 3 * n - 1)), 3 * n - 1);
  EXPECT_EQ(min(max(0, 3 * n - 1), 3 * n - 1), 3 * n - 1);
  EXPECT_EQ(max(n - 1, min(0, n - 1)), n - 1);
  EXPECT_EQ(min(n - 2, max(0, n - 1)), n - 2);
}

TEST(Expr, MinimumOfTwoFormsOfOneValueDoesNotDependOnTheOrder) {
  Graph g;
  const Expr zero =
      floor_div(-1, g.add_dim("n", {1, 8}) * 6) + 1;  // always 0, which is only known by its bounds
  EXPECT_EQ(min(zero, 0), min(0, zero));
  EXPECT_EQ(max(zero, 0), max(0, zero));
}

// Parts are shared in memory; printing and proving walk over them as often as they occur.
TEST(Expr, WhatDoublesWithEveryStepIsAUserErrorAtSomeLength) {
  Graph g;
  Expr size = g.add_dim("n", {1, 100});
  int steps = 0;
  try {
    for (; steps < 64; ++steps) size = floor_div(size, 3) + mod(size, 5);
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), 304);
  }
  EXPECT_GT(steps, 8);
  EXPECT_FALSE(to_string(size).empty());
}

TEST(Expr, ExtremaOfConstantsDoNotOverflow) {
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(min(kMin, kMax), Expr(kMin));
  EXPECT_EQ(max(kMin, kMax), Expr(kMax));
}

}  // namespace
}  // namespace braid::ir
