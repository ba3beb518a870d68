// Coordinates of the rank: expressions, text, what the verifier refuses, and what the interpreter computes.
#include "ir/coordinate.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "ir/lowering.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "tests/support/coordinates.h"
#include "tests/support/interpreter_runs.h"

namespace braid::ir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Mesh kMesh = {{"dp", 2}, {"one", 1}, {"tp", 3}};

TEST(Coordinate, IsTheRanksPlaceAlongItsAxis) {
  ExprPool pool;
  const Expr dp = coordinate(pool, "dp", 2), tp = coordinate(pool, "tp", 3);
  EXPECT_TRUE(coordinate(pool, "one", 1).is_constant(0));
  for (int r = 0; r < 6; ++r) {
    EXPECT_EQ(coordinate_of(kMesh, dp, r), r / 3);
    EXPECT_EQ(coordinate_of(kMesh, tp, r), r % 3);
  }
  EXPECT_EQ(axis_of(kMesh, tp), 2);
  EXPECT_EQ(axis_of({{"tp", 4}}, tp), std::nullopt);
  EXPECT_EQ(bounds(tp), (Bounds{0, 2}));
  EXPECT_EQ(to_string(5 * tp + dp), "rank(dp) + 5*rank(tp)");
  EXPECT_EQ(tp, coordinate(pool, "tp", 3));
}

TEST(Coordinate, IsNoDimensionOfTheSameName) {
  ExprPool pool;
  const Expr tp = coordinate(pool, "tp", 3), text = coordinate(pool, "x", 3);
  EXPECT_EQ(pool.find_dim("tp"), std::nullopt);
  EXPECT_EQ(pool.find_dim("rank(x)"), std::nullopt);
  const Expr dim = pool.dim("tp", {0, 7}), quoted = pool.dim("rank(x)", {0, 2});
  EXPECT_NE(dim, tp);
  EXPECT_NE(quoted, text);
  EXPECT_FALSE(is_coordinate(dim));
  EXPECT_FALSE(is_coordinate(quoted));
  EXPECT_TRUE(is_coordinate(tp));
  EXPECT_TRUE(depends_on_rank(floor_div(dim + tp, 2)));
  EXPECT_FALSE(depends_on_rank(floor_div(dim, 2)));
}

TEST(Coordinate, BoundsProveRangesAndFold) {
  ExprPool pool;
  const Expr tp = coordinate(pool, "tp", 4), n = pool.dim("n", {1, 9}), i = pool.index(0);
  // Rank r's rows of n each, of 4*n in all.
  EXPECT_TRUE(provably_less(tp * n + i, 4 * n, std::vector<Expr>{n}));
  EXPECT_FALSE(provably_less(tp * n + i, 4 * n - 1, std::vector<Expr>{n}));
  EXPECT_TRUE(provably_non_negative(3 * n - tp * n));
  EXPECT_FALSE(provably_non_negative(3 * n - tp * n - 1));
  EXPECT_EQ(floor_div(8 * tp + 3, 8), tp);
  EXPECT_EQ(mod(tp, 4), tp);
  EXPECT_EQ(max(tp, 0), tp);
  EXPECT_EQ(min(2 * tp, 6), 2 * tp);
  EXPECT_NE(min(2 * tp, 5), 2 * tp);
}

// Against trying all ranks.
TEST(Coordinate, ProofsHoldOnEveryRank) {
  std::mt19937 random(7);
  int proved = 0;
  for (int k = 0; k < 4000; ++k) {
    ExprPool pool;
    const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    const int sizes[] = {1 + pick(4), 1 + pick(3)};
    const Mesh mesh = {{"a", sizes[0]}, {"b", sizes[1]}};
    const std::vector<Expr> leaves = {coordinate(pool, "a", sizes[0]), coordinate(pool, "b", sizes[1]),
                                      pool.dim("n", {1, 3}), pool.index(0), Expr(pick(9) - 4)};
    Expr e = 0;
    for (int t = 0; t < 4; ++t) {
      Expr term = leaves[static_cast<std::size_t>(pick(5))] * leaves[static_cast<std::size_t>(pick(5))];
      if (pick(4) == 0) term = floor_div(term, 1 + pick(3));
      if (pick(4) == 0) term = max(term, leaves[static_cast<std::size_t>(pick(5))]);
      e = e + term * (pick(5) - 2);
    }
    const std::vector<Expr> extents = {leaves[2]};
    const Expr simple = simplify(e, extents);
    const bool non_negative = provably_non_negative(e, extents);
    proved += non_negative ? 1 : 0;
    const Bounds b = bounds(e, extents);
    for (int r = 0; r < sizes[0] * sizes[1]; ++r) {
      for (std::int64_t n = 1; n <= 3; ++n) {
        for (std::int64_t i = 0; i < n; ++i) {
          const auto value = [&](Expr s) {
            return is_coordinate(s) ? coordinate_of(mesh, s, r) : s.is_symbol(SymbolKind::dim) ? n : i;
          };
          const std::int64_t v = evaluate(e, value);
          ASSERT_EQ(evaluate(simple, value), v) << to_string(e) << " and " << to_string(simple);
          ASSERT_TRUE(b.min <= v && v <= b.max) << to_string(e);
          ASSERT_TRUE(!non_negative || v >= 0) << to_string(e);
        }
      }
    }
  }
  EXPECT_GT(proved, 500);
}

