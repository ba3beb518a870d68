// What the C++ target does with a matrix product, and where its sums need memory of their own.
#pragma once

#include <optional>
#include <vector>

#include "codegen/epilogue.h"
#include "codegen/legalise.h"

namespace braid::codegen::cpp {

struct GemmForm {
  std::optional<std::vector<PostOp>> match;  // the product's own kernel finishes the sums
  bool loop = false;                         // a loop does, behind the product
  ir::DType sum = ir::DType::f32;            // what the product stores
  bool in_place = true;                      // in the result's memory
};
GemmForm gemm_form(const ir::Graph& graph, const ir::Gemm& gemm);

KernelLimits kernel_limits();

}  // namespace braid::codegen::cpp
