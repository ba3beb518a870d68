// The extern kernel `roi_align` on the device (runtime/host/roi_align.h defines its operands): a thread per
// element.
#pragma once

#include "runtime/extern_kernel.h"
#include "runtime/host/roi_align.h"

namespace braid::rt::cuda {

template <class T>
__global__ void roi_align_kernel(const T* x, const T* regions, const int64_t* images, T* y, int64_t channels,
                                 int64_t count, RoiAlignOptions o) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= count) return;
  const int64_t pw = at % o.pooled_width, ph = at / o.pooled_width % o.pooled_height;
  const int64_t plane = at / (o.pooled_width * o.pooled_height);
  const int64_t region = plane / channels, channel = plane % channels;
  const T* image = x + (images[region] * channels + channel) * o.height * o.width;
  y[at] = roi_align_element<T>(image, regions + region * 4, ph, pw, o);
}

template <class T>
const char* roi_align_all(const BraidExternCall* call) {
  const BraidTensorView& y = call->writes[0];
  const int64_t count = y.sizes[0] * y.sizes[1] * y.sizes[2] * y.sizes[3];
  if (count == 0) return nullptr;
  constexpr int64_t kThreads = 256;
  const cudaError_t error = BRAID_LAUNCH(
      (roi_align_kernel<T>), dim3(static_cast<unsigned>((count + kThreads - 1) / kThreads)), dim3(kThreads),
      0, static_cast<cudaStream_t>(call->stream), static_cast<const T*>(call->reads[0].data),
      static_cast<const T*>(call->reads[1].data), static_cast<const int64_t*>(call->reads[2].data),
      static_cast<T*>(y.data), y.sizes[1], count, rt::roi_align_options(call));
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

inline const char* roi_align(const BraidExternCall* call) {
  return call->reads[0].dtype == BRAID_F64 ? roi_align_all<double>(call) : roi_align_all<float>(call);
}

}  // namespace braid::rt::cuda
