// The step function: launches, matrix products, collectives, copies and events, in schedule order.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "codegen/cuda/emit.h"
#include "codegen/cuda/gemm.h"
#include "codegen/cuda/kernel.h"

namespace braid::codegen::cuda {

struct StepCode {
  std::string text;                       // body of step(), indented by four spaces
  std::vector<std::string> products;      // C initializers of BatchedGemm, in order of their index
  std::vector<std::string> spilled_rows;  // {count, bytes} of kernels that spill
  std::vector<std::string> index_sites;   // ONNX nodes that check indices
  std::vector<ir::GroupId> groups;        // used by the program, in order of their index
  std::set<int> peer_groups;              // those whose kernels read peers' memory
  std::vector<std::string> nodes;         // C initializers of BraidNode, in the order of the step
  std::string buffers;                    // declarations of the table kBuffers
  std::size_t buffer_count = 0;
};

StepCode write_step(const ir::Schedule& schedule, const std::vector<Unit>& units, const MemoryMap& memory,
                    const StreamPlan& streams, KernelTable& kernels, const CudaOptions& options);

// "/layers.0/Gelu, /layers.0/Mul": the ONNX nodes of the operations, or the operations' own names.
std::string node_names(const ir::Graph& graph, std::span<const ir::OpId> ops);

}  // namespace braid::codegen::cuda
