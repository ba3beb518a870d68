#include <vector>

#include "runtime/cuda_program.h"
#include "runtime/device/async_copy.h"
#include "runtime/device/ldmatrix.h"
#include "runtime/device/mma.h"
#include "runtime/device/packed_half.h"
#include "tests/emulated/check.h"
#include "tests/emulated/tensor_cores.h"

namespace {

using namespace braid::rt::device;

template <class A, class B, class Sum>
__global__ void mma_kernel(const uint32_t* in_a, const uint32_t* in_b, uint32_t* in_out) {
  const int lane = static_cast<int>(threadIdx.x);
  MmaA a;
  MmaB b;
  MmaSums<Sum> sums;
  for (int r = 0; r < 4; ++r) a.registers[r] = in_a[4 * lane + r];
  for (int r = 0; r < 2; ++r) b.registers[r] = in_b[2 * lane + r];
  constexpr int kWords = sizeof sums / 4;
  memcpy(&sums, in_out + kWords * lane, sizeof sums);
  mma_sync<A, B>(sums, a, b);
  memcpy(in_out + kWords * lane, &sums, sizeof sums);
}

struct Places {
  int of_row[32];
};
struct alignas(16) Row {
  uint16_t elements[8];
};

template <int matrices, bool transposed>
__global__ void ldmatrix_kernel(Places places, const Row* rows, uint32_t* registers) {
  BRAID_SHARED(Row, tile, 32);
  const int lane = static_cast<int>(threadIdx.x);
  tile[lane] = rows[lane];
  __syncthreads();
  uint32_t mine[matrices];
  // The other lanes' addresses do not count.
  const Row* row = lane < 8 * matrices ? tile + places.of_row[lane] : nullptr;
  ldmatrix<matrices, transposed>(mine, row);
  for (int r = 0; r < matrices; ++r) registers[4 * lane + r] = mine[r];
}

template <int matrices, bool transposed>
__global__ void stmatrix_kernel(Places places, const uint32_t* registers, Row* rows) {
  BRAID_SHARED(Row, tile, 32);
  const int lane = static_cast<int>(threadIdx.x);
  tile[lane] = rows[lane];
  __syncthreads();
  Row* row = lane < 8 * matrices ? tile + places.of_row[lane] : nullptr;
  uint32_t mine[matrices];
  for (int r = 0; r < matrices; ++r) mine[r] = registers[4 * lane + r];
  stmatrix<matrices, transposed>(row, mine);
  __syncthreads();
  rows[lane] = tile[lane];
}

template <class T>
__global__ void pairs_kernel(PairOp op, const uint32_t* a, const uint32_t* b, const uint32_t* c,
                             uint32_t* result, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= n) return;
  switch (op) {
    case PairOp::kPack:
      result[i] =
          pack_floats<T>(__int_as_float(static_cast<int>(a[i])), __int_as_float(static_cast<int>(b[i])));
      break;
    case PairOp::kAdd:
      result[i] = packed_add<T>(a[i], b[i]);
      break;
    case PairOp::kMul:
      result[i] = packed_mul<T>(a[i], b[i]);
      break;
    case PairOp::kFma:
      result[i] = packed_fma<T>(a[i], b[i], c[i]);
      break;
    case PairOp::kMax:
      result[i] = packed_max<T>(a[i], b[i]);
      break;
  }
}

__global__ void tf32_kernel(const float* x, uint32_t* result, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) result[i] = to_tf32(x[i]).bits;
}

__global__ void copy_in_flight_kernel(const Row* source, Row* seen) {
  BRAID_SHARED(Row, tile, 32);
  const int lane = static_cast<int>(threadIdx.x);
  for (uint16_t& element : tile[lane].elements) element = 7;
  cp_async<16>(tile + lane, source + lane);
  seen[lane] = tile[lane];
  cp_async_wait_all();
  seen[32 + lane] = tile[lane];
}

// Device memory with a host array's contents, until the end of the scope.
class OnDevice {
 public:
  OnDevice(const void* host, size_t bytes) : bytes_(bytes) {
    error_ = cudaMalloc(&memory_, bytes);
    if (error_ == cudaSuccess) error_ = cudaMemcpy(memory_, host, bytes, cudaMemcpyHostToDevice);
  }
  ~OnDevice() { (void)cudaFree(memory_); }
  OnDevice(const OnDevice&) = delete;
  template <class T>
  T* as() const {
    return static_cast<T*>(memory_);
  }
  cudaError_t error() const { return error_; }
  cudaError_t read(void* host) const { return cudaMemcpy(host, memory_, bytes_, cudaMemcpyDeviceToHost); }

 private:
  void* memory_ = nullptr;
  size_t bytes_;
  cudaError_t error_;
};

using MmaKernel = void (*)(const uint32_t*, const uint32_t*, uint32_t*);
MmaKernel mma_kernel_of(MmaCase which) {
  switch (which) {
    case MmaCase::kHalf:
      return mma_kernel<__half, __half, float>;
    case MmaCase::kHalfSums:
      return mma_kernel<__half, __half, __half>;
    case MmaCase::kBfloat16:
      return mma_kernel<__nv_bfloat16, __nv_bfloat16, float>;
    case MmaCase::kTf32:
      return mma_kernel<Tf32, Tf32, float>;
    case MmaCase::kInt8:
      return mma_kernel<int8_t, int8_t, int>;
    case MmaCase::kInt8Uint8:
      return mma_kernel<int8_t, uint8_t, int>;
    case MmaCase::kUint8Int8:
      return mma_kernel<uint8_t, int8_t, int>;
    case MmaCase::kUint8:
      break;
  }
  return mma_kernel<uint8_t, uint8_t, int>;
}

}  // namespace

