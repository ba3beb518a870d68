#include "passes/overlap/ungroup.h"

#include "passes/fuse_horizontal.h"
#include "passes/fuse_vertical.h"
#include "passes/overlap/groups.h"

namespace braid::passes {

bool Ungroup::run(ir::Schedule& schedule) {
  using Kind = ir::ScheduleNode::Kind;
  // A region per group, and one per node outside of groups, which therefore is not fused with anything.
  ir::IdVector<ir::OpId, int> region(schedule.graph.ops.size(), -1);
  int next = 0;
  bool several = false;  // there are members that could be fused
  for (const ir::ScheduleNode& node : schedule.nodes) {
    for (ir::OpId op : ir::ops_of(node)) region[op] = next;
    several |= node.kind == Kind::grouped && node.members.size() > 1;
    ++next;
  }
  bool changed = false;
  while (unpack_groups(schedule)) changed = true;  // nested groups as well
  if (changed && fuse && several) {
    FuseVertical().run(schedule, region);
    FuseHorizontal().run(schedule, region);
  }
  return changed;
}

}  // namespace braid::passes
