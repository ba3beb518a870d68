// Attention on the emulated device, against the interpreter.
#include "tests/codegen_cuda/run_case.h"

namespace braid::test {
namespace {

class Attention : public CudaCase {};

TEST_F(Attention, ProductsAndLoopsAreAsTheInterpreterSays) {
  for (const AttentionCase& c : attention_cases()) {
    SCOPED_TRACE(c.name);
    RunOptions options;
    options.seed = c.seed;
    const double tolerance = c.dtype == ir::DType::f64   ? 1e-12
                             : c.dtype == ir::DType::f32 ? 1e-5
                             : c.dtype == ir::DType::f16 ? 2e-3
                                                         : 2e-2;
    expect_equal(run_case(c.name, planned_attention(c).dims, options), tolerance);
    ASSERT_THAT(found(), ::testing::IsEmpty());
  }
}

}  // namespace
}  // namespace braid::test
