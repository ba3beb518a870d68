// Calls of extern kernels (ir/extern_registry.h) in generated source, for all targets.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/schedule.h"

namespace braid::codegen {

// Why the target has no code for the operation, which is an extern kernel; empty where it has.
std::string extern_refusal(const ir::Graph& graph, const ir::Operation& op, const std::string& target);

// How the target writes an operand and a size.
struct ExternText {
  std::function<std::string(const ir::TensorRef&, bool written)> address;  // of element 0
  std::function<std::string(ir::Expr)> size;
};
// Returns the arguments of Instance::call_extern (runtime/instance.h, runtime/cuda_instance.h):
// "::row_sort, {tensor_view(BRAID_F32, ..., {n, 8}, {8, 1})}, {...}, {}".
std::string extern_arguments(const ir::Graph& graph, const ir::ExternKernel& kernel, const ExternText& text);

// The sources of the kernels that are called, each once, in the order of the first calls.
std::vector<std::string> extern_sources(const ir::Schedule& schedule, const std::string& target);

}  // namespace braid::codegen
