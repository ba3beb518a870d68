// ir::Gemm in terms of the matrix library (runtime/cuda_gemm.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/cuda/memory.h"
#include "codegen/epilogue.h"
#include "ir/graph.h"

namespace braid::codegen::cuda {

// activation(acc + bias[column]), or a part of it.
struct LibraryEpilogue {
  std::optional<PostOp> bias;
  const char* activation = nullptr;  // a member of rt::cuda::GemmEpilogue
};

// How the library's product and the epilogue share the work.
struct GemmForm {
  std::optional<LibraryEpilogue> library;
  bool epilogue_kernel = false;    // a separate kernel finishes the sums
  ir::DType sum = ir::DType::f32;  // what the library stores
  bool in_place = true;            // in the result's memory
};
// nullopt if the library does not support it (its types, or operands that are not matrices with a leading
// dimension).
std::optional<GemmForm> gemm_form(const ir::Graph& graph, const ir::Gemm& gemm);

struct GemmPlan {
  // The problem except for the sizes that prepare() evaluates: one C initializer per distinct problem, over
  // the step's dims. Equal problems share one prepared object.
  std::string problem;
  std::string a, b, bias, d;  // C pointers
  // Loops over batches that one stride cannot describe.
  struct OuterBatch {
    ir::Expr size, a, b, d;  // elements
  };
  std::vector<OuterBatch> outer;
  bool epilogue_kernel = false;    // follows the product, on the sums in the result's memory
  ir::DType sum = ir::DType::f32;  // what the library stores
};
// nullopt if gemm_form() returns nullopt.
std::optional<GemmPlan> plan_gemm(const ir::Graph& graph, ir::OpId op, const MemoryMap& memory);

}  // namespace braid::codegen::cuda
