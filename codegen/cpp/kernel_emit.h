// One loop nest as one C++ function.
#pragma once

#include <string>
#include <vector>

#include "codegen/cpp/loop_nest.h"

namespace braid::codegen::cpp {

struct KernelArg {
  enum class Kind { buffer, dim, scratch, scratch_stride, index_error, site };
  Kind kind = Kind::buffer;
  ir::BufferId buffer;   // for a buffer: address of its first element
  bool written = false;  // buffer
  ir::Expr dim = 0;      // dim
  ir::OpId op;           // for a site: the operation whose index is checked
};

// A function without its name: kernels with equal text share one function.
struct KernelText {
  std::string parameters;  // "(float* __restrict y0, const float* a0, int64_t batch)"
  std::string body;        // " {\n...}\n"
  std::vector<KernelArg> args;
  std::int64_t scratch_bytes = 0;  // per thread
};

KernelText emit_kernel(const ir::Graph& graph, const LoopNest& nest, const Overlap& overlap);

// Rows of local memory and transposed blocks are on the stack up to this size.
inline constexpr std::int64_t kStackBytes = 16 * 1024;
// Number of simple operations for a point from which on loops ask for vectors of 16 floats.
inline constexpr int kWideWork = 8;
// Number of simple operations below which a second thread costs more than it saves.
inline constexpr std::int64_t kParallelWork = 40000;

}  // namespace braid::codegen::cpp
