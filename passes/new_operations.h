// Operations that a pass adds: each goes before an existing operation that reads it, or after one whose
// result it reads.
#pragma once

#include <map>
#include <vector>

#include "ir/schedule.h"

namespace braid::passes {

class NewOperations {
 public:
  void add_before(ir::OpId reader, ir::OpId added) { before_[reader].push_back(added); }
  void add_after(ir::OpId writer, ir::OpId added) { after_[writer].push_back(added); }
  // Inserts the operations into the schedule, in the order in which they were added. Their readers and
  // writers must be nodes of their own.
  void place(ir::Schedule& schedule) const;

 private:
  std::map<ir::OpId, std::vector<ir::OpId>> before_, after_;
};

}  // namespace braid::passes
