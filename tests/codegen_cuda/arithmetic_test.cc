#include <limits>

#include "ir/element.h"
#include "tests/codegen_cuda/run_case.h"

namespace braid::test {
namespace {

using ir::DType;

class Arithmetic : public CudaCase, public ::testing::WithParamInterface<const char*> {
 protected:
  std::string type() const { return GetParam(); }
  // Results err by 2 ulp of f32, and may then be rounded to a half type.
  double tolerance() const {
    return type() == "f64" ? 0 : type() == "f32" ? 2.4e-7 : type() == "f16" ? 1e-3 : 8e-3;
  }
};

ir::Tensor tensor(DType dtype, std::vector<std::int64_t> sizes, const std::vector<float>& values) {
  ir::Tensor out = ir::make_tensor(dtype, std::move(sizes));
  for (std::size_t k = 0; k < values.size(); ++k)
    ir::write_element(dtype, out.bytes.data() + k * static_cast<std::size_t>(ir::size_of(dtype)),
                      static_cast<double>(values[k]));
  return out;
}

constexpr const char* kQuotients[] = {"quotients_", "literal_quotients_", "broadcast_quotients_"};

TEST_P(Arithmetic, PreciseQuotientsAreThoseOfTheInterpreter) {
  for (const std::string name : kQuotients) expect_equal(run_case(name + type() + "_precise"), 0);
}

TEST_P(Arithmetic, CheapQuotientsErrByTwoUlp) {
  for (const std::string name : kQuotients) expect_equal(run_case(name + type()), tolerance());
}

TEST_P(Arithmetic, FunctionsAreCloseInBothForms) {
  RunOptions options;
  options.integers = false;
  for (const char* precise : {"", "_precise"}) {
    // f64 computes all but the root in f32, too.
    const double tolerance = type() == "f64" || type() == "f32" ? 1e-5 : type() == "f16" ? 2e-3 : 1e-2;
    expect_equal(run_case("functions_" + type() + precise, {}, options), tolerance);
  }
}

// A divisor of each row: everything that a reciprocal could get wrong.
TEST_P(Arithmetic, QuotientsBySpecialNumbersAreAsIeeeSays) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const float largest = type() == "f16" ? 65504.0f : 0x1.fep127f,
              smallest = type() == "f16" ? 0x1p-24f : 0x1p-133f;
  std::vector<float> y = {0.0f,         -0.0f, inf,         -inf,       nan,      1.0f,
                          -1.0f,        2.0f,  largest,     -largest,   smallest, -smallest,
                          3 * smallest, 0.5f,  largest / 2, largest / 4};
  std::vector<float> x;
  for (std::size_t row = 0; row < y.size(); ++row) {
    for (std::size_t column = 0; column < 40; ++column)
      x.push_back(column < y.size() ? y[column] : static_cast<float>(column) - 20.0f);
  }
  const DType dtype = *ir::dtype_from_string(type());
  RunOptions options;
  options.inputs = {{"x", tensor(dtype, {16, 40}, x)}, {"y", tensor(dtype, {16, 1}, y)}};
  expect_equal(run_case("broadcast_quotients_" + type() + "_precise", {}, options), 0);
  expect_equal(run_case("broadcast_quotients_" + type(), {}, options), tolerance());
}

TEST_P(Arithmetic, ProgramsDifferWhereFormsDo) {
  for (const std::string name : {"quotients_", "literal_quotients_", "broadcast_quotients_", "functions_"}) {
    const std::string cheap = emitted(find_case(name + type())).body,
                      precise = emitted(find_case(name + type() + "_precise")).body;
    EXPECT_EQ(cheap.find("math::cheap") != std::string::npos, type() != "f64") << name;
    EXPECT_EQ(precise.find("math::cheap"), std::string::npos) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda, Arithmetic, ::testing::Values("f32", "f64", "f16", "bf16"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace braid::test
