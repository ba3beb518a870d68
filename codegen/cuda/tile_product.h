// Matrix products and convolutions by a kernel of the program's own (runtime/device/tile_product.h), with any
// epilogue.
//
// The matrix library is faster at large products: it has the warp-group instructions of Hopper. But it knows
// few epilogues. For another one it stores the sums, and a kernel of its own reads them again:
//
//   launch + 2 * 2 * m * n bytes / bandwidth        beside the time of 2 * m * n * k operations
//
// So products with such an epilogue, of up to kMostOperations, have this kernel. The library has no
// convolution: its windows would be stored as rows of k = taps * channels elements, and loaded again
// (passes/expand_convolutions.h). That costs
//
//   launch + 2 * 2 * m * k bytes / bandwidth
//
// which the kernel's lower rate exceeds only for large convolutions of more than kMostFilters.
#pragma once

#include <cstdint>

#include "codegen/cuda/kernel.h"
#include "ir/graph.h"

namespace braid::codegen::cuda {

// Beyond these the kernel is expected to lose more than it saves: at half of the library's rate it takes
// about 3 us longer on an H200, and it saves a launch and the memory traffic. Not yet measured.
inline constexpr std::int64_t kMostOperations = std::int64_t{1} << 31;

inline constexpr std::int64_t kMostFilters = 384;

// Whether the kernel takes the product, at all sizes of its dims: operands of f16 or bf16 whose rows or
// columns are contiguous and begin at multiples of 16 bytes, and a result that is stored in packs.
bool takes_tile_product(const ir::Graph& graph, const ir::Product& product);

// Whether the kernel takes the convolution: of f16 or bf16, in one or two dimensions, of channels and
// filters per group that are multiples of 8, over channels-last images, by rows of taps and channels.
bool takes_tile_convolution(const ir::Graph& graph, const ir::Convolution& convolution);
// Whether it would with such weights, and should. Windows that are pixels are a product of the library.
bool prefers_tile_convolution(const ir::Graph& graph, const ir::Convolution& convolution);

// `op` is a product or a convolution. `precise`: the epilogue keeps IEEE forms (codegen/cuda/forms.h).
Launch tile_product_kernel(const ir::Graph& graph, ir::OpId op, bool precise);

}  // namespace braid::codegen::cuda
