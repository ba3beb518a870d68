// The extern kernel `non_max_suppression` on the host. Of each class of each image it selects boxes from
// the highest score downwards, leaving out those that overlap a selected one too much. Operands, f32:
// boxes [images, n, 4], scores [images, classes, n], and scalars: most (int64) boxes of a class,
// threshold of the overlap, lowest score, which only a higher one passes. Results, int64: selected [room,
// 3], of which the first rows are image, class and box; count. Attribute `filter`: the lowest score
// counts, otherwise all pass; `center`: boxes are x, y, width, height, otherwise two opposite corners y,
// x, y, x.
#pragma once

#include <algorithm>
#include <memory>
#include <new>

#include "runtime/extern_kernel.h"

namespace braid::rt {

struct NmsBox {
  double y1, x1, y2, x2;  // y1 <= y2, x1 <= x2

  static NmsBox of(const float* b, bool center) {
    const double p = b[0], q = b[1], r = b[2], s = b[3];
    if (center) return {q - s / 2, p - r / 2, q + s / 2, p + r / 2};
    return {std::min(p, r), std::min(q, s), std::max(p, r), std::max(q, s)};
  }
  double area() const { return (y2 - y1) * (x2 - x1); }
};

// Whether the intersection takes more than this share of the union.
inline bool nms_overlaps(const NmsBox& a, const NmsBox& b, double threshold) {
  const double height = std::min(a.y2, b.y2) - std::max(a.y1, b.y1),
               width = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  if (!(height > 0) || !(width > 0) || !(a.area() > 0) || !(b.area() > 0)) return 0 > threshold;
  return height * width / (a.area() + b.area() - height * width) > threshold;
}

// Whether a score comes before another one; NaN comes last, and equal scores in the order of their boxes.
inline bool nms_before(float a, int64_t i, float b, int64_t j) {
  const bool a_nan = a != a, b_nan = b != b;
  if (a_nan || b_nan) return a_nan == b_nan ? i < j : b_nan;
  return a > b || (a == b && i < j);
}

inline const char* non_max_suppression(const BraidExternCall* call) {
  const BraidTensorView &boxes = call->reads[0], &scores = call->reads[1];
  const int64_t most = *static_cast<const int64_t*>(call->reads[2].data);
  const double threshold = *static_cast<const float*>(call->reads[3].data);
  const float lowest = *static_cast<const float*>(call->reads[4].data);
  const bool center = braid_find_attribute(call, "center", BRAID_INTEGER)->integer != 0,
             filters = braid_find_attribute(call, "filter", BRAID_INTEGER)->integer != 0;
  auto* selected = static_cast<int64_t*>(call->writes[0].data);
  const int64_t room = call->writes[0].sizes[0], images = scores.sizes[0], classes = scores.sizes[1],
                n = scores.sizes[2];
  const std::unique_ptr<int64_t[]> order(new (std::nothrow) int64_t[static_cast<size_t>(n)]);
  const std::unique_ptr<NmsBox[]> kept(new (std::nothrow) NmsBox[static_cast<size_t>(n)]);
  if (!order || !kept) return "out of memory";
  int64_t count = 0;
  for (int64_t of = 0; of < images * classes; ++of) {
    const float* score = static_cast<const float*>(scores.data) + of * n;
    const float* box = static_cast<const float*>(boxes.data) + of / classes * n * 4;
    int64_t candidates = 0, taken = 0;
    for (int64_t k = 0; k < n; ++k) {
      if (!filters || score[k] > lowest) order[candidates++] = k;
    }
    std::sort(order.get(), order.get() + candidates,
              [&](int64_t a, int64_t b) { return nms_before(score[a], a, score[b], b); });
    for (int64_t k = 0; k < candidates && taken < most; ++k) {
      const NmsBox own = NmsBox::of(box + order[k] * 4, center);
      if (std::any_of(kept.get(), kept.get() + taken,
                      [&](const NmsBox& other) { return nms_overlaps(own, other, threshold); }))
        continue;
      if (count == room) return "selected more boxes than there is room for";
      kept[taken++] = own;
      int64_t* row = selected + 3 * count++;
      row[0] = of / classes;
      row[1] = of % classes;
      row[2] = order[k];
    }
  }
  *static_cast<int64_t*>(call->writes[1].data) = count;
  return nullptr;
}

}  // namespace braid::rt
