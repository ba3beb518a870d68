// The extern kernel `roi_align` on the host. Operands: x [n, c, h, w], regions [r, 4] of the same type,
// images (int64, in [0, n)) [r]; result [r, c, ph, pw]. Attributes: half_pixel, maximum, sampling_ratio,
// spatial_scale.
#pragma once

#include <vector>

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

// The points of all bins of a region along one axis, which its channels share.
template <class T>
class RoiAlignPoints {
 public:
  // Does nothing if there would be too many.
  void list(const RoiAlignAxis<T>& axis, int64_t bins) {
    constexpr int64_t kMost = 4096;
    listed_ = false;
    points_.clear();
    samples_.clear();
    first_.clear();
    int64_t count = 0;
    for (int64_t p = 0; p < bins; ++p) {
      samples_.push_back(axis.samples(p));
      first_.push_back(count - samples_.back().begin);
      count += samples_.back().end - samples_.back().begin;
      if (count > kMost) return;
    }
    for (int64_t p = 0; p < bins; ++p) {
      const RoiAlignSamples& in = samples_[static_cast<size_t>(p)];
      for (int64_t i = in.begin; i < in.end; ++i) points_.push_back(axis.point(p, i));
    }
    listed_ = true;
  }
  bool listed() const { return listed_; }
  const RoiAlignSamples& samples(int64_t p) const { return samples_[static_cast<size_t>(p)]; }
  const RoiAlignPoint<T>& point(int64_t p, int64_t sample) const {
    return points_[static_cast<size_t>(first_[static_cast<size_t>(p)] + sample)];
  }

 private:
  bool listed_ = false;
  std::vector<RoiAlignPoint<T>> points_;
  std::vector<RoiAlignSamples> samples_;
  std::vector<int64_t> first_;  // where the points of a bin's sample 0 would be
};

template <class T>
const char* roi_align_all(const BraidExternCall* call) {
  const RoiAlignOptions o = roi_align_options(call);
  const BraidTensorView& y = call->writes[0];
  const int64_t channels = y.sizes[1], planes = y.sizes[0] * channels;
  const T *x = static_cast<const T*>(call->reads[0].data),
          *regions = static_cast<const T*>(call->reads[1].data);
  const int64_t* images = static_cast<const int64_t*>(call->reads[2].data);
  T* to = static_cast<T*>(y.data);
  parallel_for(planes, planes * o.pooled_height * o.pooled_width > 1024, [=](int64_t begin, int64_t end) {
    RoiAlignPoints<T> down, across;
    for (int64_t plane = begin; plane < end; ++plane) {
      const int64_t region = plane / channels, channel = plane % channels;
      const T *image = x + (images[region] * channels + channel) * o.height * o.width,
              *box = regions + region * 4;
      const RoiAlignAxis<T> vertical(box, true, o), horizontal(box, false, o);
      if (plane == begin || channel == 0) {
        down.list(vertical, o.pooled_height);
        across.list(horizontal, o.pooled_width);
      }
      T* bins = to + plane * o.pooled_height * o.pooled_width;
      for (int64_t ph = 0; ph < o.pooled_height; ++ph) {
        for (int64_t pw = 0; pw < o.pooled_width; ++pw, ++bins) {
          *bins = down.listed() && across.listed()
                      ? roi_align_bin(
                            image, o, vertical.count, horizontal.count, down.samples(ph), across.samples(pw),
                            [&](int64_t k) -> const RoiAlignPoint<T>& { return down.point(ph, k); },
                            [&](int64_t k) -> const RoiAlignPoint<T>& { return across.point(pw, k); })
                      : roi_align_element(image, box, ph, pw, o);
        }
      }
    }
  });
  return nullptr;
}

inline const char* roi_align(const BraidExternCall* call) {
  return call->reads[0].dtype == BRAID_F64 ? roi_align_all<double>(call) : roi_align_all<float>(call);
}

}  // namespace braid::rt
