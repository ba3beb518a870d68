// Products by weights that DequantizeLinear makes of constants (frontend/ops/packed_weights.h): which stay
// packed, and their values.
#include "frontend/ops/packed_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ir/interpreter.h"
#include "passes/dead_code.h"
#include "tests/frontend/models.h"

namespace braid::frontend {
namespace {

constexpr int kPackedOpset = 21;

// Bytes of all constants that the program reads.
std::int64_t constant_bytes(ir::Schedule schedule) {
  passes::DeadCode().run(schedule);
  std::int64_t bytes = 0;
  for (const ir::Storage& storage : schedule.graph.storages) {
    if (storage.kind == ir::StorageKind::constant) bytes += storage.bytes.constant();
  }
  return bytes;
}
bool is_packed(const ir::Schedule& schedule) {
  for (const ir::Operation& op : schedule.graph.ops) {
    if (const auto* kernel = op.as<ir::ExternKernel>();
        kernel != nullptr && kernel->callee == "block_product")
      return true;
  }
  return false;
}

std::string numbers(std::int64_t count, std::int64_t modulus) {
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < count; ++i) out.push_back(i * 5 % modulus);
  return fmt::format("{}", fmt::join(out, ","));
}

// x [2, 32] of ones, and a 2 in one place.
std::vector<float> product(const ir::Schedule& schedule) {
  std::vector<float> x(64, 1);
  x[35] = 2;
  const std::vector<std::vector<ir::Tensor>> inputs = {{ir::make_tensor(ir::DType::f32, {2, 32}, x)}};
  return ir::run(schedule, inputs).outputs[0][0].values<float>();
}

// Row r of the product by (q - zero[block]) * scale[block], with q as `numbers` makes them.
float expected(std::int64_t modulus, std::int64_t column, std::int64_t columns, bool by_rows, int row) {
  float sum = 0;
  for (std::int64_t k = 0; k < 32; ++k) {
    const std::int64_t at = by_rows ? column * 32 + k : k * columns + column;
    const float scale = k < 16 ? 0.5f : 0.25f, zero = k < 16 ? 3.0f : 5.0f,
                x = row == 1 && k == 3 ? 2.0f : 1.0f;
    sum += x * (static_cast<float>(at * 5 % modulus) - zero) * scale;
  }
  return sum;
}

TEST(PackedWeights, BlocksOfBytesAlongTheInnerDimension) {
  const ir::Schedule schedule = import_text(
      "g (float[2,32] x) => (float[2,2] y) { q = Constant <value = uint8[32,2] {" + numbers(64, 256) +
          "}> () s = Constant <value = float[2,2] {0.5,0.5,0.25,0.25}> () z = Constant <value = uint8[2,2] "
          "{3,3,5,5}> () "
          "w = DequantizeLinear <axis = 0, block_size = 16> (q, s, z) y = MatMul(x, w) }",
      {}, kPackedOpset);
  EXPECT_TRUE(is_packed(schedule));
  EXPECT_EQ(constant_bytes(schedule), 64 + 16 + 4);
  const std::vector<float> y = product(schedule);
  for (int row = 0; row < 2; ++row) {
    for (int column = 0; column < 2; ++column)
      EXPECT_FLOAT_EQ(y[static_cast<std::size_t>(row * 2 + column)], expected(256, column, 2, false, row));
  }
}

TEST(PackedWeights, TransposedAndScaledByGemm) {
  const ir::Schedule schedule = import_text(
      "g (float[2,32] x) => (float[2,2] y) { q = Constant <value = uint8[2,32] {" + numbers(64, 256) +
          "}> () s = Constant <value = float[2,2] {0.5,0.25,0.5,0.25}> () z = Constant <value = uint8[2,2] "
          "{3,5,3,5}> () "
          "w = DequantizeLinear <axis = 1, block_size = 16> (q, s, z) y = Gemm <transB = 1, alpha = 2.0> (x, "
          "w) }",
      {}, kPackedOpset);
  EXPECT_TRUE(is_packed(schedule));
  const std::vector<float> y = product(schedule);
  for (int row = 0; row < 2; ++row) {
    for (int column = 0; column < 2; ++column)
      EXPECT_FLOAT_EQ(y[static_cast<std::size_t>(row * 2 + column)], 2 * expected(256, column, 2, true, row));
  }
}

// Blocks along the columns, and 8 bits with a scale per column, are made by loops; the results are right.
TEST(PackedWeights, OtherFormsAreLoops) {
  const ir::Schedule columns = import_text(
      "g (float[2,32] x) => (float[2,2] y) { q = Constant <value = uint8[32,2] {" + numbers(64, 256) +
          "}> () s = Constant <value = float[2] {0.5, 0.5}> () z = Constant <value = uint8[2] {3, 3}> () "
          "w = DequantizeLinear <axis = 1> (q, s, z) y = MatMul(x, w) }",
      {}, kPackedOpset);
  EXPECT_FALSE(is_packed(columns));
  const ir::Schedule along =
      import_text("g (float[2,32] x) => (float[2,16] y) { q = Constant <value = uint8[32,16] {" +
                      numbers(512, 256) + "}> () s = Constant <value = float[32,1] {" + std::string("1") +
                      fmt::format("{}", fmt::join(std::vector<std::string>(31, ",2"), "")) +
                      "}> () w = DequantizeLinear <axis = 1, block_size = 16> (q, s) y = MatMul(x, w) }",
                  {}, kPackedOpset);
  EXPECT_FALSE(is_packed(along));
}

}  // namespace
}  // namespace braid::frontend
