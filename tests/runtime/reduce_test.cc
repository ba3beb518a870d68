#include "runtime/comm/reduce.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "runtime/comm/reduce_isa.h"

namespace braid::rt {
namespace {

using Function = decltype(&baseline::reduce);

std::vector<Function> available() {
  std::vector<Function> functions = {&baseline::reduce};
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c")) functions.push_back(&avx2::reduce);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    functions.push_back(&avx512::reduce);
  }
#endif
  return functions;
}

template <typename T>
std::vector<T> reduce_two(Function function, DType dtype, ReduceOp op, const std::vector<T>& a,
                          const std::vector<T>& b, bool streaming = false) {
  std::vector<T> result(a.size());
  const std::vector<const void*> sources = {a.data(), b.data()};
  const std::vector<void*> destinations = {result.data()};
  function(dtype, op, sources, destinations, a.size(), streaming);
  return result;
}

TEST(Reduce, adding_zero_keeps_every_half) {
  std::vector<uint16_t> all(65536), zero(65536, 0x8000);  // -0: the neutral element
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  for (const Function function : available()) {
    for (const DType dtype : {DType::f16, DType::bf16}) {
      const std::vector<uint16_t> result = reduce_two(function, dtype, ReduceOp::sum, all, zero);
      const uint16_t infinity = dtype == DType::f16 ? 0x7c00 : 0x7f80;
      for (size_t i = 0; i < all.size(); ++i) {
        if ((i & 0x7fff) > infinity) {
          ASSERT_GT(result[i] & 0x7fff, infinity) << i;  // a NaN stays a NaN
        } else {
          ASSERT_EQ(result[i], all[i]) << to_string(dtype);
        }
      }
    }
  }
}

TEST(Reduce, half_sums_round_to_nearest_even) {
  std::mt19937 random(7);
  std::vector<uint16_t> a(20'001), b(20'001);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<uint16_t>(random());
    b[i] = static_cast<uint16_t>(random());
  }
  for (const Function function : available()) {
    const std::vector<uint16_t> result = reduce_two(function, DType::f16, ReduceOp::sum, a, b);
    for (size_t i = 0; i < a.size(); ++i) {
      const float exact = static_cast<float>(std::bit_cast<_Float16>(a[i])) +
                          static_cast<float>(std::bit_cast<_Float16>(b[i]));
      if (std::isnan(exact)) continue;
      ASSERT_EQ(result[i], std::bit_cast<uint16_t>(static_cast<_Float16>(exact))) << a[i] << " + " << b[i];
    }
  }
}

TEST(Reduce, every_instruction_set_gives_the_same_bits) {
  std::mt19937 random(11);
  for (int type = 0; type < kDTypeCount; ++type) {
    const auto dtype = static_cast<DType>(type);
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::min, ReduceOp::max, ReduceOp::prod}) {
      if (!reducible(dtype, op)) continue;
      constexpr size_t kCount = 2777;
      const size_t bytes = kCount * size_of(dtype);
      std::vector<std::vector<unsigned char>> inputs(3, std::vector<unsigned char>(bytes));
      for (auto& input : inputs) {
        for (size_t i = 0; i < kCount; ++i) {
          // Finite floating-point numbers, any integers.
          if (dtype == DType::f32) {
            const float value = std::ldexp(static_cast<float>(random() % 2000) - 1000.0f,
                                           static_cast<int>(random() % 20) - 10);
            std::memcpy(&input[i * 4], &value, 4);
          } else if (dtype == DType::f64) {
            const double value = std::ldexp(static_cast<double>(random() % 2000) - 1000.0,
                                            static_cast<int>(random() % 40) - 20);
            std::memcpy(&input[i * 8], &value, 8);
          } else if (dtype == DType::f16 || dtype == DType::bf16) {
            const auto value = static_cast<uint16_t>((random() & 0x8fff) | 0x3000);
            std::memcpy(&input[i * 2], &value, 2);
          } else {
            for (size_t b = 0; b < size_of(dtype); ++b)
              input[i * size_of(dtype) + b] = static_cast<unsigned char>(random());
          }
        }
      }
      const std::vector<const void*> sources = {inputs[0].data(), inputs[1].data(), inputs[2].data()};
      std::vector<unsigned char> reference;
      for (const Function function : available()) {
        for (const bool streaming : {false, true}) {
          std::vector<unsigned char> first(bytes + 3), second(bytes);
          const std::vector<void*> destinations = {first.data() + 3, second.data()};
          function(dtype, op, sources, destinations, kCount, streaming);
          if (reference.empty()) reference = second;
          EXPECT_EQ(second, reference) << to_string(dtype) << " " << to_string(op);
          EXPECT_EQ(std::memcmp(first.data() + 3, reference.data(), bytes), 0);
        }
      }
    }
  }
}

TEST(Reduce, min_and_max_propagate_nan_from_either_side) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Function function : available()) {
    for (const ReduceOp op : {ReduceOp::min, ReduceOp::max}) {
      const auto result = reduce_two<float>(function, DType::f32, op, {nan, 1, 2}, {1, nan, 3});
      EXPECT_TRUE(std::isnan(result[0]) && std::isnan(result[1]));
      EXPECT_EQ(result[2], op == ReduceOp::min ? 2 : 3);
    }
  }
}

TEST(Reduce, integers_wrap_and_averages_do_not) {
  for (const Function function : available()) {
    EXPECT_EQ(reduce_two<int8_t>(function, DType::i8, ReduceOp::sum, {127, -128}, {1, -1}),
              (std::vector<int8_t>{-128, 127}));
    EXPECT_EQ(reduce_two<int8_t>(function, DType::i8, ReduceOp::avg, {127, -128, -3}, {125, -128, 0}),
              (std::vector<int8_t>{126, -128, -1}));
    EXPECT_EQ(reduce_two<uint16_t>(function, DType::u16, ReduceOp::prod, {65535}, {65535}),
              (std::vector<uint16_t>{1}));
  }
}

TEST(Reduce, bool_is_or_and_and) {
  for (const Function function : available()) {
    const std::vector<uint8_t> a = {0, 0, 2, 1}, b = {0, 1, 0, 255};
    EXPECT_EQ(reduce_two(function, DType::boolean, ReduceOp::sum, a, b), (std::vector<uint8_t>{0, 1, 1, 1}));
    EXPECT_EQ(reduce_two(function, DType::boolean, ReduceOp::max, a, b), (std::vector<uint8_t>{0, 1, 1, 1}));
    EXPECT_EQ(reduce_two(function, DType::boolean, ReduceOp::prod, a, b), (std::vector<uint8_t>{0, 0, 0, 1}));
    EXPECT_EQ(reduce_two(function, DType::boolean, ReduceOp::min, a, b), (std::vector<uint8_t>{0, 0, 0, 1}));
  }
}

TEST(Reduce, a_destination_may_be_any_of_the_sources) {
  for (const Function function : available()) {
    for (int alias = 0; alias < 3; ++alias) {
      std::vector<std::vector<float>> data(3, std::vector<float>(5000));
      for (int s = 0; s < 3; ++s) {
        for (size_t i = 0; i < data[s].size(); ++i) data[s][i] = static_cast<float>(i * 3 + s);
      }
      const std::vector<const void*> sources = {data[0].data(), data[1].data(), data[2].data()};
      const std::vector<void*> destinations = {data[alias].data()};
      function(DType::f32, ReduceOp::sum, sources, destinations, 5000, false);
      for (size_t i = 0; i < 5000; ++i) ASSERT_EQ(data[alias][i], static_cast<float>(9 * i + 3));
    }
  }
}

}  // namespace
}  // namespace braid::rt
