// Random attention with everything optional there or not: layouts, shared heads, masks, positions, windows.
#pragma once

#include <cstdint>

#include "tests/support/random_windows.h"

namespace braid::test {

// One attention of this type, whose inputs lie in one of several layouts; not optimised. `large` ones take
// several blocks of queries and keys, and are f32.
RandomWindows random_attention(std::uint64_t seed, ir::DType dtype = ir::DType::f32, bool large = false);

}  // namespace braid::test
