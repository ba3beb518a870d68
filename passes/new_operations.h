// Operations that a pass adds, each in front of an old one that reads what it computes, or behind one whose result it reads.
#pragma once

#include <map>
#include <vector>

#include "ir/schedule.h"

namespace braid::passes {

class NewOperations {
 public:
  void add_before(ir::OpId reader, ir::OpId added) { before_[reader].push_back(added); }
  void add_after(ir::OpId writer, ir::OpId added) { after_[writer].push_back(added); }
  // Puts them into the schedule, in the order in which they were added. Readers and writers are nodes of their own.
  void place(ir::Schedule& schedule) const;

 private:
  std::map<ir::OpId, std::vector<ir::OpId>> before_, after_;
};

}  // namespace braid::passes
