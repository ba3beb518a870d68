#include "runtime/cuda_program.h"
#include "tests/emulated/check.h"
#include "tests/emulated/measured_kernels.h"

namespace {

using namespace braid::rt::device;

// All elements in the order of the launch: of its 1,056 blocks of 256 threads only some run.
constexpr int kWidth = 1024, kRows = 32768, kCount = kRows * kWidth;
constexpr int kStride = 1056 * 256;

template <class T>
__global__ void add_kernel(const T* in0, const T* in1, T* out0) {
  for (int i = math::first_index<int>(); i < kCount; i += kStride) out0[i] = math::add(in0[i], in1[i]);
}

template <class T>
__global__ void mul_erf_add_kernel(const T* in0, T* out0) {
  for (int i = math::first_index<int>(); i < kCount; i += kStride) {
    const float v = math::convert<float>(in0[i]);
    out0[i] = math::convert<T>(v * 0.5f * (math::erf(v * 0.70710677f) + 1.0f));
  }
}

template <class T>
__global__ void copy_kernel(const T* in0, T* out0) {
  for (int i = math::first_index<int>(); i < kCount; i += kStride) {
    const int i0 = i / kRows, i1 = i % kRows;
    out0[kRows * i0 + i1] = in0[i0 + kWidth * i1];
  }
}

// Rows of a matrix if `along` is 1, columns if `across` is 1.
template <class T>
__global__ void sum_kernel(const T* in0, T* out0, int outputs, int length, int across, int along) {
  for (int i0 = static_cast<int>(blockIdx.x); i0 < outputs; i0 += static_cast<int>(gridDim.x)) {
    float folded = Sum::neutral<float>();
    for (int i1 = thread_in_block(); i1 < length; i1 += threads_per_block())
      folded = Sum::apply<float>(folded, math::convert<float>(in0[across * i0 + along * i1]));
    folded = block_reduce<Sum>(folded);
    if (thread_in_block() == 0) out0[i0] = math::convert<T>(folded);
  }
}

template <class Op, class T, class Value>
__device__ float folded_row(const T* row, const Value& value) {
  float folded = Op::template neutral<float>();
  for (int i = thread_in_block(); i < 1024; i += threads_per_block())
    folded = Op::template apply<float>(folded, value(math::convert<float>(row[i])));
  return block_reduce<Op>(folded);
}
template <class T, class Value>
__device__ void mapped_row(const T* row, T* out, const Value& value) {
  for (int i = thread_in_block(); i < 1024; i += threads_per_block())
    out[i] = math::convert<T>(value(math::convert<float>(row[i])));
}

template <class T>
__global__ void softmax_kernel(const T* in0, T* out0, int rows) {
  for (int i0 = static_cast<int>(blockIdx.x); i0 < rows; i0 += static_cast<int>(gridDim.x)) {
    const T* row = in0 + 1024 * i0;
    const float most = folded_row<Maximum>(row, [](float v) { return v; });
    __syncthreads();
    const float sum = folded_row<Sum>(row, [&](float v) { return math::exp(v - most); });
    __syncthreads();
    mapped_row(row, out0 + 1024 * i0, [&](float v) { return math::exp(v - most) / sum; });
    __syncthreads();
  }
}

template <class T>
__global__ void layer_norm_kernel(const T* in0, T* out0, int rows) {
  for (int i0 = static_cast<int>(blockIdx.x); i0 < rows; i0 += static_cast<int>(gridDim.x)) {
    const T* row = in0 + 1024 * i0;
    const float sum = folded_row<Sum>(row, [](float v) { return v; });
    __syncthreads();
    const auto centred = [&](float v) { return v - sum / 1024.0f; };
    const float squares = folded_row<Sum>(row, [&](float v) { return centred(v) * centred(v); });
    __syncthreads();
    mapped_row(row, out0 + 1024 * i0,
               [&](float v) { return centred(v) * math::rsqrt(squares / 1024.0f + 0.001f); });
    __syncthreads();
  }
}

// Only two of the 1,056 blocks run. A block has 31 rows, or one column; 16 columns run, a sector of halves.
constexpr int kBlocks = 2, kBlockRows = 31, kColumns = 16;

template <class T>
cudaError_t launch(const std::string& kernel, cudaStream_t stream, const T* in, const T* other, T* out) {
  constexpr int rows = kBlocks * kBlockRows;
  if (kernel == "add") return BRAID_LAUNCH(add_kernel<T>, kBlocks, 256, 0, stream, in, other, out);
  if (kernel == "gelu") return BRAID_LAUNCH(mul_erf_add_kernel<T>, kBlocks, 256, 0, stream, in, out);
  if (kernel == "transpose") return BRAID_LAUNCH(copy_kernel<T>, kBlocks, 256, 0, stream, in, out);
  if (kernel == "row_sum")
    return BRAID_LAUNCH(sum_kernel<T>, kBlocks, 512, 0, stream, in, out, rows, kWidth, kWidth, 1);
  if (kernel == "column_sum")
    return BRAID_LAUNCH(sum_kernel<T>, kColumns, 512, 0, stream, in, out, kColumns, kRows, 1, kWidth);
  if (kernel == "softmax") return BRAID_LAUNCH(softmax_kernel<T>, kBlocks, 512, 0, stream, in, out, rows);
  if (kernel == "layer_norm")
    return BRAID_LAUNCH(layer_norm_kernel<T>, kBlocks, 512, 0, stream, in, out, rows);
  return cudaErrorInvalidValue;
}

template <class T>
const char* run(const std::string& kernel, size_t elements) {
  const size_t bytes = elements * sizeof(T);
  T *in = nullptr, *other = nullptr, *out = nullptr;
  cudaStream_t stream;
  CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (T** array : {&in, &other, &out}) CHECK_CUDA(cudaMalloc(array, bytes));
  for (T* array : {in, other}) CHECK_CUDA(cudaMemsetAsync(array, 0, bytes, stream));
  CHECK_CUDA(launch<T>(kernel, stream, in, other, out));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  for (T* array : {in, other, out}) CHECK_CUDA(cudaFree(array));
  CHECK_CUDA(cudaStreamDestroy(stream));
  return nullptr;
}

}  // namespace

MeasuredRun run_measured_kernel(const std::string& kernel, const std::string& type) {
  MeasuredRun result;
  const auto run_type = type == "f32" ? run<float> : type == "f16" ? run<__half> : run<__nv_bfloat16>;
  result.error = run_type(kernel, kCount);
  const bool rows = kernel == "row_sum" || kernel == "softmax" || kernel == "layer_norm";
  result.factor = kernel == "column_sum" ? static_cast<double>(kWidth) / kColumns
                  : rows                 ? static_cast<double>(kRows) / (kBlocks * kBlockRows)
                                         : static_cast<double>(kStride) / (kBlocks * 256);
  result.read_bytes = (kernel == "add" ? 2.0 : 1.0) * kCount * (type == "f32" ? 4 : 2);
  return result;
}
