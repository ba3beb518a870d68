// Environment variables that choose among kernels of equal meaning, to compare them.
#pragma once

#include "runtime/environment.h"

namespace braid::rt {

// The widest instruction set of all kernels, the library's too.
inline constexpr WordVariable kInstructionsVariable{"BRAID_INSTRUCTIONS", {"baseline", "avx2"}};
inline constexpr WordVariable kHalfVariable{"BRAID_HALF_KERNELS", {"widened", "avx512"}};
inline constexpr WordVariable kByteVariable{"BRAID_BYTE_KERNELS", {"baseline", "avx2", "avx512"}};
inline constexpr WordVariable kWinogradVariable{"BRAID_WINOGRAD", {"0", "1"}};
inline constexpr WordVariable kKernelVariables[] = {kInstructionsVariable, kHalfVariable, kByteVariable,
                                                    kWinogradVariable};

// The fault of one of them, or an empty string.
inline std::string kernel_variables_fault() {
  for (const WordVariable& variable : kKernelVariables) {
    std::string_view ignored;
    if (std::string wrong = read_variable(variable, &ignored); !wrong.empty()) return wrong;
  }
  return {};
}

}  // namespace braid::rt
