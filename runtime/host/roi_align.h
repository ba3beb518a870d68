// The extern kernel `roi_align` on the host. Operands: x [n, c, h, w], regions [r, 4] of the same type,
// images (int64, in [0, n)) [r]; result [r, c, ph, pw]. Attributes: half_pixel, maximum, sampling_ratio,
// spatial_scale.
#pragma once

#include "runtime/extern_kernel.h"
#include "runtime/roi_align.h"
#include "runtime/team.h"

namespace braid::rt {

inline RoiAlignOptions roi_align_options(const BraidExternCall* call) {
  const auto integer = [&](const char* name) {
    return braid_find_attribute(call, name, BRAID_INTEGER)->integer;
  };
  const BraidTensorView &x = call->reads[0], &y = call->writes[0];
  return {x.sizes[2],
          x.sizes[3],
          y.sizes[2],
          y.sizes[3],
          integer("sampling_ratio"),
          braid_find_attribute(call, "spatial_scale", BRAID_REAL)->real,
          integer("half_pixel") != 0,
          integer("maximum") != 0};
}

template <class T>
const char* roi_align_all(const BraidExternCall* call) {
  const RoiAlignOptions o = roi_align_options(call);
  const BraidTensorView& y = call->writes[0];
  const int64_t channels = y.sizes[1], planes = y.sizes[0] * channels;
  const T *x = static_cast<const T*>(call->reads[0].data),
          *regions = static_cast<const T*>(call->reads[1].data);
  const int64_t* images = static_cast<const int64_t*>(call->reads[2].data);
  T* to = static_cast<T*>(y.data);
  parallel_for(planes, planes * o.pooled_height * o.pooled_width > 1024, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      const int64_t region = plane / channels, channel = plane % channels;
      const T* image = x + (images[region] * channels + channel) * o.height * o.width;
      for (int64_t ph = 0; ph < o.pooled_height; ++ph) {
        for (int64_t pw = 0; pw < o.pooled_width; ++pw)
          to[(plane * o.pooled_height + ph) * o.pooled_width + pw] =
              roi_align_element(image, regions + region * 4, ph, pw, o);
      }
    }
  });
  return nullptr;
}

inline const char* roi_align(const BraidExternCall* call) {
  return call->reads[0].dtype == BRAID_F64 ? roi_align_all<double>(call) : roi_align_all<float>(call);
}

}  // namespace braid::rt
