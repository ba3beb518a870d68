// ir::Gemm in terms of the matrix library (runtime/cuda_gemm.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/cuda/memory.h"
#include "ir/graph.h"

namespace braid::codegen::cuda {

struct GemmPlan {
  // Everything of the problem but the sizes that prepare() evaluates: one C initializer per distinct problem,
  // over the step's dims. Equal problems share one prepared object.
  std::string problem;
  std::string a, b, bias, d;  // C pointers; "$acc" for d: scratch
  // Loops over batches that one stride cannot describe.
  struct OuterBatch {
    ir::Expr size, a, b, d;  // elements
  };
  std::vector<OuterBatch> outer;
  // The rest of the epilogue, as a kernel of its own afterwards.
  bool epilogue_kernel = false;
  bool in_place = true;                    // the accumulators lie where the output will, else in scratch
  ir::DType accumulator = ir::DType::f32;  // type of what the library writes
  std::int64_t scratch_bytes = 0;
};

// Nothing if the library cannot do it (its types, or operands that are no matrices with a leading dimension).
std::optional<GemmPlan> plan_gemm(const ir::Graph& graph, ir::OpId op, const MemoryMap& memory);

}  // namespace braid::codegen::cuda
