// The work of a kernel, and its time on a machine by the roofline model.
//
//   time = launch + max(flops / (peak of the type * efficiency), bytes / (memory bandwidth * efficiency))
//
// Each element touched counts once, however often a loop reads it; storages inside a fused node count no
// bytes. Flops: one per arithmetic instruction of a loop body and point, ten per transcendental one; 2 M N K
// per product. A kernel without a body has the work of its cost(flops F, bytes B), or else moves its
// operands. Its class is that of its cost(CLASS), or else of the extern kernel registered under its name
// (ir/extern_registry.h), or else `other`.
// Source: S. Williams, A. Waterman, D. Patterson, Roofline, CACM 2009.
#pragma once

#include <algorithm>
#include <functional>
#include <span>
#include <vector>

#include "analysis/costs/machine.h"
#include "ir/graph.h"
#include "ir/id_vector.h"

namespace braid::analysis {

struct KernelWork {
  KernelClass kernel_class = KernelClass::copy;
  ir::DType dtype = ir::DType::f32;  // whose peak counts
  double flops = 0;
  double bytes = 0;
  bool tf32 = false;  // the peak of tf32 counts instead
};

// Which operations touch which storage, looked up once per graph.
class StorageUsers {
 public:
  explicit StorageUsers(const ir::Graph& graph);
  // Whether the storage is an activation that no operation outside of `ops` (ascending) touches and that is
  // no output of the graph or a region.
  bool only_inside(ir::StorageId root, std::span<const ir::OpId> ops) const;

 private:
  const ir::Graph& graph_;
  ir::IdVector<ir::StorageId, bool> kept_;                    // used outside of any kernel
  ir::IdVector<ir::StorageId, std::vector<ir::OpId>> users_;  // ascending
};

using SizeOf = std::function<std::int64_t(const ir::Expr&)>;

// Returns the work of one loop nest, product or kernel without a body. Memory for which `inside` holds is not
// counted.
KernelWork kernel_work(const ir::Graph& graph, const ir::Operation& op, const SizeOf& size,
                       const std::function<bool(ir::BufferId)>& inside);

// The two times that limit a kernel. Those of several kernels in one add up, so that a fused node never costs
// more than its members.
struct Roofline {
  double compute_us = 0;
  double memory_us = 0;

  double us() const { return std::max(compute_us, memory_us); }  // without the launch
  Roofline& operator+=(const Roofline& r);
};
Roofline roofline(const Machine& machine, const KernelWork& work);

}  // namespace braid::analysis
