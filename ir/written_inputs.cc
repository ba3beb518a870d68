#include "ir/written_inputs.h"

#include <set>

#include "ir/effects.h"

namespace braid::ir {

std::vector<bool> written_inputs(const Schedule& schedule) {
  std::set<StorageId> written;
  std::vector<StorageTouch> touched;
  for (OpId op : execution_order(schedule)) {
    storages_of(schedule.graph, op, touched);
    for (const StorageTouch& t : touched) {
      if (t.writes) written.insert(t.storage);
    }
  }
  std::vector<bool> out;
  for (const GraphInput& input : schedule.graph.inputs)
    out.push_back(written.contains(root_storage(schedule.graph, input.buffer)));
  return out;
}

}  // namespace braid::ir
