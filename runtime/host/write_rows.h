// The extern kernel `write_rows` on the host: writes new rows into a cache. Operands: the old cache [batch,
// ...], the new rows (the same sizes, but n along `axis`) and the position of the first one for each element
// of the batch (int64) [batch]; result: the new cache. Row j of element b takes position first[b] + j along
// `axis`, in a `ring` modulo the cache's size. If the new cache is the memory of the old one, only the rows
// are written. A cache that `grows` may have more positions along `axis` than the old one. Elements that are
// neither in a row nor before the first row in the old cache become 0.
#pragma once

#include <cstring>

#include "runtime/dtype.h"
#include "runtime/extern_kernel.h"

namespace braid::rt {

// Calls visit(indices) for all but the last `inner` dimensions of the view.
template <class Visit>
void for_each_row_of(const BraidTensorView& view, int inner, const Visit& visit) {
  int64_t at[BRAID_EXTERN_MAX_RANK] = {}, count = 1;
  for (int d = 0; d < view.rank; ++d)
    count = d < view.rank - inner || view.sizes[d] == 0 ? count * view.sizes[d] : count;
  for (int64_t n = 0; n < count; ++n) {
    visit(at);
    for (int d = view.rank - inner; d-- > 0;) {
      if (++at[d] < view.sizes[d]) break;
      at[d] = 0;
    }
  }
}

inline const char* write_rows(const BraidExternCall* call) {
  const BraidTensorView &old = call->reads[0], &rows = call->reads[1], &out = call->writes[0];
  const int64_t* first = static_cast<const int64_t*>(call->reads[2].data);
  const int axis = static_cast<int>(braid_find_attribute(call, "axis", BRAID_INTEGER)->integer);
  const bool ring = braid_find_attribute(call, "ring", BRAID_INTEGER)->integer != 0;
  const int last = out.rank - 1;
  const auto item = static_cast<int64_t>(size_of(static_cast<DType>(out.dtype)));
  const auto copy = [&](const BraidTensorView& from, int64_t source, int64_t target, int64_t count) {
    char* to = static_cast<char*>(out.data) + target * item;
    const char* of = static_cast<const char*>(from.data) + source * item;
    for (int64_t k = 0; k < count; ++k)
      std::memcpy(to + k * out.strides[last] * item, of + k * from.strides[last] * item,
                  static_cast<size_t>(item));
  };
  const auto offset = [](const BraidTensorView& view, const int64_t* at) {
    int64_t sum = 0;
    for (int d = 0; d < view.rank; ++d) sum += at[d] * view.strides[d];
    return sum;
  };
  if (out.data != old.data)
    for_each_row_of(old, 1,
                    [&](const int64_t* at) { copy(old, offset(old, at), offset(out, at), old.sizes[last]); });
  const BraidAttribute* grows = braid_find_attribute(call, "grows", BRAID_INTEGER);
  if (grows != nullptr && grows->integer != 0) {
    for (int64_t b = 0; b < out.sizes[0]; ++b) {
      const int64_t begin = first[b * call->reads[2].strides[0]], size = out.sizes[axis];
      const auto zero = [&](int64_t from, int64_t to) {
        BraidTensorView part = out;
        part.data = static_cast<char*>(out.data) + (b * out.strides[0] + from * out.strides[axis]) * item;
        part.sizes[0] = 1;
        part.sizes[axis] = to - from;
        if (to <= from) return;
        for_each_row_of(part, 0, [&](const int64_t* at) {
          std::memset(static_cast<char*>(part.data) + offset(part, at) * item, 0, static_cast<size_t>(item));
        });
      };
      zero(begin < old.sizes[axis] ? begin : old.sizes[axis], begin);
      zero(begin + rows.sizes[axis], size);
    }
  }
  // Along the last dimension positions follow each other unless it is the one with the rows.
  const int inner = axis == last ? 0 : 1;
  for_each_row_of(rows, inner, [&](const int64_t* at) {
    int64_t position = first[at[0] * call->reads[2].strides[0]] + at[axis];
    if (ring) position = (position % out.sizes[axis] + out.sizes[axis]) % out.sizes[axis];
    if (position < 0 || position >= out.sizes[axis]) return;
    const int64_t target = offset(out, at) + (position - at[axis]) * out.strides[axis];
    copy(rows, offset(rows, at), target, inner == 0 ? 1 : rows.sizes[last]);
  });
  return nullptr;
}

}  // namespace braid::rt
