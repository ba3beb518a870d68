// Generated programs from which one thing is missing: a barrier, a guard, a fence, lanes of a mask. Their
// kernels and the device functions that they call (runtime/device) are changed as text.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace braid::test {

struct Mutant {
  std::string name;  // of its program
  std::string base;  // the case that it is a copy of
  std::map<std::string, std::int64_t> dims;
  std::string change;  // what is missing, and where; empty: nothing
  std::string source;
  // Why the change does no harm; otherwise the emulated device must find it.
  std::string harmless;
};
// A product with both ways of operands (tests/codegen_cuda/tile_product_cases.cc).
inline constexpr const char* kTileProductBase = "tile_product_mutated";
inline constexpr const char* kTileConvolutionBase = "tile_convolution_mutated";
// In a fixed order. A copy without a change stands first for each case.
std::vector<Mutant> mutants();

}  // namespace braid::test
