// The extern kernel `tree_ensemble` (codegen/kernels/tree_ensemble.cc): compiled programs have the
// interpreter's bits, and calls whose trees would lead a descent astray are refused.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "tests/codegen/compiled.h"
#include "tests/support/random.h"
#include "tests/support/user_error.h"

namespace braid::test {
namespace {

using ::testing::HasSubstr;
using Words = std::vector<std::int64_t>;

// Trees in the layout of runtime/tree_ensemble.h.
struct Packed {
  bool wide = false;
  std::int64_t columns = 1, targets = 1;
  Words nodes, trees;
  std::vector<double> weights;

  std::int64_t node_words() const { return wide ? 6 : 4; }
  std::int64_t add_node() {
    nodes.resize(nodes.size() + static_cast<std::size_t>(node_words()));
    return static_cast<std::int64_t>(nodes.size()) - node_words();
  }
  void set(std::int64_t at, std::int64_t cut, std::int64_t column, std::int64_t left, std::int64_t leaf) {
    std::int64_t* word = nodes.data() + at;
    *word++ = static_cast<std::int32_t>(cut);
    if (wide) *word++ = static_cast<std::int32_t>(cut >> 32);
    *word++ = column;
    *word++ = left;
    *word++ = leaf;
  }
  std::int64_t largest() const {
    return wide ? std::numeric_limits<std::int64_t>::max() : std::numeric_limits<std::int32_t>::max();
  }

  std::string text(const std::string& aggregate) const {
    const char* key = wide ? "i64" : "i32";
    const char* real = wide ? "f64" : "f32";
    return fmt::format(
        "graph g\ndim n in [0, 600]\ninput %k: {0}[n, {1}]\nconstant %nodes: i32[{2}] = [{3}]\n"
        "constant %trees: i32[{4}, 4] = [{5}]\nconstant %weights: {6}[{7}] = [{8}]\n"
        "%y: {6}[n, {9}] = extern \"tree_ensemble\" reads(%k, %nodes, %trees, %weights) attributes(aggregate "
        "= "
        "\"{10}\")\noutput %y",
        key, columns, nodes.size(), fmt::join(nodes, ", "), trees.size() / 4, fmt::join(trees, ", "), real,
        weights.size(), fmt::join(weights, ", "), targets, aggregate);
  }
};

class RandomTrees {
 public:
  RandomTrees(std::uint64_t seed, bool wide) : random_(seed) {
    packed_.wide = wide;
    packed_.columns = 1 + below(5);
    packed_.targets = 1 + below(4);
    const std::int64_t trees = 1 + below(20);
    for (std::int64_t t = 0; t < trees; ++t) {
      const std::int64_t first = below(packed_.targets), width = 1 + below(packed_.targets - first);
      const std::int64_t root = packed_.add_node(), depth = grow(root, 1 + below(30), width);
      packed_.trees.insert(packed_.trees.end(), {root, first, width, depth});
    }
  }
  const Packed& packed() const { return packed_; }

  ir::Tensor keys(std::int64_t rows) {
    const std::vector<std::int64_t> sizes = {rows, packed_.columns};
    if (packed_.wide) return ir::make_tensor(ir::DType::i64, sizes, values<std::int64_t>(rows));
    return ir::make_tensor(ir::DType::i32, sizes, values<std::int32_t>(rows));
  }

 private:
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n));
  }

  // Returns the depth.
  std::int64_t grow(std::int64_t at, std::int64_t leaves, std::int64_t width) {
    if (leaves == 1) {
      packed_.set(at, packed_.largest(), 0, at, static_cast<std::int64_t>(packed_.weights.size()));
      for (std::int64_t k = 0; k < width; ++k)
        packed_.weights.push_back(static_cast<double>(below(2000) - 1000) / 64);
      return 0;
    }
    const std::int64_t left = packed_.add_node(), right = packed_.add_node();
    packed_.set(at, cut(), below(packed_.columns), left, 0);
    const std::int64_t share = 1 + below(leaves - 1);
    const std::int64_t depth = grow(left, share, width);
    return 1 + std::max(depth, grow(right, leaves - share, width));
  }

  std::int64_t cut() {
    const std::int64_t small = below(20) - 10;
    return packed_.wide ? small * (std::int64_t{1} << 40) : small;
  }

  template <class T>
  std::vector<T> values(std::int64_t rows) {
    std::vector<T> all(static_cast<std::size_t>(rows * packed_.columns));
    for (T& value : all) {
      value = static_cast<T>(cut());
      if (below(10) == 0)
        value = below(2) == 0 ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max();
    }
    return all;
  }

  std::mt19937_64 random_;
  Packed packed_;
};

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
Packed three_nodes() {
  Packed p;
  const std::int64_t root = p.add_node(), left = p.add_node(), right = p.add_node();
  p.set(root, 5, 0, left, 0);
  p.set(left, p.largest(), 0, left, 0);
  p.set(right, p.largest(), 0, right, 1);
  p.weights = {1, 2};
  p.trees = {root, 0, 1, 1};
  return p;
}

std::string refusal(const Packed& p, const std::string& aggregate = "sum") {
  return error_of([&] {
    Compiled compiled;
    compiled.add_schedule("refused", schedule_of(p.text(aggregate)));
  });
}

TEST(TreeKernel, RefusesTreesThatLeadAstray) {
  Packed p = three_nodes();
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
