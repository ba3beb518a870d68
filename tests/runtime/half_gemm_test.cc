// Products of halves beside sums in float64: kernels of every instruction set on this processor, all strides
// and epilogues.
#include "runtime/half_gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "runtime/byte_weights.h"
#include "runtime/half.h"
#include "runtime/processor.h"
#include "tests/runtime/between.h"
#include "tests/support/compute_threads.h"
#include "tests/support/random.h"

namespace braid::rt {
namespace {

float real(Random& random) { return std::uniform_real_distribution<float>(-2, 2)(random); }

uint16_t narrow(DType type, float x) { return type == DType::f16 ? to_half(x).bits : to_bfloat16(x).bits; }
float wide(DType type, uint16_t bits) {
  return type == DType::f16 ? to_float(Half{bits}) : to_float(BFloat16{bits});
}
std::vector<uint16_t> halves(DType type, Random& random, int64_t count) {
  std::vector<uint16_t> out(static_cast<size_t>(count));
  for (uint16_t& x : out) x = narrow(type, real(random));
  return out;
}

// The step of an epilogue in float64, with the element's operand.
double applied(PostOp op, float scale, double x, double operand) {
  switch (op) {
    case PostOp::scale:
      return x * static_cast<double>(scale);
    case PostOp::mul_vector:
      return x * operand;
    case PostOp::add_vector:
    case PostOp::add_matrix:
      return x + operand;
    case PostOp::relu:
      return std::max(x, 0.0);
    case PostOp::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    case PostOp::gelu_erf:
      return 0.5 * x * (1 + std::erf(x * 0.7071067811865476));
    case PostOp::sigmoid:
      return 1 / (1 + std::exp(-x));
    default:
      return x;
  }
}

struct Case {
  uint64_t seed = 0;
  GemmShape s;
  std::vector<uint16_t> a, b;
  std::vector<std::vector<float>> operands;
  int64_t c_elements = 0;
};

Case make_case(uint64_t seed, int i) {
  Case c;
  c.seed = seed;
  Random random(seed);
  GemmShape& s = c.s;
  s.type = random() % 3 == 0 ? DType::f16 : DType::bf16;
  s.c_type = random() % 2 == 0 ? s.type : DType::f32;
  s.m = i % 7 == 0 ? between(random, 260, 300) : between(random, 0, 40);
  s.n = i % 3 == 0 ? between(random, 64, 330) : between(random, 1, 70);
  s.k = i % 11 == 0 ? between(random, 500, 2100) : between(random, 1, 90);
  const int64_t batches = random() % 3 == 0 ? between(random, 1, 3) : 1;
  s.a_col = random() % 4 == 0 ? between(random, 2, 3) : 1;
  s.a_row = s.k * s.a_col + between(random, 0, 3);
  if (random() % 2 == 0) {
    s.b_col = 1;
    s.b_row = s.n + between(random, 0, 2);
  } else {
    s.b_row = 1;
    s.b_col = s.k + between(random, 0, 2);
  }
  s.c_col = 1;
  s.c_row = s.n + between(random, 0, 3);
  const int64_t a_batch = s.m * s.a_row + 1, c_batch = s.m * s.c_row + 5;
  if (batches > 1) {
    s.batch_rank = 1;
    s.batch[0] = batches;
    s.a_batch[0] = a_batch;
    s.c_batch[0] = c_batch;
  }
  c.a = halves(s.type, random, batches * a_batch);
  c.b = halves(s.type, random, s.k * s.b_row + s.n * s.b_col);
  c.c_elements = batches * c_batch;
  constexpr PostOp kAll[] = {PostOp::scale, PostOp::mul_vector, PostOp::add_vector, PostOp::add_matrix,
                             PostOp::relu,  PostOp::gelu_tanh,  PostOp::gelu_erf,   PostOp::sigmoid};
  const auto steps = static_cast<size_t>(random() % 4);
  s.epilogue.scale = 0.5f;
  c.operands.resize(kMaxPostOps);
  for (size_t p = 0; p < steps; ++p) {
    s.epilogue.ops[p] = kAll[random() % std::size(kAll)];
    if (!takes_operand(s.epilogue.ops[p])) continue;
    const bool matrix = s.epilogue.ops[p] == PostOp::add_matrix;
    c.operands[p].resize(static_cast<size_t>(matrix ? c.c_elements : s.n));
    for (float& x : c.operands[p]) x = real(random);
  }
  return c;
}

TEST(HalfGemm, ShapesOfTheLibrary) {
  for (int i = 0; i < test::random_cases(250); ++i) {
    const uint64_t seed = test::first_seed() + static_cast<uint64_t>(i);
    const Case c = make_case(seed, i);
    const GemmShape& s = c.s;
    const test::ComputeThreads threads_of_case(1 + static_cast<int>(seed % 2));
    GemmLibrary library;
    const PackedMatrix packed = library.pack(s.type, s.type, s.k, s.n, c.b.data(), s.b_row, s.b_col);
    ASSERT_TRUE(packed.valid());
    const GemmKernel* kernel = library.kernel(s, &packed);
    const bool units = s.type == DType::bf16 && has_bf16_units();
    if (s.m > 0) {
      ASSERT_STREQ(kernel->name(), units ? "bf16 tiles" : "widened halves");
    }
    constexpr float kUntouched = 123;
    const bool direct = s.c_type == DType::f32;
    std::vector<float> sums(static_cast<size_t>(c.c_elements), kUntouched);
    std::vector<uint16_t> stored(sums.size(), narrow(s.type, kUntouched));
    GemmArgs args;
    args.a = c.a.data();
    args.b = c.b.data();
    args.c = direct ? static_cast<void*>(sums.data()) : stored.data();
    for (int p = 0; p < kMaxPostOps; ++p) args.vectors[p] = c.operands[static_cast<size_t>(p)].data();
    kernel->run(args, &packed);
    if (!direct) {
      for (size_t e = 0; e < sums.size(); ++e) sums[e] = wide(s.type, stored[e]);
    }
    std::vector<bool> written(sums.size(), false);
    for (int64_t batch = 0; batch < s.batches(); ++batch) {
      for (int64_t row = 0; row < s.m; ++row) {
        for (int64_t j = 0; j < s.n; ++j) {
          double want = 0, largest = 0;
          for (int64_t k = 0; k < s.k; ++k) {
            const double product =
                static_cast<double>(wide(
                    s.type, c.a[static_cast<size_t>(batch * s.a_batch[0] + row * s.a_row + k * s.a_col)])) *
                static_cast<double>(wide(s.type, c.b[static_cast<size_t>(k * s.b_row + j * s.b_col)]));
            want += product;
            largest += std::fabs(product);
          }
          const int64_t at = batch * s.c_batch[0] + row * s.c_row + j;
          for (size_t p = 0; p < kMaxPostOps && s.epilogue.ops[p] != PostOp::none; ++p) {
            const bool matrix = s.epilogue.ops[p] == PostOp::add_matrix;
            const double operand =
                takes_operand(s.epilogue.ops[p])
                    ? static_cast<double>(c.operands[p][static_cast<size_t>(matrix ? at : j)])
                    : 0;
            want = applied(s.epilogue.ops[p], s.epilogue.scale, want, operand);
            largest = std::max({largest * 2, std::fabs(want), std::fabs(operand)});
          }
          const double rounding = direct ? 0 : s.type == DType::f16 ? 6e-4 : 4.5e-3;
          const auto got = static_cast<double>(sums[static_cast<size_t>(at)]);
          ASSERT_NEAR(got, want, 2e-6 * (largest + 1) + rounding * std::fabs(want) + (direct ? 0 : 1e-6))
              << kernel->name() << ", seed " << seed << ", row " << row << ", column " << j;
          written[static_cast<size_t>(at)] = true;
        }
      }
    }
    for (size_t e = 0; e < sums.size(); ++e) {
      if (!written[e]) ASSERT_EQ(sums[e], kUntouched) << "seed " << seed << ", element " << e;
    }
  }
}

// The number of threads changes no bit.
TEST(HalfGemm, EveryNumberOfThreadsGivesTheSameBits) {
  for (const DType type : {DType::f16, DType::bf16}) {
    for (const int64_t m : {1, 2, 5, 17, 131}) {
      Random random(static_cast<uint64_t>(m));
      GemmShape s;
      s.type = type;
      s.c_type = DType::f32;
      s.m = m;
      s.n = 1000;
      s.k = 333;
      s.a_row = s.k;
      s.b_row = s.c_row = s.n;
      s.a_col = s.b_col = s.c_col = 1;
      const std::vector<uint16_t> a = halves(type, random, s.m * s.k), b = halves(type, random, s.k * s.n);
      std::vector<float> first;
      for (const int threads : {1, 2, 3}) {
        const test::ComputeThreads threads_of_case(threads);
        GemmLibrary library;
        const PackedMatrix packed = library.pack(type, type, s.k, s.n, b.data(), s.b_row, s.b_col);
        std::vector<float> c(static_cast<size_t>(s.m * s.n));
        library.kernel(s, &packed)->run({a.data(), b.data(), c.data(), {}, {}}, &packed);
        if (threads == 1) first = c;
        ASSERT_EQ(std::memcmp(first.data(), c.data(), c.size() * sizeof(float)), 0)
            << to_string(type) << ", " << m << " rows, " << threads << " threads";
      }
    }
  }
}

// f32 rows with weights of every narrow type, with the kernels of every instruction set.
TEST(HalfGemm, WidenedWeightsOfEveryInstructionSet) {
  std::vector<std::pair<const char*, const GemmKernels*>> sets = {{"baseline", &baseline::kGemmKernels}};
#ifdef __x86_64__
  if (instruction_set() != InstructionSet::baseline) sets.emplace_back("avx2", &avx2::kGemmKernels);
  if (instruction_set() == InstructionSet::avx512) sets.emplace_back("avx512", &avx512::kGemmKernels);
#endif
  for (int i = 0; i < test::random_cases(60); ++i) {
    const uint64_t seed = test::first_seed() + static_cast<uint64_t>(i);
    Random random(seed);
    constexpr DType kTypes[] = {DType::i8, DType::u8, DType::f16, DType::bf16};
    const DType type = kTypes[random() % 4];
    GemmShape s;
    s.m = between(random, 1, 9);
    s.n = between(random, 1, 200);
    s.k = between(random, 1, 150);
    s.a_row = s.k;
    s.c_row = s.n;
    s.a_col = s.c_col = 1;
    std::vector<float> a(static_cast<size_t>(s.m * s.k)), weights(static_cast<size_t>(s.k * s.n));
    for (float& x : a) x = real(random);
    std::vector<uint8_t> bytes(weights.size());
    std::vector<uint16_t> words(weights.size());
    for (size_t e = 0; e < weights.size(); ++e) {
      bytes[e] = static_cast<uint8_t>(random());
      words[e] = narrow(type, real(random));
      weights[e] = type == DType::i8   ? static_cast<float>(static_cast<int8_t>(bytes[e]))
                   : type == DType::u8 ? static_cast<float>(bytes[e])
                                       : wide(type, words[e]);
    }
    const bool is_byte = size_of(type) == 1;
    const std::unique_ptr<ByteWeights> packed(pack_byte_weights(
        type, s.k, s.n, is_byte ? static_cast<const void*>(bytes.data()) : words.data(), s.n, 1));
    const int64_t panels = (s.n + 63) / 64;
    for (const auto& [name, kernels] : sets) {
      std::vector<float> c(static_cast<size_t>(s.m * s.n));
      kernels->run_byte_panels(s, {a.data(), nullptr, c.data(), {}, {}}, packed->bytes.get(), type, 0,
                               panels);
      std::vector<float> panel(static_cast<size_t>(s.k * 64));
      kernels->widen_panel(packed->bytes.get(), type, s.k, panel.data());
      for (int64_t j = 0; j < s.n; ++j) {
        for (int64_t k = 0; k < s.k && j < 64; ++k)
          ASSERT_EQ(panel[static_cast<size_t>(k * 64 + j)], weights[static_cast<size_t>(k * s.n + j)])
              << name << ", seed " << seed;
        for (int64_t row = 0; row < s.m; ++row) {
          double want = 0, largest = 0;
          for (int64_t k = 0; k < s.k; ++k) {
            const double product = static_cast<double>(a[static_cast<size_t>(row * s.k + k)]) *
                                   static_cast<double>(weights[static_cast<size_t>(k * s.n + j)]);
            want += product;
            largest += std::fabs(product);
          }
          ASSERT_NEAR(static_cast<double>(c[static_cast<size_t>(row * s.n + j)]), want, 2e-6 * (largest + 1))
              << name << ", seed " << seed << ", row " << row << ", column " << j;
        }
      }
    }
  }
}

}  // namespace
}  // namespace braid::rt
