// One row per kind of collective: the properties that the engines need. The compiler has its own table
// (ir/collective_table.h), since the runtime does not depend on it; tests/codegen/collective_table_test.cc
// checks that both agree.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/comm/communicator.h"

namespace braid::rt {

// The data that one member contributes or receives, in multiples of CollectiveCall::count.
enum class Blocks : uint8_t {
  none,
  one,
  all,  // one per member
};

struct CollectiveRow {
  CollectiveKind kind;
  const char* name;
  Blocks in, out;
  bool reduces;
  bool rooted;  // CollectiveCall::peer names the root or the other side
  bool point_to_point;

  // All members receive from one, whose operand alone counts.
  constexpr bool from_root() const { return rooted && !point_to_point; }
};

inline constexpr CollectiveRow kCollectiveTable[] = {
    {CollectiveKind::all_reduce, "all_reduce", Blocks::one, Blocks::one, true, false, false},
    {CollectiveKind::all_gather, "all_gather", Blocks::one, Blocks::all, false, false, false},
    {CollectiveKind::reduce_scatter, "reduce_scatter", Blocks::all, Blocks::one, true, false, false},
    {CollectiveKind::broadcast, "broadcast", Blocks::one, Blocks::one, false, true, false},
    {CollectiveKind::all_to_all, "all_to_all", Blocks::all, Blocks::all, false, false, false},
    {CollectiveKind::send, "send", Blocks::one, Blocks::none, false, true, true},
    {CollectiveKind::recv, "recv", Blocks::none, Blocks::one, false, true, true},
    {CollectiveKind::barrier, "barrier", Blocks::none, Blocks::none, false, false, false},
};
static_assert([] {
  size_t at = 0;
  for (const CollectiveRow& row : kCollectiveTable) {
    if (static_cast<size_t>(row.kind) != at++) return false;
  }
  return at == static_cast<size_t>(CollectiveKind::barrier) + 1;
}());

constexpr const CollectiveRow& row_of(CollectiveKind kind) {
  return kCollectiveTable[static_cast<size_t>(kind)];
}

constexpr size_t count_of(Blocks blocks, size_t members) {
  return blocks == Blocks::none ? 0 : blocks == Blocks::one ? 1 : members;
}

}  // namespace braid::rt
