// Sizes 0 and 1 of every dimension, in every kind of kernel, against the interpreter. No thread races, and no
// kernel reads memory that was never written.
#include <fmt/format.h>

#include "tests/codegen_cuda/run_case.h"

namespace braid::test {
namespace {

class Sizes : public CudaCase, public ::testing::WithParamInterface<SizeCase> {};

// All choices of a size for each dimension.
std::vector<std::map<std::string, std::int64_t>> choices(const SizeCase& c) {
  std::vector<std::map<std::string, std::int64_t>> out = {{}};
  for (ir::Expr dim : c.build().graph.dims) {
    std::vector<std::map<std::string, std::int64_t>> longer;
    for (const auto& chosen : out) {
      for (std::int64_t size : c.sizes) {
        longer.push_back(chosen);
        longer.back()[dim.dim_name()] = size;
      }
    }
    out = std::move(longer);
  }
  return out;
}

TEST_P(Sizes, OfZeroAndOneAreAsTheInterpreterSays) {
  const SizeCase& c = GetParam();
  for (const auto& dims : choices(c)) {
    std::string text;
    for (const auto& [name, size] : dims) text += fmt::format("{}={} ", name, size);
    SCOPED_TRACE(text);
    RunOptions options;
    options.integers = c.tolerance == 0;
    expect_equal(run_case(c.name, dims, options), c.tolerance);
    ASSERT_THAT(found(), ::testing::IsEmpty());
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda, Sizes, ::testing::ValuesIn(size_cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace braid::test
