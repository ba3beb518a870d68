// Extern kernels that are known to this program: how the interpreter computes them, what they cost, and the
// source with which each target calls them. A plug-in registers one at namespace scope:
//
//   static const RegisterExternKernel registered{{
//       .symbol = "row_sort",
//       .interpret = [](ExternCall& call) { ... },
//       .refuses = [](const Graph& graph, const ExternKernel& kernel) -> std::string { ... },
//       .kernel_class = KernelClass::reduction,
//       .flops = [](const ExternShapes& shapes) { ... },
//       .sources = {{"cpu", "static const char* row_sort(const BraidExternCall* call) { ... }"}},
//   }};
//
// An operator of the plug-in (frontend/op_registry.h) lowers to it with Lowering::extern_call; in IR text it
// is `%y: f32[n] = extern "row_sort" reads(%x)`.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ir/interpreter.h"
#include "ir/kernel_class.h"

namespace braid::ir {

// The actual sizes of one call.
struct ExternShapes {
  const ExternKernel& kernel;
  std::vector<std::vector<std::int64_t>> reads, writes;
};

// A class that must be given: an initialiser that leaves it out does not compile.
class DeclaredClass {
 public:
  constexpr DeclaredClass(KernelClass own) : own_(own) {}
  constexpr operator KernelClass() const { return own_; }

 private:
  KernelClass own_;
};

struct ExternKernelSpec {
  // A C identifier: the callee in the IR, and the function that every source defines.
  std::string symbol;
  // Operands may have any strides; otherwise they are row-major, and others are copied before the call.
  bool strided = false;
  ExternFn interpret;
  // Says why the kernel cannot take a call (operands, types, sizes, attributes), e.g. "takes one f32 tensor";
  // empty if it can. The interpreter and the targets ask before they call it: `interpret` and `sources` need
  // not check.
  std::function<std::string(const Graph&, const ExternKernel&)> refuses;
  // Decides which share of the machine's peaks it reaches.
  DeclaredClass kernel_class;
  // Returns the floating-point operations of one call; 0 if unset. The bytes of its operands are counted
  // anyway.
  std::function<double(const ExternShapes&)> flops;
  // By the name of the target (`--target`): text at file scope that defines
  // `static const char* SYMBOL(const BraidExternCall*)` (runtime/extern_kernel.h). It may include headers.
  // Other names that it defines begin with the symbol, since all extern kernels of a program share one file.
  // A target whose source is missing refuses programs that call the kernel.
  std::map<std::string, std::string> sources;
};

// Throws an internal error if the symbol is no C identifier or is taken, or if `interpret` or `refuses` is
// missing.
void register_extern_kernel(ExternKernelSpec spec);
// Null where there is none.
const ExternKernelSpec* find_extern_kernel(const std::string& symbol);

struct RegisterExternKernel {
  RegisterExternKernel(ExternKernelSpec spec) { register_extern_kernel(std::move(spec)); }
};

}  // namespace braid::ir
