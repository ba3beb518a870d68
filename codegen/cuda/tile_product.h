// Matrix products by a kernel of the program's own (runtime/device/tile_product.h), with any epilogue.
//
// The matrix library is faster at large products: it has the warp-group instructions of Hopper. But it knows
// few epilogues. For another one it stores the sums, and a kernel of its own reads them again:
//
//   launch + 2 * 2 * m * n bytes / bandwidth        beside the time of 2 * m * n * k operations
//
// So products with such an epilogue, of up to kMostOperations, have this kernel.
#pragma once

#include <cstdint>

#include "codegen/cuda/kernel.h"
#include "ir/graph.h"

namespace braid::codegen::cuda {

// Beyond these the kernel is expected to lose more than it saves: at half of the library's rate it takes
// about 3 us longer on an H200, and it saves a launch and the memory traffic. Not yet measured.
inline constexpr std::int64_t kMostOperations = std::int64_t{1} << 31;

// Whether the kernel takes the product, at all sizes of its dims: operands of f16 or bf16 whose rows or
// columns are contiguous and begin at multiples of 16 bytes, and a result that is stored in packs.
bool takes_tile_product(const ir::Graph& graph, const ir::Product& product);

// `precise`: the epilogue keeps IEEE forms (codegen/cuda/forms.h).
Launch tile_product_kernel(const ir::Graph& graph, ir::OpId op, bool precise);

}  // namespace braid::codegen::cuda
