// ir::Gemm in terms of the matrix library (runtime/cuda_gemm.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "codegen/cuda/memory.h"
#include "codegen/legalise.h"
#include "ir/graph.h"

namespace braid::codegen::cuda {

enum class ProductKernel : std::uint8_t {
  library,
  tile,  // codegen/cuda/tile_product.h: the library has the product, and not the whole epilogue
  naive  // codegen/cuda/naive_gemm.h: the library does not have it
};
ProductKernel kernel_of(const ir::Graph& graph, const ir::Product& product);

// Returns how many of the product's named steps its kernel applies: for the library, activation(acc +
// bias[column] + residual) or a part of it; otherwise kAnyEpilogue.
std::size_t post_ops_taken(const ir::Graph& graph, const ir::Product& product);

// Returns the operands that must be copied because they are no matrices with a leading dimension; all of them
// if there are too many batch dimensions. Only for products of types that the library has and of more than
// kMostNaive multiply-adds.
PackedOperands packed_operands(const ir::Graph& graph, const ir::Gemm& product);
// Beyond that a copy costs less than naive_gemm_kernel, which computes an element per thread.
inline constexpr std::int64_t kMostNaive = 65536;

// Why the library does not take the product, in words; empty if it does.
std::string why_not_library(const ir::Graph& graph, const ir::Product& product);

struct GemmPlan {
  // The initializer of a BatchedGemm (runtime/cuda_gemm_problem.h) over the step's dims. Equal ones share
  // their prepared state.
  std::string product;
  std::string a, b, bias, residual, d;  // C pointers to the first matrices
};
// nullopt if the library does not support the product.
std::optional<GemmPlan> plan_gemm(const ir::Graph& graph, ir::OpId op, const MemoryMap& memory);

}  // namespace braid::codegen::cuda
