// What a kernel has to do, and how long that takes on a machine: the roofline.
//
//   time = launch + max(flops / (peak of the type * efficiency), bytes / (memory bandwidth * efficiency))
//
// Bytes are those of the elements touched, each once, however often a loop reads them; what lives only inside
// of a fused node costs none. Flops: one per arithmetic instruction of a loop body and point, ten per
// transcendental one; 2 M N K per product. A kernel without a body does what its cost(flops F, bytes B) says,
// or moves its operands; its class is read off the name that it calls (docs/scheduling.md lists the words).
// Source: S. Williams, A. Waterman, D. Patterson, Roofline, CACM 2009.
#pragma once

#include <algorithm>
#include <functional>
#include <span>
#include <vector>

#include "analysis/costs/machine.h"
#include "ir/graph.h"

namespace braid::analysis {

struct KernelWork {
  KernelClass kernel_class = KernelClass::copy;
  ir::DType dtype = ir::DType::f32;  // whose peak counts
  double flops = 0;
  double bytes = 0;
};

// Which operations touch which storage, looked up once per graph.
class StorageUsers {
 public:
  explicit StorageUsers(const ir::Graph& graph);
  // An activation that no operation outside of `ops` (ascending) touches, and that is no output of the graph
  // or a region.
  bool only_inside(ir::StorageId root, std::span<const ir::OpId> ops) const;

 private:
  const ir::Graph& graph_;
  std::vector<bool> kept_;  // by storage: touched from outside of any kernel
  std::vector<int> first_ = {0};
  std::vector<ir::OpId> users_;  // of storage s: users_[first_[s]] .. users_[first_[s + 1]], ascending
};

using SizeOf = std::function<std::int64_t(const ir::Expr&)>;

// Of one loop nest, product or kernel without a body; memory for which `inside` holds counts nothing.
KernelWork kernel_work(const ir::Graph& graph, const ir::Operation& op, const SizeOf& size,
                       const std::function<bool(ir::BufferId)>& inside);

// What limits a kernel; of several in one kernel, work adds up, so that a fused node is never dearer than its
// members.
struct Roofline {
  double compute_us = 0;
  double memory_us = 0;

  double us() const { return std::max(compute_us, memory_us); }  // without the launch
  Roofline& operator+=(const Roofline& r);
};
Roofline roofline(const Machine& machine, const KernelWork& work);

}  // namespace braid::analysis
