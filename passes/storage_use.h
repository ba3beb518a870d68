// Tracks the writers of memory, for passes that give operations other operands (integer_products,
// narrow_operands).
#pragma once

#include <map>
#include <set>

#include "ir/schedule.h"

namespace braid::passes {

class StorageWriters {
 public:
  explicit StorageWriters(const ir::Schedule& schedule);
  // A new operation writes this buffer.
  void add(ir::BufferId buffer) { ++writers_[ir::root_storage(graph_, buffer)]; }
  // Whether its memory has the same contents for all that read it.
  bool never_changes(ir::BufferId buffer) const;

 private:
  const ir::Graph& graph_;
  std::map<ir::StorageId, int> writers_;  // of each root storage
};

// Drops those of the operations that are nodes of their own and whose result is no output, is read by no
// operation and is written only by `operations`.
void drop_unread(ir::Schedule& schedule, const std::set<ir::OpId>& operations);

}  // namespace braid::passes
