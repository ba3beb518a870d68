// What an order of the nodes costs in memory: the one model that passes, memory plan, bounds and reports ask.
//
// A tenant is a root storage that the plan places (activation or communication): bytes at upper bounds, and the nodes that
// touch it (by any view, alias or version; collectives touch until wait or release). It is born before its first
// toucher runs and dies after its last one; what is not touched has no memory. A graph output that the caller does not
// own lives to the end. So a node has three phases: births, execution, deaths; the live peak is at an execution.
// In-place reuse: where a tenant dies at the node at which another is born, and each element is read before it is
// overwritten, both have the same bytes and count once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/schedule.h"

namespace braid::passes {

struct Tenant {
  ir::StorageId storage;
  std::int64_t bytes = 0;
  bool comm = false;               // in the communication segment
  std::vector<int> nodes;          // that touch it; ascending in the schedule's own order
};

struct MemoryOptions {
  bool in_place = true;
  std::int64_t arena_alignment = 64;
  std::int64_t comm_alignment = 256;
  std::int64_t exact_limit = 4096;
};

class MemoryModel {
 public:
  explicit MemoryModel(const ir::Schedule& schedule, const MemoryOptions& options = {});

  const std::vector<Tenant>& tenants() const { return tenants_; }
  // Indices into tenants(), ascending.
  std::span<const int> touched_by(int node) const;
  // Can `out` have the bytes of `in`, if `in` dies and `out` is born at this node? Both touched by it.
  bool may_reuse(int node, int in, int out) const;

  struct Live {
    std::int64_t peak = 0;               // bytes, in-place reuse counted
    int peak_step = -1;                  // position in the order
    std::vector<std::int64_t> bytes;     // while each position of the order executes
  };
  Live live(std::span<const int> order) const;
  // The plan for this order: what plan_memory writes into the schedule.
  ir::MemoryPlan plan(std::span<const int> order) const;
  std::int64_t planned_bytes(std::span<const int> order) const;

 private:
  std::vector<Tenant> tenants_;
  std::vector<int> first_touched_ = {0}, touched_;
  MemoryOptions options_;
};

}  // namespace braid::passes
