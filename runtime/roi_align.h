// One element of RoiAlign, for the extern kernel `roi_align` on host and device: the mean or the maximum over
// a grid of bilinear samples in one bin of a region. The number of samples of a bin may depend on the region,
// therefore this is no loop of the IR. The arithmetic is that of ONNX's definition, in T.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define BRAID_HOST_DEVICE __host__ __device__
#else
#define BRAID_HOST_DEVICE
#endif

namespace braid::rt {

struct RoiAlignOptions {
  int64_t height, width;                // of the image
  int64_t pooled_height, pooled_width;  // bins
  int64_t sampling_ratio;               // samples per bin along an axis; 0: as many as the bin has pixels
  double spatial_scale;
  bool half_pixel, maximum;
};

// Samples of a bin of this size: its ceiling, 0 for negative sizes and NaN.
template <class T>
BRAID_HOST_DEVICE inline int64_t roi_align_samples(T bin, int64_t sampling_ratio) {
  if (sampling_ratio > 0) return sampling_ratio;
  if (!(bin > T(0))) return 0;
  if (bin > T(2147483647)) return 2147483647;
  const int64_t floor = static_cast<int64_t>(bin);
  return static_cast<T>(floor) < bin ? floor + 1 : floor;
}

// Along one axis: the two neighbours and the weight of the second. False outside of the image.
template <class T>
BRAID_HOST_DEVICE inline bool roi_align_neighbours(T at, int64_t size, int64_t& low, int64_t& high,
                                                   T& weight) {
  if (!(at >= T(-1)) || at > static_cast<T>(size)) return false;
  if (at < T(0)) at = T(0);
  low = static_cast<int64_t>(at);
  if (low >= size - 1) {
    low = high = size - 1;
    weight = T(0);
  } else {
    high = low + 1;
    weight = at - static_cast<T>(low);
  }
  return true;
}

// Returns the samples of a bin that may lie inside of an image of this size, and at most three more on each
// side; all `count` if `sampling_ratio` is positive. A bin that has as many samples as pixels may be much
// larger than the image, or infinite.
struct RoiAlignSamples {
  int64_t begin, end;
};
template <class T>
BRAID_HOST_DEVICE inline RoiAlignSamples roi_align_inside(T start, T bin, int64_t count, int64_t size,
                                                          int64_t sampling_ratio) {
  if (sampling_ratio > 0) return {0, count};
  const double all = static_cast<double>(count), step = static_cast<double>(bin) / all;
  double begin = (-1.0 - static_cast<double>(start)) / step - 2.5,
         end = (static_cast<double>(size) - static_cast<double>(start)) / step + 2.5;
  if (!(step > 0) || !(begin < all) || !(end > 0)) return {0, 0};  // or not a number
  if (begin < 0) begin = 0;
  if (end > all) end = all;
  return {static_cast<int64_t>(begin), static_cast<int64_t>(end)};
}

// A sample along one axis.
template <class T>
struct RoiAlignPoint {
  bool inside = false;
  int64_t low = 0, high = 0;
  T weight = T(0);  // of `high`
};

// The bins of a region along one axis. Regions are x1, y1, x2, y2.
template <class T>
struct RoiAlignAxis {
  T start, bin;
  int64_t count;  // samples of a bin
  int64_t size, sampling_ratio;

  BRAID_HOST_DEVICE RoiAlignAxis(const T* region, bool vertical, const RoiAlignOptions& o)
      : size(vertical ? o.height : o.width), sampling_ratio(o.sampling_ratio) {
    const T scale = static_cast<T>(o.spatial_scale), offset = o.half_pixel ? T(0.5) : T(0);
    start = region[vertical ? 1 : 0] * scale - offset;
    T length = region[vertical ? 3 : 2] * scale - offset - start;
    if (!o.half_pixel && !(length > T(1))) length = T(1);  // malformed regions become one pixel large
    bin = length / static_cast<T>(vertical ? o.pooled_height : o.pooled_width);
    count = roi_align_samples(bin, sampling_ratio);
  }
  BRAID_HOST_DEVICE T start_of(int64_t p) const { return start + static_cast<T>(p) * bin; }
  BRAID_HOST_DEVICE RoiAlignSamples samples(int64_t p) const {
    return roi_align_inside(start_of(p), bin, count, size, sampling_ratio);
  }
  BRAID_HOST_DEVICE RoiAlignPoint<T> point(int64_t p, int64_t sample) const {
    RoiAlignPoint<T> found;
    const T at = start_of(p) + (static_cast<T>(sample) + T(0.5)) * bin / static_cast<T>(count);
    found.inside = roi_align_neighbours(at, size, found.low, found.high, found.weight);
    return found;
  }
};

// A bin in one channel of an image. `down` and `across` give the point of a sample.
template <class T, class Down, class Across>
BRAID_HOST_DEVICE inline T roi_align_bin(const T* image, const RoiAlignOptions& o, int64_t rows,
                                         int64_t columns, const RoiAlignSamples& in_rows,
                                         const RoiAlignSamples& in_columns, const Down& down,
                                         const Across& across) {
  T result = T(0);
  // Samples that are left out count as zeros, as all outside of the image.
  bool first = in_rows.end - in_rows.begin == rows && in_columns.end - in_columns.begin == columns;
  for (int64_t iy = in_rows.begin; iy < in_rows.end; ++iy) {
    const RoiAlignPoint<T> y = down(iy);
    for (int64_t ix = in_columns.begin; ix < in_columns.end; ++ix) {
      const RoiAlignPoint<T> x = across(ix);
      T parts[4] = {T(0), T(0), T(0), T(0)};
      if (y.inside && x.inside) {
        const T hy = T(1) - y.weight, hx = T(1) - x.weight;
        parts[0] = hy * hx * image[y.low * o.width + x.low];
        parts[1] = hy * x.weight * image[y.low * o.width + x.high];
        parts[2] = y.weight * hx * image[y.high * o.width + x.low];
        parts[3] = y.weight * x.weight * image[y.high * o.width + x.high];
      }
      if (o.maximum) {
        for (const T part : parts) {
          if (first || part > result || part != part) result = part;
          first = false;
        }
      } else {
        result += parts[0] + parts[1] + parts[2] + parts[3];
      }
    }
  }
  const int64_t count = rows * columns > 1 ? rows * columns : 1;
  return o.maximum ? result : result / static_cast<T>(count);
}

// The bin (ph, pw) of a region in one channel of an image.
template <class T>
BRAID_HOST_DEVICE inline T roi_align_element(const T* image, const T* region, int64_t ph, int64_t pw,
                                             const RoiAlignOptions& o) {
  const RoiAlignAxis<T> down(region, true, o), across(region, false, o);
  return roi_align_bin(
      image, o, down.count, across.count, down.samples(ph), across.samples(pw),
      [&](int64_t sample) { return down.point(ph, sample); },
      [&](int64_t sample) { return across.point(pw, sample); });
}

}  // namespace braid::rt
