// Expressions that several threads make.
#pragma once

#include <span>

#include "ir/expr.h"

namespace braid::ir {

// While a SharedPool lives, several threads may make expressions in the pool of the given expressions. The
// order of the threads does not matter: expressions are ordered by content.
class SharedPool {
 public:
  explicit SharedPool(std::span<const Expr> expressions);
  ~SharedPool();
  SharedPool(const SharedPool&) = delete;
  SharedPool& operator=(const SharedPool&) = delete;

 private:
  ExprPool* pool_ = nullptr;  // null: all are constants
};

}  // namespace braid::ir
