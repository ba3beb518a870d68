#include "tests/support/close.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ir/element.h"

namespace braid::test {

void expect_close(const ir::Tensor& got, const ir::Tensor& want, double tolerance, const std::string& what) {
  ASSERT_EQ(got.dtype, want.dtype) << what;
  ASSERT_EQ(got.sizes, want.sizes) << what;
  const std::int64_t bytes = ir::size_of(got.dtype);
  for (std::int64_t k = 0; k < got.numel(); ++k) {
    const ir::Literal a = ir::read_element(got.dtype, got.bytes.data() + k * bytes);
    const ir::Literal b = ir::read_element(want.dtype, want.bytes.data() + k * bytes);
    if (std::holds_alternative<std::int64_t>(a)) {
      ASSERT_EQ(std::get<std::int64_t>(a), std::get<std::int64_t>(b)) << what << ", element " << k;
      continue;
    }
    const double x = std::get<double>(a), y = std::get<double>(b);
    if (std::isnan(y) || std::isinf(y) || tolerance == 0) {
      ASSERT_TRUE((std::isnan(x) && std::isnan(y)) || x == y)
          << what << ", element " << k << ": " << x << " instead of " << y;
    } else {
      ASSERT_LE(std::fabs(x - y), tolerance * std::max(1.0, std::fabs(y)))
          << what << ", element " << k << ": " << x << " instead of " << y;
    }
  }
}

}  // namespace braid::test
