// Kernels with known patterns of accesses, of which the emulated device counts sectors and wavefronts.
#include "runtime/cuda_program.h"
#include "runtime/device/async_copy.h"
#include "runtime/device/ldmatrix.h"
#include "tests/emulated/check.h"
#include "tests/emulated/counted.h"

namespace {

using namespace braid::rt::device;
using Bytes16 = Pack<int, 4>;

template <class T>
__global__ void reads_kernel(const T* in, T* out, CountedPattern p) {
  const int i = static_cast<int>(threadIdx.x);
  if ((p.active >> i % 32 & 1) == 0) return;
  for (int turn = 0; turn < p.turns; ++turn) out[i] = in[p.offset + i * p.stride + turn * p.turn_stride];
}

template <class T>
__global__ void shared_kernel(T* out, CountedPattern p) {
  BRAID_DYNAMIC_SHARED(T, tile);
  const int i = static_cast<int>(threadIdx.x);
  const bool active = (p.active >> i % 32 & 1) != 0;
  for (int turn = 0; active && turn < p.turns; ++turn)
    tile[p.offset + i * p.stride + turn * p.turn_stride] = T{};
  __syncthreads();
  for (int turn = 0; active && turn < p.turns; ++turn)
    out[i] = tile[p.offset + i * p.stride + turn * p.turn_stride];
}

template <int row>
__global__ void tile_kernel(const float* in, float* out) {
  BRAID_SHARED(float, tile, 32 * row);
  const int column = static_cast<int>(threadIdx.x), first = static_cast<int>(threadIdx.y);
  for (int r = first; r < 32; r += 8) tile[r * row + column] = in[r * 32 + column];
  __syncthreads();
  for (int r = first; r < 32; r += 8) out[r * 32 + column] = tile[column * row + r];
}

__global__ void branches_kernel(const float* in, float* out) {
  const int i = static_cast<int>(threadIdx.x);
  float value = 0;
  if (i % 32 < 16)
    value = in[i] + 1.0f;
  else
    value = in[i * 8] * 2.0f;
  out[i] = value;
}

__global__ void parts_kernel(const float* in, float* out) {
  const int i = static_cast<int>(threadIdx.x);
  Pack<float, 4> sum = {};
  for (int turn = 0; turn < 2; ++turn) {
    const Pack<float, 4> pack = load_pack<4>(in + 4 * (turn * 64 + i));
    for (int k = 3; k >= 0; --k) sum.values[k] += pack.values[k];
  }
  store_pack(out + 4 * i, sum);
}

__global__ void halves_kernel(const float* in, float* out) {
  const int i = static_cast<int>(threadIdx.x);
  float value = in[i];
  if (i < 16)
    value += __shfl_xor_sync(0x0000ffffu, value, 1);
  else
    value -= __shfl_xor_sync(0xffff0000u, value, 1);
  out[i] = value;
}

__global__ void atomics_kernel(int* sum) { atomicAdd(sum, 1); }

__global__ void long_kernel(const float* in, float* out, int turns) {
  float sum = 0;
  for (int turn = 0; turn < turns; ++turn)
    sum += in[(turn * 64 + static_cast<int>(threadIdx.x)) % kCountedElements];
  out[threadIdx.x] = sum;
}

__global__ void columns_kernel(const float* in, float* out) {
  float sum = 0;
  for (int row = static_cast<int>(threadIdx.x); row < 64; row += 32)
    sum += in[row * 8 + static_cast<int>(blockIdx.x)];
  out[blockIdx.x * 32 + threadIdx.x] = sum;
}

struct Places {
  int of_lane[32];
};
template <int matrices, bool store>
__global__ void matrices_kernel(Places places) {
  BRAID_SHARED(Bytes16, rows, 128);
  uint32_t registers[4] = {};
  Bytes16* row = rows + places.of_lane[threadIdx.x];
  if (store) {
    stmatrix<matrices>(row, registers);
  } else {
    for (int i = 0; i < 128; i += 32) store_pack(rows[i + static_cast<int>(threadIdx.x)].values, Bytes16{});
    __syncwarp();
    ldmatrix<matrices>(registers, row);
  }
}

template <int bytes>
__global__ void copies_kernel(const unsigned char* in, int valid, int source_stride, int target_stride) {
  BRAID_DYNAMIC_SHARED(unsigned char, tile);
  const int i = static_cast<int>(threadIdx.x) * bytes;
  cp_async_zfill<bytes>(tile + i * target_stride, in + i * source_stride, valid);
  cp_async_wait_all();
}

// Runs `launch` with two arrays of zeros.
template <class Launch>
const char* with_arrays(const Launch& launch) {
  constexpr size_t kBytes = kCountedElements * 16;
  unsigned char *in = nullptr, *out = nullptr;
  cudaStream_t stream;
  CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK_CUDA(cudaMalloc(&in, kBytes));
  CHECK_CUDA(cudaMalloc(&out, kBytes));
  CHECK_CUDA(cudaMemsetAsync(in, 0, kBytes, stream));
  CHECK_CUDA(cudaMemsetAsync(out, 0, kBytes, stream));
  CHECK_CUDA(launch(stream, in, out));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  CHECK_CUDA(cudaFree(in));
  CHECK_CUDA(cudaFree(out));
  CHECK_CUDA(cudaStreamDestroy(stream));
  return nullptr;
}

template <class T>
const char* reads(const CountedPattern& p) {
  return with_arrays([&](cudaStream_t stream, unsigned char* in, unsigned char* out) {
    return BRAID_LAUNCH(reads_kernel<T>, 1, static_cast<unsigned>(p.threads), 0, stream,
                        reinterpret_cast<const T*>(in), reinterpret_cast<T*>(out), p);
  });
}
template <class T>
const char* in_shared(const CountedPattern& p) {
  return with_arrays([&](cudaStream_t stream, unsigned char*, unsigned char* out) {
    return BRAID_LAUNCH(shared_kernel<T>, 1, static_cast<unsigned>(p.threads), 48 * 1024, stream,
                        reinterpret_cast<T*>(out), p);
  });
}

}  // namespace

