// Lower bounds on the kernels that the nodes of a graph become, whatever merging and fusion do: the loads of
// bound_search.h.
#pragma once

#include <initializer_list>
#include <string_view>
#include <unordered_map>

#include "analysis/costs/cost_model.h"
#include "split/bound_search.h"

namespace braid::split {

// Whether it is a product that is a kernel of its own in every program: one with a matrix of weights. A
// product of two computed tensors may become a half of an attention kernel.
bool is_own_kernel(const Graph& graph, const GraphNode& node);
// Whether it multiplies two tensors that are computed.
bool multiplies_computed(const Graph& graph, const GraphNode& node);
// Whether each of `parts` parts has several elements to reduce.
bool reduces(const Graph& graph, const GraphNode& node, const SplitCosts& sizes, int parts);
// Whether the program may leave out some of the work: nodes whose results are read only for their sizes or
// not at all, and tensors without elements.
bool may_leave_out(const Graph& graph);
// Returns the time that so many bytes take in the fastest kernel of these classes.
double bytes_us(const analysis::Machine& machine, double bytes,
                std::initializer_list<analysis::KernelClass> classes);

// The number of parts into which a node's work, its second input and its first output are cut.
struct KernelParts {
  int work = 1, input = 1, output = 1;
  friend auto operator<=>(const KernelParts&, const KernelParts&) = default;
};

class KernelFloors {
 public:
  // The first three must outlive it.
  KernelFloors(const analysis::CostModel& costs, const Graph& graph, const SplitCosts& sizes,
               BoundOptions options);

  // Returns the bound of a node on its own.
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
