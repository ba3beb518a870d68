// Tensors that are the same up to rounding.
#pragma once

#include <string>

#include "ir/tensor.h"

namespace braid::test {

// Fails the test unless all elements differ by at most tolerance * max(1, |want|). Integers, infinities and
// NaNs must be equal.
void expect_close(const ir::Tensor& got, const ir::Tensor& want, double tolerance, const std::string& what);

}  // namespace braid::test
