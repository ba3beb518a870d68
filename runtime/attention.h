// Attention of generated CPU programs; ir::Attention (ir/graph.h) defines its meaning. `kernel` plans one
// actual shape: queries are split into tasks of up to 64 rows. Each task goes over its keys in blocks and
// keeps a maximum, a sum and a weighted sum of values per row. This is the online softmax of Milakov and
// Gimelshein: no more than a block of scores ever exists. Where there are few tasks, as in decoding, the keys
// are split too and the parts are combined in order. The split depends on the shape alone: results have the
// same bits for every number of threads.
//
// The loops (attention_kernels.inc) are built once per instruction set; the processor decides which of them
// run.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "runtime/dtype.h"
#include "runtime/owned.h"

namespace braid::rt {

// As ir::UndefinedRows.
enum class UndefinedRows : uint8_t { zero_if_masked, nan, zero };

// Strides count elements.
struct AttentionShape {
  DType type = DType::f32;  // of query, key, value and result
  int64_t batch = 0, heads = 0, key_heads = 0, queries = 0, keys = 0, head_size = 0, value_size = 0;
  std::array<int64_t, 4> query = {}, key = {}, value = {}, out = {};  // strides
  bool has_mask = false;
  DType mask_type = DType::f32;
  std::array<int64_t, 4> mask = {};
  bool has_valid_keys = false, has_positions = false;
  DType valid_keys_type = DType::i64, positions_type = DType::i64;
  int64_t valid_keys = 0, positions = 0;  // strides
  double scale = 1, softcap = 0, fill = -std::numeric_limits<double>::infinity();
  bool adds_fill = false;  // a bool mask that is false adds the fill to a score, which is not replaced by it
  int64_t first_position = 0;
  bool has_before = false, has_after = false;
  int64_t before = 0, after = 0;
  UndefinedRows undefined = UndefinedRows::zero_if_masked;
  friend auto operator<=>(const AttentionShape&, const AttentionShape&) = default;
};

struct AttentionArgs {
  const void* query = nullptr;
  const void* key = nullptr;
  const void* value = nullptr;
  const void* mask = nullptr;
  const void* valid_keys = nullptr;
  const void* positions = nullptr;
  void* out = nullptr;
};

// A kernel for one shape. It allocates nothing when it runs, and uses at most the number of threads that
// team_threads() returned when it was made. One run at a time.
class AttentionKernel {
 public:
  virtual ~AttentionKernel() = default;
  virtual void run(const AttentionArgs& args) const = 0;
};

// The kernels of one instance, shared by all operations of equal shape.
class AttentionLibrary {
 public:
  AttentionLibrary();
  ~AttentionLibrary();
  // The kernel lives as long as the library.
  const AttentionKernel* kernel(const AttentionShape& shape);

 private:
  struct Impl;
  Owned<Impl> impl_;
};

}  // namespace braid::rt
