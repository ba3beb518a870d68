// The memory of one simulated rank.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/plan_watch.h"
#include "ir/schedule.h"
#include "ir/tensor.h"

namespace braid::ir {

// A tensor operand with concrete sizes. Strides and offset count bytes.
struct ByteView {
  std::byte* storage = nullptr;
  std::int64_t storage_bytes = 0;
  std::int64_t offset = 0;
  DType dtype = DType::f32;
  std::vector<std::int64_t> sizes, strides;
  PlanWatch* watch = nullptr;  // null unless the plan places the storage
  int tenant = -1;

  // Must be called for every element that is read or written.
  void touch(std::int64_t at, bool write, const std::string& who) const {
    if (watch != nullptr) watch->touch(tenant, at, size_of(dtype), write, who);
  }
  std::int64_t numel() const {
    std::int64_t n = 1;
    for (std::int64_t s : sizes) n *= s;
    return n;
  }
};

class RankMemory {
 public:
  // Storages are sized for the actual dimensions; constants are filled in, activations poisoned. `segment` is
  // the memory of the communication segment; if null, the rank allocates its own.
  RankMemory(const Schedule& schedule, int rank, std::map<std::string, std::int64_t> dims, bool use_plan,
             std::byte* segment = nullptr);

  const Graph& graph() const { return *graph_; }
  int rank() const { return rank_; }
  // The value of an expression over dimensions.
  std::int64_t size(Expr e) const;
  std::int64_t dim(Expr symbol) const;
  // From here on the dimension has this value, which is at most the one for which memory was made.
  void set_dim(Expr symbol, std::int64_t value) { dims_[symbol.dim_name()] = value; }

  ByteView view(const TensorRef& ref);
  ByteView view(BufferId buffer);

  // Elements are in row-major order of the view. An access outside the storage is an InternalError that
  // contains the last argument, which names the operation.
  std::vector<std::byte> read(const ByteView& view, const std::string& who) const;
  void write(const ByteView& view, std::span<const std::byte> bytes, const std::string& who);
  void poison(const ByteView& view, const std::string& who);
  void begin_step(int step) {
    if (watch_) watch_->begin_step(step);
  }
  // Poisons the planned storages whose last step this was.
  void step_done(int step);

 private:
  struct Block {
    std::byte* data = nullptr;
    std::int64_t bytes = 0;
  };
  Block block(StorageId storage) const;
  // Makes arena, segment (if null) and lives as the plan has them; returns the segment.
  std::byte* make_planned(std::byte* segment);
  // Makes the memory of a storage without a place in the plan.
  void fill(std::size_t storage, std::int64_t bytes);
  template <class Fn>
  static void for_each_element(const ByteView& view, bool write, const std::string& who, Fn&& fn);

  const Schedule* schedule_;
  const Graph* graph_;
  int rank_;
  std::map<std::string, std::int64_t> dims_;
  std::vector<std::vector<std::byte>> own_;  // storages with memory of their own
  std::vector<std::byte> arena_, comm_;
  std::vector<Block> blocks_;                         // by storage, aliases resolved
  std::vector<std::optional<std::int64_t>> offsets_;  // of buffers in their storage, in bytes
  bool use_plan_;
  struct Lives {
    std::vector<const Placement*> begin;                      // born at this step and live beyond it
    std::vector<std::pair<StorageId, const Placement*>> end;  // except outputs, which are read after the run
  };
  std::map<int, Lives> lives_;        // of planned storages, by step
  std::unique_ptr<PlanWatch> watch_;  // views point to it
};

}  // namespace braid::ir
