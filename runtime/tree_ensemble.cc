#include "runtime/tree_ensemble.h"

#include <algorithm>
#include <cstring>

#include "runtime/team.h"

namespace braid::rt {
namespace {

// Descents at a time: their loads overlap, so that a step costs its instructions and not the latency of two
// loads.
constexpr int64_t kLanes = 8;
// Steps between two looks at whether all descents have ended.
constexpr int64_t kStepsPerLook = 2;
// Rows that pass through all trees together: the more, the rarer a tree comes from the next cache; their keys
// stay in the second one.
constexpr int64_t kMostRows = 256, kKeyBytes = 128 * 1024;
// Steps of descents below which a second thread costs more than it saves.
constexpr int64_t kParallelSteps = 20000;

// The node after one step.
template <class Key>
inline uint32_t step(const int32_t* nodes, const Key* keys, uint32_t at) {
  const int32_t* const node = nodes + at;
  const int32_t* const members = node + kCutWords<Key>;
  Key cut;
  std::memcpy(&cut, node, sizeof(Key));
  const auto column = static_cast<uint32_t>(members[0]), left = static_cast<uint32_t>(members[1]);
  return left + (keys[column] > cut ? static_cast<uint32_t>(kNodeWords<Key>) : 0);
}

// Descends kLanes times at once, from at[lane] with the keys at `keys(lane)`, by at most `depth` steps.
template <class Key, class Keys>
inline void descend(const int32_t* nodes, const Keys& keys, int64_t depth, uint32_t (&at)[kLanes]) {
  for (int64_t done = 0; done < depth; done += kStepsPerLook) {
    uint32_t moved = 0;
#pragma GCC unroll 16
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      uint32_t now = at[lane];
      for (int64_t k = 0; k + 1 < kStepsPerLook; ++k) now = step<Key>(nodes, keys(lane), now);
      const uint32_t next = step<Key>(nodes, keys(lane), now);
      moved |= next ^ now;
      at[lane] = next;
    }
    if (moved == 0) return;
  }
}

template <class Weight>
inline Weight combined(TreeAggregate aggregate, Weight a, Weight b) {
  if (aggregate == TreeAggregate::sum) return a + b;
  return aggregate == TreeAggregate::min ? std::min(a, b) : std::max(a, b);
}

template <class Key, class Weight>
class Rows {
 public:
  explicit Rows(const TreeEnsemble<Key, Weight>& ensemble) : e_(ensemble) {}

  // Rows [begin, end): kLanes rows per tree, and the last few with kLanes trees per row.
  void run(int64_t begin, int64_t end) const {
    std::fill(e_.y + begin * e_.targets, e_.y + end * e_.targets, tree_identity<Weight>(e_.aggregate));
    const int64_t whole = begin + (end - begin) / kLanes * kLanes;
    for (int64_t t = 0; t < e_.trees; ++t) {
      for (int64_t r = begin; r < whole; r += kLanes) rows_of_tree(t, r);
    }
    for (int64_t r = whole; r < end; ++r) {
      for (int64_t t = 0; t < e_.trees; t += kLanes) trees_of_row(t, std::min(kLanes, e_.trees - t), r);
    }
  }

 private:
  void rows_of_tree(int64_t t, int64_t first) const {
    const int32_t* tree = e_.tree + t * kTreeWords;
    const Key* keys[kLanes];
    uint32_t at[kLanes];
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      keys[lane] = e_.keys + (first + lane) * e_.columns;
      at[lane] = static_cast<uint32_t>(tree[0]);
    }
    descend<Key>(
        e_.nodes, [&](int64_t lane) { return keys[lane]; }, tree[3], at);
    for (int64_t lane = 0; lane < kLanes; ++lane) add(tree, at[lane], first + lane);
  }

  // Lanes beyond `count` repeat the last tree and add nothing.
  void trees_of_row(int64_t first, int64_t count, int64_t row) const {
    const Key* const keys = e_.keys + row * e_.columns;
    uint32_t at[kLanes];
    int32_t depth = 0;
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const int32_t* tree = e_.tree + (first + std::min(lane, count - 1)) * kTreeWords;
      at[lane] = static_cast<uint32_t>(tree[0]);
      depth = std::max(depth, tree[3]);
    }
    descend<Key>(
        e_.nodes, [&](int64_t) { return keys; }, depth, at);
    if (e_.targets == 1) return add_in_register(first, count, at, e_.y[row]);
    for (int64_t lane = 0; lane < count; ++lane) add(e_.tree + (first + lane) * kTreeWords, at[lane], row);
  }

  // The same sum of a single target, which does not wait for the memory of y after every tree.
  void add_in_register(int64_t first, int64_t count, const uint32_t (&at)[kLanes], Weight& y) const {
    Weight sum = y;
    for (int64_t lane = 0; lane < count; ++lane) {
      const int32_t* tree = e_.tree + (first + lane) * kTreeWords;
      if (tree[2] == 1)
        sum = combined(e_.aggregate, sum, e_.weights[e_.nodes[at[lane] + kCutWords<Key> + 2]]);
    }
    y = sum;
  }

  void add(const int32_t* tree, uint32_t leaf, int64_t row) const {
    const Weight* weights = e_.weights + e_.nodes[leaf + kCutWords<Key> + 2];
    Weight* y = e_.y + row * e_.targets + tree[1];
    for (int32_t k = 0; k < tree[2]; ++k) y[k] = combined(e_.aggregate, y[k], weights[k]);
  }

  const TreeEnsemble<Key, Weight>& e_;
};

}  // namespace

template <class Key, class Weight>
void run_tree_ensemble(const TreeEnsemble<Key, Weight>& e) {
  int64_t depths = 0;
  for (int64_t t = 0; t < e.trees; ++t) depths += e.tree[t * kTreeWords + 3] + 1;
  const int64_t row_bytes = std::max<int64_t>(1, e.columns * static_cast<int64_t>(sizeof(Key)));
  const int threads = e.rows * depths < kParallelSteps ? 1 : team_threads();
  const int64_t share = (e.rows + threads - 1) / threads;
  const int64_t most = std::min({kMostRows, kKeyBytes / row_bytes, share});
  const int64_t block = std::max(kLanes, (most + kLanes - 1) / kLanes * kLanes);
  const int64_t blocks = (e.rows + block - 1) / block;
  const Rows<Key, Weight> rows(e);
  parallel_for(blocks, threads > 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) rows.run(b * block, std::min(e.rows, (b + 1) * block));
  });
}

template void run_tree_ensemble(const TreeEnsemble<int32_t, float>&);
template void run_tree_ensemble(const TreeEnsemble<int32_t, double>&);
template void run_tree_ensemble(const TreeEnsemble<int64_t, float>&);
template void run_tree_ensemble(const TreeEnsemble<int64_t, double>&);

}  // namespace braid::rt
