// The extern kernel `tree_ensemble` (codegen/kernels/tree_ensemble.cc): compiled programs have the
// interpreter's bits, and calls whose trees would lead a descent astray are refused.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/codegen/compiled.h"
#include "tests/support/random.h"
#include "tests/support/random_trees.h"
#include "tests/support/user_error.h"

namespace braid::test {
namespace {

using ::testing::HasSubstr;

TEST(TreeKernel, HasTheInterpretersBits) {
  Compiled compiled("-O2");
  static constexpr const char* kAggregates[] = {"sum", "min", "max"};
  std::map<std::string, RandomTrees> all;
  const int count = random_cases(12);
  for (int k = 0; k < count; ++k) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(k);
    const std::string name = fmt::format("seed_{}", seed);
    const auto& trees = all.try_emplace(name, seed, k % 2 == 1).first->second;
    compiled.add_schedule(name, schedule_of(trees.packed().text(kAggregates[k % 3])));
  }
  compiled.build();
  for (auto& [name, trees] : all) {
    for (const std::int64_t rows : {0, 1, 7, 8, 9, 40, 600})
      compiled.expect_like_interpreter_on(name, {trees.keys(rows)}, 0,
                                          fmt::format("{}, {} rows", name, rows));
  }
}

// A root with two leaves.
PackedTrees three_nodes() {
  PackedTrees p;
  const std::int64_t root = p.add_node(), left = p.add_node(), right = p.add_node();
  p.set(root, 5, 0, left, 0);
  p.set(left, p.largest(), 0, left, 0);
  p.set(right, p.largest(), 0, right, 1);
  p.weights = {1, 2};
  p.trees = {root, 0, 1, 1};
  return p;
}

std::string refusal(const PackedTrees& p, const std::string& aggregate = "sum") {
  return error_of([&] {
    Compiled compiled;
    compiled.add_schedule("refused", schedule_of(p.text(aggregate)));
  });
}

TEST(TreeKernel, RefusesTreesThatLeadAstray) {
  PackedTrees p = three_nodes();
  EXPECT_THAT(refusal(p, "mean"), HasSubstr("sum, min or max"));
  p.nodes[1] = 1;
  EXPECT_THAT(refusal(p), HasSubstr("nodes that read a column of the keys"));
  p = three_nodes();
  p.nodes[2] = 8;  // its right child would be after the last node
  EXPECT_THAT(refusal(p), HasSubstr("nodes whose children come after them"));
  p = three_nodes();
  p.nodes[6] = 0;  // the root: a cycle
  EXPECT_THAT(refusal(p), HasSubstr("nodes whose children come after them"));
  p = three_nodes();
  p.nodes[4] = 7;
  EXPECT_THAT(refusal(p), HasSubstr("leaves with the largest cut"));
  p = three_nodes();
  p.nodes[11] = 2;
  EXPECT_THAT(refusal(p), HasSubstr("leaves that have weights"));
  p = three_nodes();
  p.trees[0] = 12;
  EXPECT_THAT(refusal(p), HasSubstr("trees whose root is a node"));
  p = three_nodes();
  p.trees[2] = 2;
  EXPECT_THAT(refusal(p), HasSubstr("trees whose targets are those of the result"));
  p = three_nodes();
  p.trees[3] = 2;
  EXPECT_THAT(refusal(p), HasSubstr("the depths of trees"));
  p = three_nodes();
  p.nodes.pop_back();
  EXPECT_THAT(refusal(p), HasSubstr("whole nodes"));
}

TEST(TreeKernel, RefusesOtherOperands) {
  const auto refused = [](const std::string& reads) {
    return error_of([&] {
      Compiled compiled;
      compiled.add(
          "refused",
          "graph g\ninput %k: i32[2, 1] input %x: f32[2, 1] input %nodes: i32[4] input %trees: i32[1, "
          "4] input %w: f32[1]\n%y: f32[2, 1] = extern \"tree_ensemble\" reads(" +
              reads + ") attributes(aggregate = \"sum\")\noutput %y");
    });
  };
  EXPECT_THAT(refused("%k, %nodes, %trees, %w"), HasSubstr("nodes and trees that are constants"));
  EXPECT_THAT(refused("%x, %nodes, %trees, %w"), HasSubstr("keys of int32 or int64"));
  EXPECT_THAT(refused("%k, %nodes, %trees"), HasSubstr("takes keys, nodes, trees and weights"));
}

}  // namespace
}  // namespace braid::test
