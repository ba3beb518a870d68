// The cost of each node of a step: its nodes run one after the other, on both streams, with an event between
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/cuda/failure.h"

namespace braid::rt::cuda {

class NodeProfile : private Reporter {
 public:
  explicit NodeProfile(Failure& failure) : Reporter(failure) {}

  // Sets where the costs of so many nodes are written; null: ends profiling.
  bool start(BraidCudaNodeCost* costs, int nodes);
  bool on() const { return costs_ != nullptr; }
  // `begin` starts a step, `next_node` its next node, and `end` follows its last node. `communication` is
  // null without collectives.
  void begin();
  void next_node(cudaStream_t compute, cudaStream_t communication);
  bool end(cudaStream_t compute, cudaStream_t communication);
  // Writes the costs of a step that is done.
  bool write();
  void release();

 private:
  struct Border {
    cudaEvent_t compute = nullptr, communication = nullptr;
    int64_t launches = 0;  // of this thread so far
  };
  bool pass(cudaStream_t compute, cudaStream_t communication);

  BraidCudaNodeCost* costs_ = nullptr;
  std::vector<Border> borders_;  // before each node, and after the last
  size_t passed_ = 0;
  bool good_ = true;
};

}  // namespace braid::rt::cuda
