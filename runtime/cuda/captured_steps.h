// The graphs captured for one set of dims: whole steps, by the caller's pointers, and each collective alone.
//
// NCCL requires that all ranks capture a collective, or none. So the time of a capture depends only on how
// often the dims have been used, which is the same on all ranks. The pointers of a run may recur on one rank
// and not on another. They decide only whether this rank launches a whole step or its kernels one by one: the
// collectives come from a graph in either case.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/cuda/api.h"

namespace braid::rt::cuda {

struct GraphDeleter {
  void operator()(cudaGraphExec_t graph) const { cudaGraphExecDestroy(graph); }
};
using Graph = std::unique_ptr<CUgraphExec_st, GraphDeleter>;

// Null, and the error, if the graph cannot be instantiated.
Graph instantiate(cudaGraph_t graph, cudaError_t* error);

class CapturedSteps {
 public:
  // Counts a run.
  uint64_t next_run() { return ++runs_; }
  // Returns whether the step of that run is to be captured. Two successive runs show the pointers that the
  // caller alternates between, or that it has changed them. So pairs of successive runs are captured, at
  // growing distances.
  static bool due(uint64_t run, uint64_t first);

  // The step that was captured with these pointers, or null.
  cudaGraphExec_t find(const std::vector<const void*>& pointers);
  // Keeps the step, if necessary in place of the one that was launched least recently. That one's graph takes
  // over the new addresses if it may be updated. Returns false if the step cannot be instantiated.
  bool keep(cudaGraph_t graph, const std::vector<const void*>& pointers, bool may_update);

  std::vector<Graph> collectives;  // in the order of the calls

  bool empty() const { return steps_.empty() && collectives.empty(); }
  void clear();

 private:
  static constexpr size_t kMostSteps = 4;
  struct Step {
    std::vector<const void*> pointers;
    Graph graph;
    uint64_t used = 0;  // the latest run
  };
  std::vector<Step> steps_;
  uint64_t runs_ = 0;
};

}  // namespace braid::rt::cuda