const char* run_counted_reads(const CountedPattern& p) {
  switch (p.bytes) {
    case 1:
      return reads<unsigned char>(p);
    case 2:
      return reads<unsigned short>(p);
    case 4:
      return reads<int>(p);
    case 8:
      return reads<long long>(p);
    default:
      return reads<Bytes16>(p);
  }
}

const char* run_counted_shared(const CountedPattern& p) {
  switch (p.bytes) {
    case 1:
      return in_shared<unsigned char>(p);
    case 2:
      return in_shared<unsigned short>(p);
    case 4:
      return in_shared<int>(p);
    case 8:
      return in_shared<long long>(p);
    default:
      return in_shared<Bytes16>(p);
  }
}

const char* run_counted_tile(int row) {
  return with_arrays([&](cudaStream_t stream, unsigned char* a, unsigned char* b) {
    const float* in = reinterpret_cast<const float*>(a);
    float* out = reinterpret_cast<float*>(b);
    return row == 32 ? BRAID_LAUNCH(tile_kernel<32>, 1, dim3(32, 8), 0, stream, in, out)
                     : BRAID_LAUNCH(tile_kernel<33>, 1, dim3(32, 8), 0, stream, in, out);
  });
}

const char* run_counted_branches() {
  return with_arrays([](cudaStream_t stream, unsigned char* in, unsigned char* out) {
    return BRAID_LAUNCH(branches_kernel, 1, 32, 0, stream, reinterpret_cast<const float*>(in),
                        reinterpret_cast<float*>(out));
  });
}

const char* run_counted_parts() {
  return with_arrays([](cudaStream_t stream, unsigned char* in, unsigned char* out) {
    return BRAID_LAUNCH(parts_kernel, 1, 64, 0, stream, reinterpret_cast<const float*>(in),
                        reinterpret_cast<float*>(out));
  });
}

const char* run_counted_halves() {
  return with_arrays([](cudaStream_t stream, unsigned char* in, unsigned char* out) {
    return BRAID_LAUNCH(halves_kernel, 1, 32, 0, stream, reinterpret_cast<const float*>(in),
                        reinterpret_cast<float*>(out));
  });
}

const char* run_counted_atomics() {
  return with_arrays([](cudaStream_t stream, unsigned char*, unsigned char* out) {
    return BRAID_LAUNCH(atomics_kernel, 4, 64, 0, stream, reinterpret_cast<int*>(out));
  });
}

const char* run_counted_long(int turns) {
  return with_arrays([&](cudaStream_t stream, unsigned char* in, unsigned char* out) {
    return BRAID_LAUNCH(long_kernel, 1, 64, 0, stream, reinterpret_cast<const float*>(in),
                        reinterpret_cast<float*>(out), turns);
  });
}

const char* run_counted_columns() {
  return with_arrays([](cudaStream_t stream, unsigned char* in, unsigned char* out) {
    return BRAID_LAUNCH(columns_kernel, 8, 32, 0, stream, reinterpret_cast<const float*>(in),
                        reinterpret_cast<float*>(out));
  });
}

const char* run_counted_matrices(int matrices, const int* place, bool store) {
  const auto kernel = matrices == 1   ? store ? matrices_kernel<1, true> : matrices_kernel<1, false>
                        : matrices == 2 ? store ? matrices_kernel<2, true> : matrices_kernel<2, false>
                        : store ? matrices_kernel<4, true>
                                      : matrices_kernel<4, false>;
  Places places;
  memcpy(&places, place, sizeof places);
  return with_arrays([&](cudaStream_t stream, unsigned char*, unsigned char*) {
    return BRAID_LAUNCH(kernel, 1, 32, 0, stream, places);
  });
}

const char* run_counted_copies(int bytes, int valid, int source_stride, int target_stride) {
  const auto kernel = bytes == 4 ? copies_kernel<4> : bytes == 8 ? copies_kernel<8> : copies_kernel<16>;
  return with_arrays([&](cudaStream_t stream, unsigned char* in, unsigned char*) {
    return BRAID_LAUNCH(kernel, 1, 64, 48 * 1024, stream, in, valid, source_stride, target_stride);
  });
}
