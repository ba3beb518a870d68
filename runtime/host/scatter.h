// The extern kernel `scatter` on the host: a copy of a tensor in which rows are replaced by updates, or
// combined with them. Operands: data [blocks, rows, width], positions (int64) [blocks, n] and updates
// [blocks, n, width]; result: the size of the data. Update k of a block goes to row positions[k] of the same
// block, and updates of one row in the order of k. Attribute `reduction`: none, add, mul, max or min. An
// update whose position is out of range is left out. If the result is the memory of the data, only rows are
// written.
//
// Threads own ranges of rows and read all positions, so the result does not depend on their number.
#pragma once

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "runtime/extern_kernel.h"
#include "runtime/extern_types.h"
#include "runtime/team.h"

namespace braid::rt {

struct ScatterReplace {
  template <class T>
  static T combine(T, T update) {
    return update;
  }
};
// Integers wrap, which only unsigned arithmetic may.
struct ScatterAdd {
  template <class T>
  static T combine(T old, T update) {
    if constexpr (std::is_floating_point_v<T>) {
      return old + update;
    } else {
      return static_cast<T>(static_cast<uint64_t>(old) + static_cast<uint64_t>(update));
    }
  }
};
struct ScatterMul {
  template <class T>
  static T combine(T old, T update) {
    if constexpr (std::is_floating_point_v<T>) {
      return old * update;
    } else {
      return static_cast<T>(static_cast<uint64_t>(old) * static_cast<uint64_t>(update));
    }
  }
};
// NaN is larger and smaller than any number.
struct ScatterMax {
  template <class T>
  static T combine(T old, T update) {
    return old > update || old != old ? old : update;
  }
};
struct ScatterMin {
  template <class T>
  static T combine(T old, T update) {
    return old < update || old != old ? old : update;
  }
};

// Rows [begin, end) of all blocks, counted through.
template <class T, class Reduction>
void scatter_rows(const BraidExternCall* call, int64_t begin, int64_t end) {
  const int64_t rows = call->writes[0].sizes[1], width = call->writes[0].sizes[2],
                n = call->reads[1].sizes[1];
  const T* data = static_cast<const T*>(call->reads[0].data);
  const int64_t* positions = static_cast<const int64_t*>(call->reads[1].data);
  const T* updates = static_cast<const T*>(call->reads[2].data);
  T* out = static_cast<T*>(call->writes[0].data);
  if (out != data)
    std::memcpy(out + begin * width, data + begin * width,
                static_cast<size_t>((end - begin) * width) * sizeof(T));
  for (int64_t block = begin / rows; block * rows < end; ++block) {
    const int64_t first = std::max<int64_t>(begin - block * rows, 0),
                  last = std::min(end - block * rows, rows);
    const int64_t* const at = positions + block * n;
    const T* const from = updates + block * n * width;
    T* const to = out + block * rows * width;
    if (width == 1) {
      for (int64_t k = 0; k < n; ++k) {
        if (at[k] >= first && at[k] < last) to[at[k]] = Reduction::combine(to[at[k]], from[k]);
      }
      continue;
    }
    for (int64_t k = 0; k < n; ++k) {
      if (at[k] < first || at[k] >= last) continue;
      T* const row = to + at[k] * width;
      const T* const update = from + k * width;
      for (int64_t j = 0; j < width; ++j) row[j] = Reduction::combine(row[j], update[j]);
    }
  }
}

template <class T, class Reduction>
const char* scatter_all(const BraidExternCall* call) {
  const BraidTensorView& out = call->writes[0];
  const int64_t rows = out.sizes[0] * out.sizes[1], width = out.sizes[2];
  if (rows == 0 || width == 0) return nullptr;
  constexpr int64_t kParallelBytes = 1 << 18;  // below it a second thread costs more than it saves
  const int64_t bytes =
      (rows + call->reads[1].sizes[0] * call->reads[1].sizes[1]) * width * static_cast<int64_t>(sizeof(T));
  parallel_for(rows, bytes > kParallelBytes,
               [&](int64_t begin, int64_t end) { scatter_rows<T, Reduction>(call, begin, end); });
  return nullptr;
}

template <class T>
const char* scatter_reduced(const BraidExternCall* call) {
  const char* reduction = braid_find_attribute(call, "reduction", BRAID_TEXT)->text;
  if (std::strcmp(reduction, "add") == 0) return scatter_all<T, ScatterAdd>(call);
  if (std::strcmp(reduction, "mul") == 0) return scatter_all<T, ScatterMul>(call);
  if (std::strcmp(reduction, "max") == 0) return scatter_all<T, ScatterMax>(call);
  return scatter_all<T, ScatterMin>(call);
}

// Replacing moves bits, so types of one size share their code.
inline const char* scatter_replaced(const BraidExternCall* call) {
  switch (call->reads[0].dtype) {
    case BRAID_F64:
    case BRAID_I64:
    case BRAID_U64:
      return scatter_all<uint64_t, ScatterReplace>(call);
    case BRAID_F32:
    case BRAID_I32:
    case BRAID_U32:
      return scatter_all<uint32_t, ScatterReplace>(call);
    case BRAID_F16:
    case BRAID_BF16:
    case BRAID_I16:
    case BRAID_U16:
      return scatter_all<uint16_t, ScatterReplace>(call);
    default:
      return scatter_all<uint8_t, ScatterReplace>(call);
  }
}

inline const char* scatter(const BraidExternCall* call) {
  if (std::strcmp(braid_find_attribute(call, "reduction", BRAID_TEXT)->text, "none") == 0)
    return scatter_replaced(call);
  return for_element_type(call->reads[0].dtype, "scatter: element type not supported",
                          [&](auto type) { return scatter_reduced<typename decltype(type)::type>(call); });
}

}  // namespace braid::rt
