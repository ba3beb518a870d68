// Rows times a packed matrix, by both of our own kernels: every panel width, odd and even numbers of rows and
// panels, narrow last panels.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "runtime/gemm_isa.h"
#include "runtime/processor.h"
#include "runtime/tile_kernels.h"

namespace braid::test {
namespace {

// Those that this processor can run.
std::vector<const rt::GemmKernels*> kernels() {
  std::vector<const rt::GemmKernels*> out = {&rt::baseline::kGemmKernels};
#ifdef __x86_64__
  if (rt::instruction_set() >= rt::InstructionSet::avx2) out.push_back(&rt::avx2::kGemmKernels);
  if (rt::instruction_set() >= rt::InstructionSet::avx512) out.push_back(&rt::avx512::kGemmKernels);
#endif
  return out;
}

struct PanelCase {
  int64_t width, m, n, k;
};

class CppPanels : public ::testing::TestWithParam<PanelCase> {};

// Small integers: sums are exact in any order.
std::vector<float> integers(int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_int_distribution<int> number(-8, 8);
  std::vector<float> out(static_cast<size_t>(count));
  for (float& x : out) x = static_cast<float>(number(generator));
  return out;
}

TEST_P(CppPanels, MultiplyAsWrittenOut) {
  const auto [width, m, n, k] = GetParam();
  const int64_t panels = (n + width - 1) / width;
  const std::vector<float> a = integers(m * k, 1), b = integers(k * n, 2), bias = integers(n, 3);
  std::vector<float> packed(static_cast<size_t>(panels * width * k), 99.0f);  // 99: padding, never to be seen
  for (int64_t i = 0; i < k; ++i) {
    for (int64_t j = 0; j < n; ++j)
      packed[static_cast<size_t>(j / width * width * k + i * width + j % width)] =
          b[static_cast<size_t>(i * n + j)];
  }
  rt::GemmShape shape;
  shape.m = m;
  shape.n = n;
  shape.k = k;
  shape.a_row = k;
  shape.a_col = 1;
  shape.c_row = n;
  shape.c_col = 1;
  shape.epilogue.ops[0] = rt::PostOp::add_vector;
  const auto check = [&, m = m, n = n, k = k](const auto& run) {
    std::vector<float> c(static_cast<size_t>(m * n + 1), -1.0f);
    rt::GemmArgs args;
    args.a = a.data();
    args.c = c.data();
    args.vectors[0] = bias.data();
    run(args);
    for (int64_t r = 0; r < m; ++r) {
      for (int64_t j = 0; j < n; ++j) {
        float want = bias[static_cast<size_t>(j)];
        for (int64_t i = 0; i < k; ++i)
          want += a[static_cast<size_t>(r * k + i)] * b[static_cast<size_t>(i * n + j)];
        ASSERT_EQ(c[static_cast<size_t>(r * n + j)], want) << "row " << r << " column " << j;
      }
    }
    EXPECT_EQ(c.back(), -1.0f) << "written behind the end";
  };
  const rt::Panels layout = {width, width * k};
  // Two threads' shares, of which one may be empty.
  for (const rt::GemmKernels* own : kernels()) {
    check([&](const rt::GemmArgs& args) {
      own->run_panels(shape, args, packed.data(), layout, 0, panels / 2);
      own->run_panels(shape, args, packed.data(), layout, panels / 2, panels);
    });
  }
  if (!rt::suits_tiles(width)) return;
  check([&](const rt::GemmArgs& args) {
    rt::tile_kernels()->multiply(shape, args, packed.data(), layout, {0, shape.m, 0, panels / 2});
    rt::tile_kernels()->multiply(shape, args, packed.data(), layout, {0, shape.m, panels / 2, panels});
  });
  check([&](const rt::GemmArgs& args) {
    rt::tile_kernels()->multiply(shape, args, packed.data(), layout, {0, shape.m / 3, 0, panels});
    rt::tile_kernels()->multiply(shape, args, packed.data(), layout, {shape.m / 3, shape.m, 0, panels});
  });
}

std::vector<PanelCase> cases() {
  std::vector<PanelCase> out;
  for (int64_t width : {8, 16, 32, 48, 64}) {
    for (int64_t m : {1, 2, 3, 5, 23, 100}) {
      for (int64_t n : {width - 3, width, 9 * width + 5, 14 * width}) out.push_back({width, m, n, 37});
    }
  }
  // More than tiles take at once.
  for (int64_t width : {16, 48, 64}) {
    for (int64_t k : {769, 2305}) {
      for (int64_t m : {5, 50}) out.push_back({width, m, 2 * width + 5, k});
    }
  }
  return out;
}
INSTANTIATE_TEST_SUITE_P(Shapes, CppPanels, ::testing::ValuesIn(cases()), [](const auto& info) {
  return "w" + std::to_string(info.param.width) + "_m" + std::to_string(info.param.m) + "_n" +
         std::to_string(info.param.n) + "_k" + std::to_string(info.param.k);
});

}  // namespace
}  // namespace braid::test
