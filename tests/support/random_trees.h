// Random trees for the extern kernel `tree_ensemble`, as text and with keys for them.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "ir/tensor.h"

namespace braid::test {

// Trees in the layout of runtime/tree_ensemble.h.
struct PackedTrees {
  bool wide = false;
  std::int64_t columns = 1, targets = 1;
  std::vector<std::int64_t> nodes, trees;
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
  const PackedTrees& packed() const { return packed_; }

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
  PackedTrees packed_;
};

}  // namespace braid::test
