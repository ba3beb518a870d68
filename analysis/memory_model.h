// What an order of the nodes costs in memory: the one model that passes, memory plan, bounds and reports ask.
//
// A tenant is a root storage that the plan places (activation or communication): bytes at upper bounds, and
// the nodes that touch it (by any view, alias or version; collectives touch until wait or release). It is
// born before its first toucher runs and dies after its last one; what is not touched has no memory. A graph
// output that the caller does not own lives to the end. So a node has three phases: births, execution,
// deaths; the live peak is at an execution. In-place reuse: where a tenant dies at the node at which another
// is born, and each element is read before it is overwritten, both have the same bytes and count once. The
// operand and the result of a collective that runs in place (ir/in_place_collectives.h) are one tenant.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/schedule.h"

namespace braid::analysis {

struct Tenant {
  ir::StorageId storage;
  ir::StorageId result = {};  // has the same place: of the collective whose operand `storage` is
  std::int64_t bytes = 0;
  bool comm = false;       // in the communication segment
  bool to_end = false;     // lives to the end: an output, or what a collective without wait or release holds
  std::vector<int> nodes;  // that touch it; ascending in the schedule's own order
};

struct MemoryOptions {
  bool in_place = true;
  // Collectives run in place from so many bytes on: the shared-memory engine moves a smaller all-reduce where
  // it lies, and would first copy what the result overwrites.
  std::int64_t in_place_collective_bytes = 32 * 1024;
  std::int64_t arena_alignment = 64;
  std::int64_t comm_alignment = 256;
  std::int64_t exact_limit = 4096;
};

class MemoryModel {
 public:
  explicit MemoryModel(const ir::Schedule& schedule, const MemoryOptions& options = {});

  // Of the same nodes in another order, which keeps all dependencies: node k is what node order[k] was.
  MemoryModel permuted(std::span<const int> order) const;

  const std::vector<Tenant>& tenants() const { return tenants_; }
  // Indices into tenants(), ascending.
  std::span<const int> touched_by(int node) const;
  // Can `out` have the bytes of `in`, if `in` dies and `out` is born at this node? Both touched by it.
  bool may_reuse(int node, int in, int out) const;

  // In an order: tenant `out` takes the bytes of a tenant that dies where it is born. -1: of nobody.
  std::vector<int> takes(std::span<const int> order) const;

  struct Live {
    std::int64_t peak = 0;            // bytes, in-place reuse counted
    int peak_step = -1;               // position in the order
    std::vector<std::int64_t> bytes;  // while each position of the order executes
  };
  Live live(std::span<const int> order) const;  // O(n + touches)
  // The plan for this order: what plan_memory writes into the schedule.
  ir::MemoryPlan plan(std::span<const int> order) const;
  std::int64_t planned_bytes(std::span<const int> order) const;

  // At the node, `out` may take the bytes of `in` (tenants), if one is born and the other dies there; who
  // comes first, takes.
  struct Reuse {
    int in, out;
  };
  std::span<const Reuse> reuses(int node) const {
    const auto n = static_cast<std::size_t>(node);
    return std::span(reuses_).subspan(static_cast<std::size_t>(first_reuse_[n]),
                                      static_cast<std::size_t>(first_reuse_[n + 1] - first_reuse_[n]));
  }

 private:
  struct Life {
    int first, last;
  };
  std::vector<Life> lives(std::span<const int> order) const;
  std::vector<int> takes(std::span<const int> order, std::span<const Life> lives) const;
  Live live(std::span<const int> order, std::span<const Life> lives, std::span<const int> takes) const;

  std::vector<Tenant> tenants_;
  std::vector<int> first_touched_ = {0}, touched_;
  std::vector<int> first_reuse_ = {0};  // per node, into reuses_
  std::vector<Reuse> reuses_;           // by (out, bytes of in, in)
  MemoryOptions options_;
};

// Of one storage: the nodes that touch it, ascending, and whether it lives to the end.
struct Touches {
  std::vector<int> nodes;
  bool to_end = false;
};
// Index: StorageId. Empty for what is not planned: memory of the caller, constants, what is local to a fused
// node.
std::vector<Touches> touches(const ir::Schedule& schedule);

// User error 570 if the plan of this order, `planned_bytes`, does not keep the cap. Names the step at which
// the most is live, its bytes, and the largest storages that are alive there.
void check_cap(const ir::Schedule& schedule, const MemoryModel& model, std::span<const int> order,
               std::int64_t cap);

}  // namespace braid::analysis
