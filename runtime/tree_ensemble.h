// Sums (or extremes) of the leaves that rows reach in a set of binary trees: the extern kernel
// `tree_ensemble`.
//
//   y[r, target] = the leaf's weights for the target in every tree, combined in the order of the trees
//
// A node is kNodeWords<Key> words of `nodes`, in this order:
//
//   cut      one word or, of 64-bit keys, two with the low one first; larger keys go right, others left
//   column   of the keys
//   left     the word where the left child begins; the right child follows it
//   leaf     of a leaf, where its weights begin
//
// A leaf is a node that is its own left child and has the largest cut, so that a step from it stays there.
// Hence a descent needs no branch, and rows that arrive early wait. Keys are integers in the order of the
// numbers that they stand for, so that a missing value has a place on either side.
//
// A tree is four words of `trees`: the root, the first target, how many targets its leaves have weights for,
// and the depth, which is the number of steps to the furthest leaf.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace braid::rt {

template <class Key>
inline constexpr int64_t kCutWords = sizeof(Key) / sizeof(int32_t);
template <class Key>
inline constexpr int64_t kNodeWords = kCutWords<Key> == 1 ? 4 : 6;
inline constexpr int64_t kTreeWords = 4;

enum class TreeAggregate : int32_t { sum, min, max };

// Key is int32_t or int64_t, Weight float or double.
template <class Key, class Weight>
struct TreeEnsemble {
  int64_t rows = 0, columns = 0, trees = 0, targets = 0;
  TreeAggregate aggregate = TreeAggregate::sum;
  const Key* keys = nullptr;       // [rows, columns]
  const int32_t* nodes = nullptr;  // words; offsets are right, which the compiler has checked
  const int32_t* tree = nullptr;   // [trees, kTreeWords]
  const Weight* weights = nullptr;
  Weight* y = nullptr;  // [rows, targets]
};

// The value of a target that no leaf has a weight for.
template <class Weight>
constexpr Weight tree_identity(TreeAggregate aggregate) {
  constexpr Weight kInfinity = std::numeric_limits<Weight>::infinity();
  return aggregate == TreeAggregate::sum   ? Weight{0}
         : aggregate == TreeAggregate::min ? kInfinity
                                           : -kInfinity;
}

// On up to team_threads() threads, which share the rows: the bits do not depend on their number.
template <class Key, class Weight>
void run_tree_ensemble(const TreeEnsemble<Key, Weight>& ensemble);

extern template void run_tree_ensemble(const TreeEnsemble<int32_t, float>&);
extern template void run_tree_ensemble(const TreeEnsemble<int32_t, double>&);
extern template void run_tree_ensemble(const TreeEnsemble<int64_t, float>&);
extern template void run_tree_ensemble(const TreeEnsemble<int64_t, double>&);

}  // namespace braid::rt
