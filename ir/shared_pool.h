// Expressions that several threads make.
#pragma once

#include <span>

#include "ir/expr.h"

namespace braid::ir {

// While one lives, several threads may make expressions of the pool to which one of these belongs. Which thread is first does not matter:
// expressions are ordered by what they are.
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
