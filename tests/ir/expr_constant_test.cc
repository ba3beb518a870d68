#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "ir/error.h"
#include "ir/expr.h"

namespace braid::ir {
namespace {

TEST(ExprConstant, ArithmeticOfConstantsNeedsNoPool) {
  const Expr six = Expr(2) * Expr(3);
  EXPECT_EQ(six.constant(), 6);
  EXPECT_EQ(to_string(six), "6");
}

TEST(ExprConstant, ASymbolHasNoConstantValue) {
  ExprPool pool;
  EXPECT_THROW(pool.index(0).constant(), InternalError);
}

TEST(ExprConstant, OverflowIsAUserError) {
  const Expr size = std::numeric_limits<std::int64_t>::max();
  try {
    size* Expr(2);
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), 301);  // BR0301
  }
}

}  // namespace
}  // namespace braid::ir
