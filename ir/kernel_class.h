// Classes of kernels by what limits them: a machine's description has an efficiency for each
// (analysis/costs/machine.h). The class of a kernel with a body follows from its body; one without a body
// declares it (ir/extern_registry.h, or `cost` in IR text).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace braid::ir {

// attention: products and a softmax in one kernel. other: nothing is known.
enum class KernelClass : std::uint8_t { gemm, conv, attention, elementwise, reduction, copy, gather, other };

inline constexpr std::array<std::string_view, 8> kKernelClassNames = {
    "gemm", "conv", "attention", "elementwise", "reduction", "copy", "gather", "other"};
inline constexpr int kKernelClassCount = static_cast<int>(kKernelClassNames.size());

constexpr std::string_view to_string(KernelClass c) { return kKernelClassNames[static_cast<std::size_t>(c)]; }
// nullopt: there is no such class.
constexpr std::optional<KernelClass> kernel_class_named(std::string_view name) {
  for (std::size_t k = 0; k < kKernelClassNames.size(); ++k) {
    if (kKernelClassNames[k] == name) return static_cast<KernelClass>(k);
  }
  return std::nullopt;
}

}  // namespace braid::ir
