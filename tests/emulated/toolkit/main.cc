// The hand-written programs with the real libraries. On a machine with a GPU one rank is run; elsewhere that
// it starts is what is tested.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

#include "runtime/cuda_gemm.h"
#include "tests/emulated/cheap_math.h"
#include "tests/emulated/reductions.h"
#include "tests/emulated/tile_product.h"
#include "tests/emulated/two_streams.h"

namespace {

// Every mantissa, at two exponents: the GPU's own approximations instead of the emulated device's. Null, or
// what went wrong.
const char* check_cheap_math() {
  constexpr size_t kCount = size_t{1} << 24;
  std::vector<float> x(kCount), got(kCount);
  for (size_t k = 0; k < kCount; ++k) x[k] = static_cast<float>(k + kCount / 2) * 0x1p-23f;  // from 1 to 3
  struct Check {
    const char* name;
    CheapMath f;
    double (*exact)(double);
    double relative, absolute;
  };
  const Check checks[] = {
      {"reciprocal", CheapMath::reciprocal, [](double v) { return 1 / v; }, 0x1p-23, 0},
      {"rsqrt", CheapMath::rsqrt, [](double v) { return 1 / std::sqrt(v); }, 0x1p-23, 0},
      {"sqrt", CheapMath::sqrt, [](double v) { return std::sqrt(v); }, 0x1p-23, 0},
      {"exp_for_half", CheapMath::exp_for_half, [](double v) { return std::exp(v); }, 0x1p-17, 0},
      {"erf_for_half", CheapMath::erf_for_half, [](double v) { return std::erf(v); }, 0, 3e-7},
  };
  for (const Check& check : checks) {
    if (const char* error = run_cheap_math(check.f, x.data(), x.data(), got.data(), kCount)) return error;
    for (size_t k = 0; k < kCount; ++k) {
      const double want = check.exact(static_cast<double>(x[k]));
      if (std::fabs(got[k] - want) > check.relative * std::fabs(want) + check.absolute) {
        std::printf("%s(%a) is %a\n", check.name, static_cast<double>(x[k]), static_cast<double>(got[k]));
        return "a cheap form is wrong";
      }
    }
  }
  return nullptr;
}

// A product of small integers, whose sums are exact in each type. Null, or what went wrong.
template <class T, class Out>
const char* check_product(ProductType type) {
  constexpr int kM = 45, kN = 39, kK = 100;
  constexpr int kStride = (kK * static_cast<int>(sizeof(T)) + 15) / 16 * 16 / static_cast<int>(sizeof(T));
  std::vector<T> a(kM * kStride), b(kN * kStride);
  std::vector<Out> c(kM * kN);
  std::mt19937 random(1);
  for (auto* operand : {&a, &b})
    for (T& element : *operand) element = static_cast<T>(static_cast<float>(random() % 3) - 1.0f);
  TileProduct p{.type = type, .m = kM, .n = kN, .k = kK, .a_stride = kStride, .b_stride = kStride};
  p.a = a.data(), p.b = b.data(), p.c = c.data();
  p.a_bytes = a.size() * sizeof(T), p.b_bytes = b.size() * sizeof(T), p.c_bytes = c.size() * sizeof(Out);
  if (const char* error = run_tile_product(p)) return error;
  for (int row = 0; row < kM; ++row) {
    for (int column = 0; column < kN; ++column) {
      float sum = 0;
      for (int k = 0; k < kK; ++k)
        sum += static_cast<float>(a[row * kStride + k]) * static_cast<float>(b[column * kStride + k]);
      if (static_cast<float>(c[row * kN + column]) != sum) return "an element is wrong";
    }
  }
  return nullptr;
}
const char* check_products() {
  if (const char* wrong = check_product<__half, __half>(ProductType::kHalf)) return wrong;
  if (const char* wrong = check_product<__nv_bfloat16, __nv_bfloat16>(ProductType::kBfloat16)) return wrong;
  if (const char* wrong = check_product<float, float>(ProductType::kTf32)) return wrong;
  return check_product<int8_t, int>(ProductType::kInt8);
}

}  // namespace

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("SKIP: linked with CUDA, cuBLASLt and NCCL; no GPU here to run on");
    return 77;
  }
  char id[128];
  const char* error = two_streams_id(id);
  TwoStreams program;
  std::vector<float> output(static_cast<size_t>(program.rows * program.columns));
  program.id = id;
  program.output = output.data();
  if (error == nullptr) error = two_streams_run(program);
  if (error != nullptr) {
    std::printf("two_streams: %s\n", error);
    return 1;
  }
  for (int row = 0; row < program.rows; ++row) {
    float sum = 0;
    for (int i = 0; i < program.columns; ++i) sum += output[static_cast<size_t>(row * program.columns + i)];
    if (std::fabs(sum - 1.0f) > 1e-4f) {
      std::printf("row %d sums to %f\n", row, sum);
      return 1;
    }
  }
  ReductionResults results;
  error = run_reductions(256, &results);
  if (error != nullptr) {
    std::printf("reductions: %s\n", error);
    return 1;
  }
  if (const char* wrong = check_cheap_math()) {
    std::printf("cheap_math: %s\n", wrong);
    return 1;
  }
  if (const char* wrong = check_products()) {
    std::printf("tile_product: %s\n", wrong);
    return 1;
  }
  // 2 x 3 times 3 x 2, row-major.
  const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {1, 0, 0, 1, 1, 1}, bias[] = {10, 20};
  float *device = nullptr, result[4];
  void* workspace = nullptr;
  braid::rt::cuda::Gemm gemm;
  braid::rt::cuda::GemmProblem problem;
  problem.m = 2, problem.n = 2, problem.k = 3;
  problem.has_bias = true;
  if (cudaMalloc(&device, 1024) != cudaSuccess || gemm.prepare(problem) != cudaSuccess ||
      cudaMalloc(&workspace, gemm.workspace_bytes() + 1) != cudaSuccess) {
    std::printf("gemm: %s\n", gemm.error());
    return 1;
  }
  (void)cudaMemcpy(device, a, sizeof a, cudaMemcpyHostToDevice);
  (void)cudaMemcpy(device + 64, b, sizeof b, cudaMemcpyHostToDevice);
  (void)cudaMemcpy(device + 128, bias, sizeof bias, cudaMemcpyHostToDevice);
  if (gemm.run({device, device + 64, nullptr, device + 128, device + 192, workspace}, nullptr) !=
          cudaSuccess ||
      cudaMemcpy(result, device + 192, sizeof result, cudaMemcpyDeviceToHost) != cudaSuccess) {
    std::printf("gemm: %s\n", gemm.error());
    return 1;
  }
  const float right[] = {14, 25, 20, 31};
  for (int i = 0; i < 4; ++i) {
    if (result[i] == right[i]) continue;
    std::printf("gemm: element %d is %f, not %f\n", i, result[i], right[i]);
    return 1;
  }
  return 0;
}