const char* run_mma(MmaCase which, const uint32_t* a, const uint32_t* b, uint32_t* sums) {
  const OnDevice on_a(a, 128 * 4), on_b(b, 64 * 4),
      on_sums(sums, which == MmaCase::kHalfSums ? 64 * 4 : 128 * 4);
  CHECK_CUDA(on_a.error());
  CHECK_CUDA(on_b.error());
  CHECK_CUDA(on_sums.error());
  CHECK_CUDA(BRAID_LAUNCH(mma_kernel_of(which), 1, 32, 0, nullptr, on_a.as<uint32_t>(), on_b.as<uint32_t>(),
                          on_sums.as<uint32_t>()));
  CHECK_CUDA(on_sums.read(sums));
  return nullptr;
}

const char* run_ldmatrix(const MatrixCase& c, const uint16_t* rows, uint32_t* registers) {
  const auto kernel = c.matrices == 1   ? c.transposed ? ldmatrix_kernel<1, true> : ldmatrix_kernel<1, false>
                        : c.matrices == 2 ? c.transposed ? ldmatrix_kernel<2, true> : ldmatrix_kernel<2, false>
                        : c.transposed ? ldmatrix_kernel<4, true>
                                        : ldmatrix_kernel<4, false>;
  const OnDevice on_rows(rows, 32 * sizeof(Row)), on_registers(registers, 128 * 4);
  CHECK_CUDA(on_rows.error());
  CHECK_CUDA(on_registers.error());
  Places places;
  memcpy(&places, c.place, sizeof places);
  CHECK_CUDA(BRAID_LAUNCH(kernel, 1, 32, 0, nullptr, places, on_rows.as<Row>(), on_registers.as<uint32_t>()));
  CHECK_CUDA(on_registers.read(registers));
  return nullptr;
}

const char* run_stmatrix(const MatrixCase& c, const uint32_t* registers, uint16_t* rows) {
  const auto kernel = c.matrices == 1   ? c.transposed ? stmatrix_kernel<1, true> : stmatrix_kernel<1, false>
                        : c.matrices == 2 ? c.transposed ? stmatrix_kernel<2, true> : stmatrix_kernel<2, false>
                        : c.transposed ? stmatrix_kernel<4, true>
                                        : stmatrix_kernel<4, false>;
  const OnDevice on_rows(rows, 32 * sizeof(Row)), on_registers(registers, 128 * 4);
  CHECK_CUDA(on_rows.error());
  CHECK_CUDA(on_registers.error());
  Places places;
  memcpy(&places, c.place, sizeof places);
  CHECK_CUDA(BRAID_LAUNCH(kernel, 1, 32, 0, nullptr, places, on_registers.as<uint32_t>(), on_rows.as<Row>()));
  CHECK_CUDA(on_rows.read(rows));
  return nullptr;
}

const char* run_pairs(PairOp op, bool bfloat16, const uint32_t* a, const uint32_t* b, const uint32_t* c,
                      uint32_t* result, int n) {
  const size_t bytes = static_cast<size_t>(n) * 4;
  const OnDevice on_a(a, bytes), on_b(b, bytes), on_c(c, bytes), on_result(result, bytes);
  for (const OnDevice* each : {&on_a, &on_b, &on_c, &on_result}) CHECK_CUDA(each->error());
  CHECK_CUDA(BRAID_LAUNCH((bfloat16 ? pairs_kernel<__nv_bfloat16> : pairs_kernel<__half>),
                          static_cast<unsigned>(n + 127) / 128, 128, 0, nullptr, op, on_a.as<uint32_t>(),
                          on_b.as<uint32_t>(), on_c.as<uint32_t>(), on_result.as<uint32_t>(), n));
  CHECK_CUDA(on_result.read(result));
  return nullptr;
}

const char* run_to_tf32(const float* x, uint32_t* result, int n) {
  const size_t bytes = static_cast<size_t>(n) * 4;
  const OnDevice on_x(x, bytes), on_result(result, bytes);
  CHECK_CUDA(on_x.error());
  CHECK_CUDA(on_result.error());
  CHECK_CUDA(BRAID_LAUNCH(tf32_kernel, static_cast<unsigned>(n + 127) / 128, 128, 0, nullptr,
                          on_x.as<float>(), on_result.as<uint32_t>(), n));
  CHECK_CUDA(on_result.read(result));
  return nullptr;
}

const char* run_copy_in_flight(const uint32_t* source, uint32_t* seen) {
  const OnDevice on_source(source, 128 * 4), on_seen(seen, 256 * 4);
  CHECK_CUDA(on_source.error());
  CHECK_CUDA(on_seen.error());
  CHECK_CUDA(BRAID_LAUNCH(copy_in_flight_kernel, 1, 32, 0, nullptr, on_source.as<Row>(), on_seen.as<Row>()));
  CHECK_CUDA(on_seen.read(seen));
  return nullptr;
}
