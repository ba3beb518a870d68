// What the parts of lazy lowering share. Not for others.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ir/lowering.h"

namespace braid::ir {

inline constexpr int kSizesDiffer = 305;

// i0, i1, ...
std::vector<Expr> index_symbols(ExprPool& pool, std::size_t count);
// Indices of extent 1 are 0; the rest as the ranges allow.
LoopBody simplify_body(const LoopBody& body, const std::vector<Expr>& sizes);
Expr flat_index(std::span<const Expr> index, std::span<const Expr> strides);
// Would computing e cost a division of loop indices per element?
bool divides(Expr e);
void merge_origins(std::vector<std::string>& into, const std::vector<std::string>& from);
// The sizes of what the box holds; `scratch` may hold them.
const std::vector<Expr>& box_sizes(const Graph& graph, const StorageBox& box, std::vector<Expr>& scratch);

}  // namespace braid::ir
