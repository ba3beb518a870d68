// One row per kind of collective: everything that typing, text, interpreter, passes and targets ask about it.
//
// runtime/comm/communicator.h, which must not depend on the compiler, repeats the names and block rules;
// tests/codegen/collective_table_test.cc checks that both agree.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace braid::ir {

// The blocks that one member holds of an operand or a result.
enum class Blocks : std::uint8_t {
  none,
  one,
  all,  // one per member, in the order of the group
};

// A set of algorithms, in the order of the enumeration.
class Algorithms {
 public:
  constexpr Algorithms(std::initializer_list<Algorithm> list) {
    for (Algorithm a : list) bits_ |= 1U << static_cast<unsigned>(a);
  }
  constexpr bool contains(Algorithm a) const { return (bits_ >> static_cast<unsigned>(a) & 1U) != 0; }
  std::vector<Algorithm> list() const;
  std::vector<std::string_view> names() const;

 private:
  unsigned bits_ = 0;
};

struct CollectiveRow {
  CollectiveKind kind;
  std::string_view name;
  Blocks in, out;
  bool reduces;         // combines operands with a ReduceKind
  bool rooted;          // CollectiveKernel::root names the sender or the peer
  bool point_to_point;  // between two members; all others skip it
  // The algorithms that a program may ask for, those that the shared-memory engine executes, and those that
  // CUDA programs execute. CUDA programs have kernels of their own that read peers' memory. NCCL takes no
  // algorithm per call, so everything it does, including its kernels on symmetric memory, is `library`.
  Algorithms algorithms, shared_memory, nccl;

  // All members receive from one, whose operand alone counts.
  constexpr bool from_root() const { return rooted && !point_to_point; }
  // Element k of the result depends on elements k of the operands only: it can be in place, or cut anywhere.
  constexpr bool elementwise() const { return in == Blocks::one && out == Blocks::one; }
};

inline constexpr auto kCollectiveTable = [] {
  using enum CollectiveKind;
  using enum Blocks;
  using enum Algorithm;
  return std::to_array<CollectiveRow>({
      {all_reduce,
       "all_reduce",
       one,
       one,
       true,
       false,
       false,  //
       {automatic, one_shot, two_shot, ring, library},
       {one_shot, two_shot},
       {one_shot, two_shot, library}},
      {all_gather,
       "all_gather",
       one,
       all,
       false,
       false,
       false,  //
       {automatic, one_shot, ring, library},
       {one_shot},
       {one_shot, library}},
      {reduce_scatter,
       "reduce_scatter",
       all,
       one,
       true,
       false,
       false,  //
       {automatic, one_shot, ring, library},
       {one_shot},
       {one_shot, library}},
      {broadcast,
       "broadcast",
       one,
       one,
       false,
       true,
       false,  //
       {automatic, one_shot, ring, library},
       {one_shot},
       {library}},
      {all_to_all,
       "all_to_all",
       all,
       all,
       false,
       false,
       false,  //
       {automatic, one_shot, library},
       {one_shot},
       {library}},
      {send, "send", one, none, false, true, true, {automatic, library}, {}, {library}},
      {recv, "recv", none, one, false, true, true, {automatic, library}, {}, {library}},
  });
}();

constexpr const CollectiveRow& row_of(CollectiveKind kind) {
  return kCollectiveTable[static_cast<std::size_t>(kind)];
}
static_assert([] {
  for (std::size_t k = 0; k < kCollectiveTable.size(); ++k) {
    if (static_cast<std::size_t>(kCollectiveTable[k].kind) != k) return false;
  }
  return kCollectiveTable.size() == static_cast<std::size_t>(CollectiveKind::recv) + 1;
}());

std::optional<CollectiveKind> collective_kind(std::string_view name);
// The inverse of to_string(Algorithm): "" is `unasked`.
std::optional<Algorithm> algorithm_named(std::string_view name);
// True for `unasked` as well.
inline bool has_algorithm(CollectiveKind kind, Algorithm algorithm) {
  return algorithm == Algorithm::unasked || row_of(kind).algorithms.contains(algorithm);
}

// The tensors whose size determines the cost of a collective: its results if a member receives more than it
// contributes, otherwise its operands.
inline const std::vector<TensorRef>& payload(const CollectiveKernel& k) {
  return row_of(k.kind).out > row_of(k.kind).in ? k.outputs : k.inputs;
}
// The number of elements in one block of operand `index` in a group of `members`: the `count` in calls to
// NCCL and to the runtime.
Expr block_elements(const CollectiveKernel& k, std::size_t index, std::int64_t members);

}  // namespace braid::ir
