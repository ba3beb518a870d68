// Tensors that grow in place: caches.
//
// A cache that has room to grow lies in a larger row-major tensor, whose sizes are its *capacities*. Element
// (i0, i1, ...) of the cache is element (i0, i1, ...) of the larger tensor. No element moves if any size
// changes, so an output may be an input with more elements:
//
//   past    f32[b, 8, p, 64]      strides [8*512*64, 512*64, 64, 1]
//   present f32[b, 8, p + s, 64]  the same strides, the same memory
//
// The IR has no clause for this: the strides express it. All capacities but the first follow from the
// strides, which are constants: capacity k is strides[k - 1] / strides[k]. The first one is the largest size
// that any name of the memory has.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ir/graph.h"

namespace braid::ir {

// Row-major strides of a tensor with these sizes, of which 0 counts as 1.
std::vector<Expr> capacity_strides(std::span<const std::int64_t> capacities);

// Whether the strides are those of capacities that no size exceeds.
bool has_capacity_strides(std::span<const Expr> sizes, std::span<const Expr> strides);

// Returns the capacities of an input or output if its strides are not those of its sizes, or if another name
// of its memory has different sizes. Returns nullopt for all others, which are row-major and dense.
std::optional<std::vector<std::int64_t>> capacities(const Graph& graph, BufferId buffer);

// Bytes of an input's or output's memory at the upper bounds of all dimensions.
std::int64_t max_bytes(const Graph& graph, BufferId buffer);

}  // namespace braid::ir
