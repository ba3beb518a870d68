// Our own attention kernels, one set per instruction set. Private to the runtime library.
#pragma once

#include <cstdint>

#include "runtime/attention.h"

namespace braid::rt {

inline constexpr int64_t kAttentionRows = 64;   // of a task, at most
inline constexpr int64_t kAttentionKeys = 256;  // of a block
inline constexpr int64_t kAttentionPad =
    16;  // rows of the work are multiples of it, the floats of the widest vector

inline constexpr int64_t padded(int64_t n) { return (n + kAttentionPad - 1) / kAttentionPad * kAttentionPad; }

// Row r is query first_query + r % queries of head first_head + r / queries. All heads share the key head.
struct AttentionTask {
  int64_t batch = 0, key_head = 0;
  int64_t first_head = 0, heads = 0;
  int64_t first_query = 0, queries = 0;
  int64_t key_begin = 0, key_end = 0;
  int64_t rows() const { return heads * queries; }
};

// The intermediate result of a task, for up to kAttentionRows rows.
struct AttentionPart {
  float* sums = nullptr;   // of exp(score - most) * value: [rows, padded(value_size)]
  float* most = nullptr;   // the largest score: [rows]
  float* total = nullptr;  // of exp(score - most): [rows]
};
inline int64_t attention_part_floats(const AttentionShape& s) {
  return kAttentionRows * (padded(s.value_size) + 2);
}
inline AttentionPart attention_part(const AttentionShape& s, float* at) {
  const int64_t sums = kAttentionRows * padded(s.value_size);
  return {at, at + sums, at + sums + kAttentionRows};
}
// Returns the floats of a thread's work memory. It holds, in this order: queries, scores, masks of a block
// and these transposed, keys, values.
inline int64_t attention_work_floats(const AttentionShape& s) {
  return kAttentionRows * padded(s.head_size) + 3 * kAttentionRows * kAttentionKeys +
         kAttentionKeys * (padded(s.head_size) + padded(s.value_size));
}

struct AttentionKernels {
  // f32 and halves.
  void (*attend)(const AttentionShape& shape, const AttentionArgs& args, const AttentionTask& task,
                 float* work, const AttentionPart& part);
  // Adds a part of later keys to `to`.
  void (*combine)(const AttentionShape& shape, int64_t rows, const AttentionPart& part,
                  const AttentionPart& to);
  // Stores the rows of the result.
  void (*finish)(const AttentionShape& shape, const AttentionArgs& args, const AttentionTask& task,
                 const AttentionPart& part);
};

namespace baseline {
extern const AttentionKernels kAttentionKernels;
}
#ifdef __x86_64__
namespace avx2 {
extern const AttentionKernels kAttentionKernels;
}
namespace avx512 {
extern const AttentionKernels kAttentionKernels;
}
#endif

// The keys [begin, end) that a query may attend to as far as positions tell.
struct KeyRange {
  int64_t begin = 0, end = 0;
};
KeyRange key_range(const AttentionShape& shape, const AttentionArgs& args, int64_t batch, int64_t query);

// An element of a bool mask as a float: what it adds to a score, or else whether it keeps the score.
inline float bool_mask(const AttentionShape& shape, uint8_t element) {
  if (shape.adds_fill) return element != 0 ? 0.0f : static_cast<float>(shape.fill);
  return element != 0 ? 1.0f : 0.0f;
}
// Returns whether the results of a row are 0, given the total of its exponentials. A row without a softmax
// has a total of 0 or NaN; its sums may be NaN, too.
inline bool is_zero_row(const AttentionShape& shape, double total) {
  return !(total > 0) && (shape.keys == 0 || shape.undefined == UndefinedRows::zero ||
                          (shape.undefined == UndefinedRows::zero_if_masked && total == 0));
}
// An element of a mask of any type.
float mask_element(const AttentionShape& shape, const void* mask, int64_t at);

}  // namespace braid::rt
