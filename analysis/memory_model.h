// The memory that an order of the nodes needs: the one model for passes, memory plan, bounds and reports.
//
// A tenant is a root storage that the plan places (activation or communication): its bytes at upper bounds,
// and the nodes that touch it (by any view, alias or version; a collective touches until its wait or
// release). It is born before its first toucher runs and dies after its last one; an untouched storage has no
// memory. A graph output that the caller does not own lives to the end. So a node has three phases: births,
// execution, deaths; the live peak is at an execution. In-place reuse: if one tenant dies at the node at
// which another is born, and each element is read before it is overwritten, both share their bytes, which
// count once. The operand and the result of a collective that runs in place (ir/in_place_collectives.h) are
// one tenant.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/ids.h"
#include "analysis/offset_assignment.h"
#include "ir/schedule.h"

namespace braid::analysis {

struct Tenant {
  ir::StorageId storage;
  ir::StorageId result = {};  // of the collective that has `storage` as operand; both have one place
  std::int64_t bytes = 0;
  bool comm = false;          // in the communication segment
  bool to_end = false;        // lives to the end: an output, or held by a collective without wait or release
  std::vector<NodeId> nodes;  // that touch it; ascending in the schedule's own order
};

struct MemoryOptions {
  bool in_place = true;
  // Collectives of at least this size run in place. The shared-memory engine reads the operand of a smaller
  // all-reduce where it lies; it would first have to copy an operand that the result overwrites.
  std::int64_t in_place_collective_bytes = 32 * 1024;
  std::int64_t arena_alignment = 64;
  std::int64_t comm_alignment = 256;
  std::int64_t exact_limit = 4096;
};

class MemoryModel {
 public:
  explicit MemoryModel(const ir::Schedule& schedule, const MemoryOptions& options = {});

  // Returns the model of the same nodes in another order that keeps all dependencies: node k is the former
  // node order[k].
  MemoryModel permuted(OrderView order) const;

  IdRange<NodeId> nodes() const { return touched_.ids(); }
  const IdVector<TenantId, Tenant>& tenants() const { return tenants_; }
  // Ascending.
  std::span<const TenantId> touched_by(NodeId node) const { return touched_[node]; }

  // In this order: the tenant, if any, that dies where `out` is born and whose bytes `out` takes.
  IdVector<TenantId, TenantId> takes(OrderView order) const;

  struct Live {
    std::int64_t peak = 0;  // bytes, in-place reuse counted
    Position peak_step;
    IdVector<Position, std::int64_t> bytes;  // while each position of the order executes
  };
  Live live(OrderView order) const;  // O(n + touches)
  // The plan for this order, which plan_memory writes into the schedule.
  ir::MemoryPlan plan(OrderView order) const;
  std::int64_t planned_bytes(OrderView order) const;  // of it, without making it

  // At the node, `out` may take the bytes of `in` if `out` is born and `in` dies there. The first pair in the
  // list whose tenants are both still free is taken.
  struct Reuse {
    TenantId in, out;
  };
  std::span<const Reuse> reuses(NodeId node) const { return reuses_[node]; }

 private:
  struct Life {
    Position first, last;
  };
  using Lives = IdVector<TenantId, Life>;
  Lives lives(OrderView order) const;
  IdVector<TenantId, TenantId> takes(OrderView order, const Lives& lives) const;
  Live live(OrderView order, const Lives& lives, const IdVector<TenantId, TenantId>& takes) const;
  // The places of the tenants of the communication segment or of the arena. `block_of` gives each tenant's
  // block, `where` the place of each block. A tenant that takes another's bytes has its block.
  struct Places {
    IdVector<TenantId, std::size_t> block_of;
    Assignment where;
  };
  Places place(bool comm, const Lives& lives, const IdVector<TenantId, TenantId>& takes) const;

  IdVector<TenantId, Tenant> tenants_;
  IdLists<NodeId, TenantId> touched_;
  IdLists<NodeId, Reuse> reuses_;  // by (out, bytes of in, in)
  MemoryOptions options_;
};

// The nodes that touch one storage, ascending, and whether it lives to the end.
struct Touches {
  std::vector<NodeId> nodes;
  bool to_end = false;
};
// Empty for storages that are not planned: memory of the caller, constants, storages local to a fused node.
IdVector<ir::StorageId, Touches> touches(const ir::Schedule& schedule);

// User error 570 if the plan of this order needs more than the cap. Names the step with the most live bytes,
// their number, and the largest storages that are alive there.
void check_cap(const ir::Schedule& schedule, const MemoryModel& model, OrderView order, std::int64_t cap);

}  // namespace braid::analysis
