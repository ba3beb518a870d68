// The fastest kernels that the nodes of a graph can become, whatever merging and fusion do: the loads of a bound (bounds.h).
#pragma once

#include <initializer_list>
#include <string_view>
#include <unordered_map>

#include "analysis/costs/cost_model.h"
#include "split/bounds.h"

namespace braid::split {

// A product that is a kernel of its own in every program: one with a matrix of weights. What multiplies two computed tensors
// may become a half of an attention kernel.
bool is_own_kernel(const Graph& graph, const GraphNode& node);
// Whether it multiplies two tensors that are computed.
bool multiplies_computed(const Graph& graph, const GraphNode& node);
// Whether each of so many parts has several elements to reduce.
bool reduces(const Graph& graph, const GraphNode& node, const SplitCosts& sizes, int parts);
// Whether the program may leave out some of the work: of what nobody reads but for its sizes, and of tensors without elements.
bool may_leave_out(const Graph& graph);
// The time that so many bytes take in the fastest kernel of these classes.
double bytes_us(const analysis::Machine& machine, double bytes,
                std::initializer_list<analysis::KernelClass> classes);

// Into how many parts a node's work, its second input and its first output are cut.
struct KernelParts {
  int work = 1, input = 1, output = 1;
  friend auto operator<=>(const KernelParts&, const KernelParts&) = default;
};

class KernelFloors {
 public:
  // The first three must outlive it.
  KernelFloors(const analysis::CostModel& costs, const Graph& graph, const SplitCosts& sizes,
               BoundOptions options);

  // Of a node on its own.
  Cost operator()(const GraphNode& node, const KernelParts& parts) const;

 private:
  void share_attention(const std::unordered_map<std::string_view, int>& bearers);

  const analysis::CostModel& costs_;
  const Graph& graph_;
  const SplitCosts& sizes_;
  BoundOptions options_;
  bool by_memory_ = false;
};

}  // namespace braid::split
