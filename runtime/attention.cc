#include "runtime/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <vector>

#include "runtime/aligned_bytes.h"
#include "runtime/attention_isa.h"
#include "runtime/kernel_support.h"
#include "runtime/processor.h"
#include "runtime/team.h"

namespace braid::rt {
namespace {

constexpr double kParallelWork = 2e5;  // multiplications below which a second thread costs more than it saves
constexpr int64_t kWantedTasks = 32;   // keys are split if there are fewer
constexpr int64_t kFewestKeys = 256;   // of a part
constexpr int64_t kFarthest = int64_t{1} << 40;  // positions beyond it are at it

const AttentionKernels& own_kernels() {
#ifdef __x86_64__
  if (instruction_set() == InstructionSet::avx512) return avx512::kAttentionKernels;
  if (instruction_set() == InstructionSet::avx2) return avx2::kAttentionKernels;
#endif
  return baseline::kAttentionKernels;
}

int64_t integer_at(DType type, const void* values, int64_t at) {
  return type == DType::i32 ? static_cast<const int32_t*>(values)[at]
                            : static_cast<const int64_t*>(values)[at];
}
int64_t limited(int64_t position) { return std::clamp(position, -kFarthest, kFarthest); }

// How the rows of all heads are split into tasks.
struct Split {
  int64_t shared = 1;  // heads of the query per key head
  int64_t heads = 1;   // of a task
  int64_t head_blocks = 0, query_blocks = 0;
  int64_t tasks = 0;
  int64_t parts = 1, part_keys = 0;

  explicit Split(const AttentionShape& s) {
    if (s.batch == 0 || s.heads == 0 || s.queries == 0 || s.value_size == 0) return;
    shared = s.heads / s.key_heads;
    heads = std::clamp<int64_t>(kAttentionRows / s.queries, 1, shared);
    head_blocks = (shared + heads - 1) / heads;
    query_blocks = (s.queries + kAttentionRows - 1) / kAttentionRows;
    tasks = s.batch * s.key_heads * head_blocks * query_blocks;
    part_keys = s.keys;
    if (s.type == DType::f64 || tasks >= kWantedTasks) return;
    parts = std::clamp<int64_t>(s.keys / kFewestKeys, 1, kWantedTasks / tasks);
    part_keys = (s.keys + parts - 1) / parts;
  }

  AttentionTask task(const AttentionShape& s, int64_t index, int64_t part) const {
    AttentionTask t;
    const int64_t query_block = index % query_blocks;
    index /= query_blocks;
    const int64_t head_block = index % head_blocks;
    index /= head_blocks;
    t.key_head = index % s.key_heads;
    t.batch = index / s.key_heads;
    t.first_head = t.key_head * shared + head_block * heads;
    t.heads = std::min(heads, (t.key_head + 1) * shared - t.first_head);
    t.first_query = query_block * kAttentionRows;
    t.queries = std::min(kAttentionRows, s.queries - t.first_query);
    t.key_begin = part * part_keys;
    t.key_end = std::min(s.keys, t.key_begin + part_keys);
    return t;
  }
};

// One row after the other, in double.
void attend_f64(const AttentionShape& s, const AttentionArgs& args, const AttentionTask& t, double* scores,
                double* sums) {
  const double none = -std::numeric_limits<double>::infinity();
  const auto* const key = static_cast<const double*>(args.key) + t.batch * s.key[0] + t.key_head * s.key[1];
  const auto* const value =
      static_cast<const double*>(args.value) + t.batch * s.value[0] + t.key_head * s.value[1];
  for (int64_t r = 0; r < t.rows(); ++r) {
    const int64_t head = t.first_head + r / t.queries, row = t.first_query + r % t.queries;
    const auto* const query =
        static_cast<const double*>(args.query) + t.batch * s.query[0] + head * s.query[1] + row * s.query[2];
    auto* const out = static_cast<double*>(args.out) + t.batch * s.out[0] + head * s.out[1] + row * s.out[2];
    const KeyRange range = key_range(s, args, t.batch, row);
    std::fill(sums, sums + s.value_size, 0.0);
    double most = none, total = 0;
    for (int64_t first = range.begin; first < range.end; first += kAttentionKeys) {
      const int64_t count = std::min(kAttentionKeys, range.end - first);
      double largest = most;
      for (int64_t j = 0; j < count; ++j) {
        const double* const k = key + (first + j) * s.key[2];
        double x = 0;
        for (int64_t d = 0; d < s.head_size; ++d) x += query[d * s.query[3]] * k[d * s.key[3]];
        x *= s.scale;
        if (s.softcap != 0) x = std::tanh(x / s.softcap) * s.softcap;
        if (s.has_mask) {
          const int64_t at =
              t.batch * s.mask[0] + head * s.mask[1] + row * s.mask[2] + (first + j) * s.mask[3];
          if (s.mask_type == DType::f64)
            x += static_cast<const double*>(args.mask)[at];
          else if (s.mask_type == DType::boolean)
            x = static_cast<const uint8_t*>(args.mask)[at] != 0 ? x : s.adds_fill ? x + s.fill : s.fill;
          else
            x += static_cast<double>(mask_element(s, args.mask, at));
        }
        scores[j] = x;
        largest = x > largest ? x : largest;
      }
      const double shift = largest == none ? 0 : largest;
      const double kept = most == none ? 0 : std::exp(most - shift);
      total *= kept;
      for (int64_t c = 0; c < s.value_size; ++c) sums[c] *= kept;
      for (int64_t j = 0; j < count; ++j) {
        const double p = std::exp(scores[j] - shift);
        total += p;
        const double* const v = value + (first + j) * s.value[2];
        for (int64_t c = 0; c < s.value_size; ++c) sums[c] += p * v[c * s.value[3]];
      }
      most = largest;
    }
    const bool zero = is_zero_row(s, total);
    for (int64_t c = 0; c < s.value_size; ++c) out[c * s.out[3]] = zero ? 0 : sums[c] / total;
  }
}

class OnlineSoftmax final : public AttentionKernel {
 public:
  OnlineSoftmax(const AttentionShape& shape, int threads) : shape_(shape), split_(shape) {
    const double work = static_cast<double>(shape.batch) * static_cast<double>(shape.heads) *
                        static_cast<double>(shape.queries) * static_cast<double>(shape.keys) *
                        static_cast<double>(shape.head_size + shape.value_size);
    const int64_t runs = split_.tasks * split_.parts;
    threads_ = work < kParallelWork || runs == 1 ? 1 : threads;
    const int64_t part = attention_part_floats(shape);
    stride_ = shape.type == DType::f64 ? 2 * padded(kAttentionKeys + shape.value_size)
                                       : attention_work_floats(shape) + (split_.parts == 1 ? part : 0);
    work_ = aligned_bytes(static_cast<size_t>(threads_ * stride_) * sizeof(float));
    if (split_.parts > 1) parts_ = aligned_bytes(static_cast<size_t>(runs * part) * sizeof(float));
  }

