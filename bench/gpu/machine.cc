#include "machine.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <vector>

#include "case_file.h"
#include "device_properties.h"
#include "runtime/cuda_gemm.h"

namespace braid::gpu_bundle {
namespace {

#ifndef BRAID_EMULATED_DEVICE
constexpr size_t kCopied = size_t{1} << 30;
constexpr int64_t kSide = 8192;
constexpr size_t kGenerated = size_t{1} << 26;  // made on the host, then repeated

// Close to normal, with the standard deviation 1 and |x| < 3.5: a sum of four uniform numbers. Constant bytes
// would be no measure: fewer transistors switch, so that the chip draws less power and keeps a higher clock
// than with real numbers.
float normal_number(uint64_t index) {
  const uint64_t bits = random_bits(1, index);
  const uint64_t sum =
      (bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48 & 0xffff);
  return (static_cast<float>(sum) / 65536.0f - 2.0f) * 1.7320508f;
}

std::vector<unsigned char> normal_numbers(rt::DType dtype) {
  const auto made = [](auto convert) {
    using T = decltype(convert(0.0f));
    std::vector<unsigned char> bytes(kGenerated);
    for (size_t k = 0; k < kGenerated / sizeof(T); ++k) {
      const T value = convert(normal_number(k));
      std::memcpy(bytes.data() + k * sizeof value, &value, sizeof value);
    }
    return bytes;
  };
  if (dtype == rt::DType::f16) return made(rt::to_half);
  if (dtype == rt::DType::bf16) return made(rt::to_bfloat16);
  return made([](float v) { return v; });
}

// Starts elsewhere in the numbers than the other buffers, so that no two are equal.
void fill(void* memory, const std::vector<unsigned char>& numbers, size_t shift) {
  auto* at = static_cast<unsigned char*>(memory);
  GPU_CHECK(cudaMemcpy(at, numbers.data() + shift, numbers.size() - shift, cudaMemcpyHostToDevice));
  GPU_CHECK(cudaMemcpy(at + numbers.size() - shift, numbers.data(), shift, cudaMemcpyHostToDevice));
  for (size_t done = numbers.size(); done < kCopied; done *= 2)
    GPU_CHECK(cudaMemcpy(at + done, at, std::min(done, kCopied - done), cudaMemcpyDeviceToDevice));
}

double copy_gb_s(cudaStream_t stream, void* from, void* to) {
  const Times t = time_on(
      stream, 30, [&] { GPU_CHECK(cudaMemcpyAsync(to, from, kCopied, cudaMemcpyDeviceToDevice, stream)); });
  return 2.0 * static_cast<double>(kCopied) / t.median_us / 1e3;  // read and written
}

double gemm_tflop_s(cudaStream_t stream, rt::cuda::GemmType type, void* a, void* b, void* d,
                    void* workspace) {
  rt::cuda::GemmProblem problem;
  problem.m = problem.n = problem.k = kSide;
  problem.input_type = problem.output_type = type;
  rt::cuda::Gemm gemm;
  if (gemm.prepare(problem) != cudaSuccess) throw std::runtime_error(gemm.error());
  rt::cuda::GemmOperands operands;
  operands.a = a;
  operands.b = b;
  operands.d = d;
  operands.workspace = workspace;
  const Times t = time_on(stream, 20, [&] { GPU_CHECK(gemm.run(operands, stream)); });
  return 2.0 * kSide * kSide * kSide / t.median_us / 1e6;
}
#endif

}  // namespace

std::string to_json(const Times& t) {
  char text[160];
  std::snprintf(text, sizeof text, "{\"median_us\": %.3f, \"p10_us\": %.3f, \"p90_us\": %.3f, \"count\": %d}",
                t.median_us, t.p10_us, t.p90_us, t.count);
  return text;
}

Times time_on(cudaStream_t stream, int repeat, const std::function<void()>& enqueue) {
#ifdef BRAID_EMULATED_DEVICE
  throw Skipped("the emulated device says nothing about time");
#endif
  for (int k = 0; k < std::max(3, repeat / 10); ++k) enqueue();
  std::vector<cudaEvent_t> events(2 * static_cast<size_t>(repeat));
  for (cudaEvent_t& e : events) GPU_CHECK(cudaEventCreate(&e));
  for (size_t k = 0; k < events.size(); k += 2) {
    GPU_CHECK(cudaEventRecord(events[k], stream));
    enqueue();
    GPU_CHECK(cudaEventRecord(events[k + 1], stream));
  }
  GPU_CHECK(cudaStreamSynchronize(stream));
  std::vector<double> us;
  for (size_t k = 0; k < events.size(); k += 2) {
    float ms = 0;
    GPU_CHECK(cudaEventElapsedTime(&ms, events[k], events[k + 1]));
    us.push_back(static_cast<double>(ms) * 1e3);
  }
  for (cudaEvent_t e : events) GPU_CHECK(cudaEventDestroy(e));
  std::sort(us.begin(), us.end());
  const auto at = [&](size_t percent) { return us[(us.size() - 1) * percent / 100]; };
  return {at(50), at(10), at(90), repeat};
}

int print_machine() {
  int runtime = 0, driver = 0, nccl = 0;
  GPU_CHECK(cudaRuntimeGetVersion(&runtime));
  GPU_CHECK(cudaDriverGetVersion(&driver));
  GPU_CHECK(ncclGetVersion(&nccl));
#ifdef BRAID_EMULATED_DEVICE
  std::printf("{\"device\": \"emulated\", \"runtime\": %d, \"nccl\": %d}\n", runtime, nccl);
#else
  cudaDeviceProp properties;
  GPU_CHECK(cudaGetDeviceProperties(&properties, 0));
  std::printf(
      "{\"device\": \"%s\", \"capability\": \"%d.%d\", \"runtime\": %d, \"driver_api\": %d, \"nccl\": %d",
      properties.name, properties.major, properties.minor, runtime, driver, nccl);
  std::printf(", \"properties\": %s", device_properties_json().c_str());
  void *a = nullptr, *b = nullptr, *d = nullptr, *workspace = nullptr;
  for (void** p : {&a, &b, &d}) GPU_CHECK(cudaMalloc(p, kCopied));
  GPU_CHECK(cudaMalloc(&workspace, size_t{32} << 20));
  cudaStream_t stream = nullptr;
  GPU_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  using rt::cuda::GemmType;
  constexpr struct {
    const char* name;
    rt::DType dtype;
    GemmType type;
  } kTypes[] = {{"f32", rt::DType::f32, GemmType::kFloat32},
                {"f16", rt::DType::f16, GemmType::kFloat16},
                {"bf16", rt::DType::bf16, GemmType::kBFloat16}};
  bool copied = false;
  for (const auto& [name, dtype, type] : kTypes) {
    const std::vector<unsigned char> numbers = normal_numbers(dtype);
    fill(a, numbers, 0);
    fill(b, numbers, kGenerated / 2 + 64);
    GPU_CHECK(cudaDeviceSynchronize());
    if (!copied) std::printf(", \"copy_gb_s\": %.0f", copy_gb_s(stream, a, d));
    copied = true;
    std::printf(", \"gemm_tflop_s_%s\": %.1f", name, gemm_tflop_s(stream, type, a, b, d, workspace));
  }
  std::printf(", \"numbers\": \"normal\"}\n");
#endif
  return 0;
}

}  // namespace braid::gpu_bundle
