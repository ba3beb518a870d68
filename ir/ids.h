// Strong types for ids, so that an id is never mistaken for a size or for an id of another table.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace braid::ir {

// An index into one table of one Graph. Default-constructed ids are invalid.
template <class Tag>
struct Id {
  std::int32_t index = -1;

  constexpr bool valid() const { return index >= 0; }
  constexpr auto operator<=>(const Id&) const = default;
};

using BufferId = Id<struct BufferTag>;    // Graph::buffers
using StorageId = Id<struct StorageTag>;  // Graph::storages
using OpId = Id<struct OpTag>;            // Graph::ops
using GroupId = Id<struct GroupTag>;      // Graph::groups
using ValueId = Id<struct ValueTag>;      // LoopBody::instrs

}  // namespace braid::ir

template <class Tag>
struct std::hash<braid::ir::Id<Tag>> {
  std::size_t operator()(braid::ir::Id<Tag> id) const { return std::hash<std::int32_t>{}(id.index); }
};
