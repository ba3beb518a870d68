// Small models that the tests of splits share.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "driver/compile.h"
#include "ir/interpreter.h"
#include "ir/schedule.h"
#include "tests/frontend/models.h"

namespace braid::test {

// A weight of small whole numbers, in ONNX's text.
std::string weight(const std::string& name, int rows, int columns);
// `layers` pairs of products with a residual, of whole numbers.
std::string network(int layers, int rows, int hidden);
// A layer with norms, attention over `heads` and two products.
std::string layer(int sequence, int hidden, int heads);

// The first result of each rank, with `x` for all of them.
std::vector<ir::Tensor> outputs_of(const ir::Schedule& schedule, const ir::Tensor& x);
// Whole numbers from -3 to 3.
ir::Tensor numbers(std::vector<std::int64_t> sizes);

class SplitModel : public ::testing::Test {
 protected:
  CompileOptions options(const std::string& text) {
    CompileOptions o;
    o.model = folder_.write("model.onnx", frontend::parse_model(text, 18));
    return o;
  }
  frontend::TemporaryFolder folder_;
};

}  // namespace braid::test
