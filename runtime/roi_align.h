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

// The bin (ph, pw) of a region, which is x1, y1, x2, y2, in one channel of an image.
template <class T>
BRAID_HOST_DEVICE inline T roi_align_element(const T* image, const T* region, int64_t ph, int64_t pw,
                                             const RoiAlignOptions& o) {
  const T scale = static_cast<T>(o.spatial_scale), offset = o.half_pixel ? T(0.5) : T(0);
  const T x1 = region[0] * scale - offset, y1 = region[1] * scale - offset;
  T width = region[2] * scale - offset - x1, height = region[3] * scale - offset - y1;
  if (!o.half_pixel) {  // malformed regions become one pixel large
    if (!(width > T(1))) width = T(1);
    if (!(height > T(1))) height = T(1);
  }
  const T bin_height = height / static_cast<T>(o.pooled_height),
          bin_width = width / static_cast<T>(o.pooled_width);
  const int64_t rows = roi_align_samples(bin_height, o.sampling_ratio),
                columns = roi_align_samples(bin_width, o.sampling_ratio);
  const T top = y1 + static_cast<T>(ph) * bin_height, left = x1 + static_cast<T>(pw) * bin_width;
  const RoiAlignSamples down = roi_align_inside(top, bin_height, rows, o.height, o.sampling_ratio),
                        across = roi_align_inside(left, bin_width, columns, o.width, o.sampling_ratio);
  T result = T(0);
  // Samples that are left out count as zeros, as all outside of the image.
  bool first = down.end - down.begin == rows && across.end - across.begin == columns;
  for (int64_t iy = down.begin; iy < down.end; ++iy) {
    const T y = top + (static_cast<T>(iy) + T(0.5)) * bin_height / static_cast<T>(rows);
    for (int64_t ix = across.begin; ix < across.end; ++ix) {
      const T x = left + (static_cast<T>(ix) + T(0.5)) * bin_width / static_cast<T>(columns);
      int64_t y_low = 0, y_high = 0, x_low = 0, x_high = 0;
      T ly = T(0), lx = T(0), parts[4] = {T(0), T(0), T(0), T(0)};
      if (roi_align_neighbours(y, o.height, y_low, y_high, ly) &&
          roi_align_neighbours(x, o.width, x_low, x_high, lx)) {
        const T hy = T(1) - ly, hx = T(1) - lx;
        parts[0] = hy * hx * image[y_low * o.width + x_low];
        parts[1] = hy * lx * image[y_low * o.width + x_high];
        parts[2] = ly * hx * image[y_high * o.width + x_low];
        parts[3] = ly * lx * image[y_high * o.width + x_high];
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

}  // namespace braid::rt