TEST(Coordinate, IsFoundInNumbersOfRanks) {
  ExprPool pool;
  const auto found = [&](const std::vector<std::int64_t>& values) {
    const std::optional<Expr> e = in_coordinates(pool, kMesh, values);
    return e ? to_string(*e) : "none";
  };
  EXPECT_EQ(found({4, 4, 4, 4, 4, 4}), "4");
  EXPECT_EQ(found({0, 1, 2, 0, 1, 2}), "rank(tp)");
  EXPECT_EQ(found({7, 5, 3, 17, 15, 13}), "10*rank(dp) - 2*rank(tp) + 7");
  EXPECT_EQ(found({0, 1, 2, 0, 1, 3}), "none");
  EXPECT_EQ(found({0, 0, 1, 0, 0, 1}), "floordiv(rank(tp), 2)");
  EXPECT_EQ(found({0, INT64_MAX, 0, 0, 0, 0}), "none");
  EXPECT_EQ(found({INT64_MIN, INT64_MAX, 0, 0, 0, 0}), "none");
}

TEST(CoordinateText, RoundTrips) {
  const std::string text = print(parse_schedule(test::by_coordinates()));
  EXPECT_THAT(text, HasSubstr("store %0 at 4*rank(tp) + 8*i0 + i1"));
  EXPECT_THAT(text, HasSubstr("rank(\"e p\")"));
  EXPECT_EQ(print(parse_schedule(text)), text);
  EXPECT_THAT(verify(parse_schedule(text)), IsEmpty());
}

void refused(const std::string& statements, const std::string& part) {
  const std::string head =
      "graph g dim n in [1, 4] ranks 4 mesh [dp=2, tp=2] group @tp = axis tp input %x: f32[4, 4]\n";
  try {
    parse_schedule(head + statements);
    ADD_FAILURE() << "accepted: " << statements;
  } catch (const UserError& e) {
    EXPECT_THAT(e.message(), HasSubstr(part)) << statements;
    EXPECT_GT(e.location().line, 1);
  }
}

TEST(CoordinateText, IsRefusedWhereRanksMustBeEqual) {
  refused("guard n == rank(tp)", "rank(tp) depends on the rank");
  refused("input %y: f32[2*rank(tp)]", "2*rank(tp) depends on the rank");
  refused("buffer %y: f32[2] in %x strides [1 + rank(dp)]", "depends on the rank");
  refused("%y: f32[2] = pointwise [1 + rank(tp)] { %0 = load %x[0] store %0 }", "depends on the rank");
  refused("%y: f32[4, 4] = gemm %x, %x [4, 4] strides [4, rank(tp)]", "depends on the rank");
  refused("%y: f32[1] = all_reduce sum @tp (%x at rank(tp) [1]) blocking", "must be equal on all ranks");
  refused("buffer %v: f32[2] in %x at rank(dp)\n%y: f32[2] = all_reduce sum @tp (%v) blocking",
          "must be equal on all ranks");
  refused("%y: f32[2] = pointwise { %0 = load %x[rank(pp)] store %0 }", "the mesh has no axis 'pp'");
  refused("%y mutates %x = repeat rank(tp) (%x) { yield %x }", "depends on the rank");
}

TEST(CoordinateVerifier, KnowsTheAxesAndWhatIsEqualOnAllRanks) {
  const auto violation = [](const std::function<void(Graph&)>& change) {
    Schedule s = parse_schedule(
        "graph g ranks 4 mesh [dp=2, tp=2] input %x: f32[4, 4] buffer %v: f32[2] in %x at rank(tp) "
        "%y: f32[2] output = pointwise { %0 = load %v store %0 } output %y");
    EXPECT_THAT(verify(s), IsEmpty());
    change(s.graph);
    const std::vector<Violation> found = verify(s);
    return found.empty() ? "none" : found[0].message;
  };
  const auto tp = [](Graph& g) { return coordinate(*g.pool, "tp", 2); };
  EXPECT_THAT(violation([](Graph& g) {
                g.mesh = {{"dp", 2}, {"ep", 2}};
              }),
              HasSubstr("rank(tp) is along no axis"));
  EXPECT_THAT(violation([](Graph& g) { g.mesh = {{"tp", 4}}; }), HasSubstr("rank(tp) is along no axis"));
  EXPECT_THAT(violation([&](Graph& g) {
                g.guards.push_back({tp(g), 1, Guard::Relation::equal, "here"});
              }),
              HasSubstr("depends on the rank"));
  EXPECT_THAT(violation([&](Graph& g) { g.buffers[1].sizes[0] = 1 + tp(g); }),
              HasSubstr("depends on the rank"));
  EXPECT_THAT(violation([&](Graph& g) { g.storages[0].bytes = 64 + tp(g); }),
              HasSubstr("depends on the rank"));
  EXPECT_THAT(
      violation([&](Graph& g) { std::get<NonOwningLayout>(g.buffers[1].layout).strides[0] = 1 + tp(g); }),
      HasSubstr("depends on the rank"));
  EXPECT_THAT(violation([&](Graph& g) { g.ops[0].as<Loops>()->store_index = coordinate(*g.pool, "pp", 2); }),
              HasSubstr("rank(pp) is along no axis"));
  EXPECT_THAT(violation([&](Graph& g) { g.ops[0].as<Loops>()->store_index = 2 + tp(g) + g.pool->index(0); }),
              HasSubstr("reaches"));
}

