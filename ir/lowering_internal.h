// Shared by the parts of lazy lowering. Private to them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ir/lowering.h"

namespace braid::ir {

// Sets the frame to which operations are added, and sets it back at its end.
class AtDepth {
 public:
  AtDepth(std::size_t& depth, std::size_t to) : depth_(depth), before_(depth) { depth_ = to; }
  ~AtDepth() { depth_ = before_; }
  AtDepth(const AtDepth&) = delete;
  AtDepth& operator=(const AtDepth&) = delete;

 private:
  std::size_t& depth_;
  const std::size_t before_;
};

// i0, i1, ...
std::vector<Expr> index_symbols(ExprPool& pool, std::size_t count);
// Replaces indices of extent 1 by 0 and simplifies with the ranges of the others.
LoopBody simplify_body(const LoopBody& body, const std::vector<Expr>& sizes);
Expr flat_index(std::span<const Expr> index, std::span<const Expr> strides);
// Whether computing e needs a division of loop indices per element.
bool divides(Expr e);
void merge_origins(std::vector<std::string>& into, const std::vector<std::string>& from);
// The sizes of the box's contents, possibly stored in `scratch`.
const std::vector<Expr>& box_sizes(const Graph& graph, const StorageBox& box, std::vector<Expr>& scratch);

}  // namespace braid::ir