  void run(const AttentionArgs& args) const override {
    const int64_t runs = split_.tasks * split_.parts;
    // From the last to the first: in causal attention the later queries have more to do.
    parallel_for(runs, threads_ > 1, [&](int64_t begin, int64_t end, int thread) {
      for (int64_t i = begin; i < end; ++i) attend(args, runs - 1 - i, work(thread));
    });
    if (split_.parts == 1) return;
    parallel_for(split_.tasks, threads_ > 1, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) join(args, t);
    });
  }

 private:
  float* work(int thread) const { return reinterpret_cast<float*>(work_.get()) + thread * stride_; }
  AttentionPart part(int64_t index) const {
    return attention_part(shape_,
                          reinterpret_cast<float*>(parts_.get()) + index * attention_part_floats(shape_));
  }

  void attend(const AttentionArgs& args, int64_t index, float* own) const {
    const AttentionTask task = split_.task(shape_, index / split_.parts, index % split_.parts);
    if (shape_.type == DType::f64) {
      auto* const scores = reinterpret_cast<double*>(own);
      return attend_f64(shape_, args, task, scores, scores + kAttentionKeys);
    }
    if (split_.parts > 1) return own_kernels().attend(shape_, args, task, own, part(index));
    const AttentionPart sums = attention_part(shape_, own + attention_work_floats(shape_));
    own_kernels().attend(shape_, args, task, own, sums);
    own_kernels().finish(shape_, args, task, sums);
  }

  // Adds the parts of a task in the order of their keys.
  void join(const AttentionArgs& args, int64_t index) const {
    const AttentionTask task = split_.task(shape_, index, 0);
    const AttentionPart sums = part(index * split_.parts);
    for (int64_t p = 1; p < split_.parts; ++p)
      own_kernels().combine(shape_, task.rows(), part(index * split_.parts + p), sums);
    own_kernels().finish(shape_, args, task, sums);
  }

  AttentionShape shape_;
  Split split_;
  int threads_ = 1;
  int64_t stride_ = 0;  // floats of a thread
  AlignedBytes work_, parts_;
};

}  // namespace

KeyRange key_range(const AttentionShape& s, const AttentionArgs& args, int64_t batch, int64_t query) {
  KeyRange range = {0, s.keys};
  if (s.has_valid_keys)
    range.end = std::min(range.end, integer_at(s.valid_keys_type, args.valid_keys, batch * s.valid_keys));
  if (s.has_before || s.has_after) {
    const int64_t first = s.has_positions ? integer_at(s.positions_type, args.positions, batch * s.positions)
                                          : s.first_position;
    const int64_t position = limited(first) + query;
    if (s.has_before) range.begin = std::max(range.begin, position - limited(s.before));
    if (s.has_after) range.end = std::min(range.end, position + limited(s.after) + 1);
  }
  if (range.begin >= range.end) return {0, 0};
  return range;
}

float mask_element(const AttentionShape& s, const void* mask, int64_t at) {
  switch (s.mask_type) {
    case DType::f16:
      return load(static_cast<const Half*>(mask)[at]);
    case DType::bf16:
      return load(static_cast<const BFloat16*>(mask)[at]);
    case DType::f64:
      return static_cast<float>(static_cast<const double*>(mask)[at]);
    case DType::boolean:
      return bool_mask(s, static_cast<const uint8_t*>(mask)[at]);
    default:
      return static_cast<const float*>(mask)[at];
  }
}

struct AttentionLibrary::Impl {
  struct Key {
    AttentionShape shape;
    int threads;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  std::map<Key, std::unique_ptr<AttentionKernel>> kernels;
};

AttentionLibrary::AttentionLibrary() : impl_(new Impl) {}
AttentionLibrary::~AttentionLibrary() = default;

const AttentionKernel* AttentionLibrary::kernel(const AttentionShape& shape) {
  const int threads = team_threads();
  std::unique_ptr<AttentionKernel>& slot = impl_->kernels[{shape, threads}];
  if (!slot) slot = std::make_unique<OnlineSoftmax>(shape, threads);
  return slot.get();
}

}  // namespace braid::rt
