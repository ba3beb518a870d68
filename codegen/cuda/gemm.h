// ir::Gemm in terms of the matrix library (runtime/cuda_gemm.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/cuda/memory.h"
#include "codegen/legalise.h"
#include "ir/graph.h"

namespace braid::codegen::cuda {

// How many of the product's named steps the library applies: activation(acc + bias[column]) or a part of it.
// kAnyEpilogue if the library does not support the product (its types, or operands that are not matrices with a
// leading dimension), for which there is naive_gemm_kernel.
std::size_t post_ops_taken(const ir::Graph& graph, const ir::Product& product);

struct GemmPlan {
  // The problem except for the sizes that prepare() evaluates: one C initializer per distinct problem, over
  // the step's dims. Equal problems share one prepared object.
  std::string problem;
  std::string a, b, bias, d;  // C pointers
  // The batch dimensions, outermost first, if one stride cannot describe them: the library then takes arrays of
  // pointers.
  struct Batch {
    ir::Expr size, a, b, d;  // elements
  };
  std::vector<Batch> batches;
};
// nullopt if the library does not support the product.
std::optional<GemmPlan> plan_gemm(const ir::Graph& graph, ir::OpId op, const MemoryMap& memory);

}  // namespace braid::codegen::cuda