// Every value of a coordinate is that of some rank, so what is beyond a storage on one rank only is an error.
TEST(CoordinateVerifier, RefusesWhatIsOutOfBoundsOnOneRank) {
  const auto violations = [](const std::string& statements) {
    return verify(parse_schedule("graph g ranks 4 mesh [dp=2, tp=2] input %x: f32[6] " + statements));
  };
  const std::string load = "%y: f32[2] output = pointwise {{ %0 = load %x[{}] store %0 }} output %y";
  const auto message = [&](const std::string& index) {
    try {
      const std::vector<Violation> found = violations(fmt::format(fmt::runtime(load), index));
      return found.empty() ? std::string("none") : found[0].message;
    } catch (const UserError& e) {
      return e.message();
    }
  };
  EXPECT_EQ(message("4*rank(tp) + i0"), "none");
  EXPECT_EQ(message("2*rank(tp) + 2*rank(dp) + i0"), "none");
  EXPECT_THAT(message("4*rank(tp) + rank(dp) + i0"), HasSubstr("reaches"));
  EXPECT_THAT(message("5*rank(tp) + i0"), HasSubstr("reaches"));
  EXPECT_THAT(message("i0 - rank(dp)"), HasSubstr("reaches"));
  EXPECT_THAT(message("1 + i0 - rank(dp)"), HasSubstr("none"));
}

TEST(CoordinateInterpreter, EveryRankHasItsOwn) {
  const std::string text = R"(graph g ranks 6 mesh [dp=2, tp=3] group @tp = axis tp
input %x: f32[6]
buffer %part: f32[2] in %x at 2*rank(tp)
%own: f32[2] = pointwise {
  %0 = load %part
  %1 = index i64 100*rank(dp)
  %2 = cast f32 %1
  %3 = add %0, %2
  store %3
}
%zero: f32[6] = pointwise { %0 = constant f32 0.0 store %0 }
%placed mutates %zero = pointwise [2] { %0 = load %own store %0 at i0 + 4 - 2*rank(tp) }
%sum: f32[6] = all_reduce sum @tp (%placed) blocking
output %own output %sum)";
  const auto out = run_ranks(text, std::vector<std::vector<Tensor>>(6, {f32({6}, {1, 2, 3, 4, 5, 6})}));
  for (std::size_t r = 0; r < 6; ++r) {
    const float dp = r < 3 ? 0 : 100, tp = static_cast<float>(r % 3);
    EXPECT_THAT(out[r][0].values<float>(), ElementsAre(dp + 2 * tp + 1, dp + 2 * tp + 2));
    EXPECT_THAT(out[r][1].values<float>(), ElementsAre(dp + 5, dp + 6, dp + 3, dp + 4, dp + 1, dp + 2));
  }
}

// The operand of a collective begins at the same place on every rank: lowering copies a part that does not.
TEST(CoordinateLowering, APartOfARankIsCopiedForACollective) {
  Graph graph;
  graph.ranks = 2;
  graph.mesh = {{"tp", 2}};
  const GroupId tp = graph.add_group("tp", {0, 1});
  Lowering lowering(graph);
  const TensorBox x = lowering.input("x", DType::f32, {4});
  const TensorBox twice = lowering.realize(lowering.pointwise(
      {x}, [](BodyBuilder& b, std::span<const ValueId> v) { return b.binary(OpCode::add, v[0], v[0]); }));
  const TensorBox part = lowering.slice(twice, 0, 2 * coordinate(*graph.pool, "tp", 2), 2);
  lowering.output("y", lowering.all_gather(part, tp, 0));
  Schedule schedule;
  for (OpId op : lowering.order()) schedule.nodes.push_back(ScheduleNode::single(op));
  schedule.graph = std::move(graph);
  EXPECT_THAT(verify(schedule), IsEmpty());
  int collectives = 0;
  for (const Operation& op : schedule.graph.ops) {
    const auto* gather = op.as<CollectiveKernel>();
    if (gather == nullptr) continue;
    ++collectives;
    EXPECT_TRUE(region(schedule.graph, gather->inputs[0]).offset.is_constant(0));
  }
  EXPECT_EQ(collectives, 1);
}

}  // namespace
}  // namespace braid::ir
