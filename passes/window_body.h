// Bodies of loops over the positions and taps of windows (ir::Window).
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ir/graph.h"

namespace braid::passes {

// A body over `sizes`; indices of extent 1 are 0.
class WindowBody : public ir::BodyBuilder {
 public:
  WindowBody(const ir::Graph& graph, std::vector<ir::Expr> sizes)
      : BodyBuilder(*graph.pool), graph_(graph), sizes_(std::move(sizes)) {}

  ir::Expr at(std::size_t k) { return sizes_[k].is_constant(1) ? ir::Expr(0) : pool().index(k); }
  const std::vector<ir::Expr>& sizes() const { return sizes_; }
  // Whether all elements so far lie in their dimensions; nullopt if that is proved.
  std::optional<ir::ValueId> inside() const { return inside_; }

  // Returns the element of a dimension of `size` that a window reads; from now on `inside` also requires that
  // there is one. Transposed: returns the position of a window over that dimension whose tap is this element.
  ir::Expr element(const ir::Window& w, bool transposed, ir::Expr position, ir::Expr tap, ir::Expr size);

  // Loads element `at`, 0 where not `inside`.
  ir::ValueId element_of(const ir::TensorRef& ref, std::span<const ir::Expr> at);
  static ir::Expr offset(const ir::TensorRef& ref, std::span<const ir::Expr> at);

  // Returns the loop that reduces all indices after the first `kept` and stores at `store` of its output.
  ir::Loops loops(std::size_t kept, ir::ReduceKind reduce, ir::ValueId value, ir::Expr store);

 private:
  void require(ir::ValueId condition);
  const ir::Graph& graph_;
  std::vector<ir::Expr> sizes_;
  std::optional<ir::ValueId> inside_;
};

}  // namespace braid::passes
