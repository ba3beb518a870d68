// Checks a running program against its memory plan, if it was compiled with checks (`braid compile
// --checked`).
//
// Memory without a live buffer holds poison. At each step:
//   before   buffers born here find poison, or bytes of a buffer that dies here (in-place reuse); buffers
//            touched by the step are alive and hold what their last writer left
//   after    buffers that die are poisoned; the hash of each written buffer is kept
//   end      dead memory still holds poison
// A violation ends the run with an error that names the buffer and the step. Peers may write a collective's
// outputs from its start to its wait, so their bytes are not checked in between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace braid::rt {

struct PlannedBuffer {
  const char* name;
  bool comm;  // in the communication segment, not in the arena
  int64_t offset, bytes;
  int32_t first_step, last_step;
};
// How one step uses one buffer.
struct PlannedTouch {
  int32_t buffer;
  bool reads, writes;
  bool in_flight;  // peers may write it after this step
};
struct PlannedStep {
  const char* node;
  int32_t first_touch, touch_count;
};
struct LifecyclePlan {
  std::span<const PlannedBuffer> buffers;
  std::span<const PlannedTouch> touches;
  std::span<const PlannedStep> steps;
  int64_t arena_bytes, comm_bytes;
};

class Lifecycle {
 public:
  // `plan` and the memory must outlive this object.
  Lifecycle(const LifecyclePlan& plan, std::byte* arena, std::byte* segment);

  void begin();
  // False if the plan is violated; then error() says how.
  bool before(int32_t step);
  bool after(int32_t step);
  bool end();
  const std::string& error() const { return error_; }

 private:
  struct Space {
    std::byte* memory;
    // Per byte: the buffer that lives there, or one of the values below.
    std::vector<int32_t> owner;
  };
  static constexpr int32_t kNobody = -1;   // poison from the start
  static constexpr int32_t kUnknown = -2;  // reserved to the end of a run: possibly still read by peers
  static constexpr int32_t kDead = -3;     // kDead - buffer: poison since that buffer died

  Space& space_of(const PlannedBuffer& b) { return b.comm ? segment_ : arena_; }
  bool born(int32_t buffer, int32_t step);
  bool fail(int32_t step, const PlannedBuffer& buffer, const std::string& what);
  uint64_t hash(const PlannedBuffer& b);

  const LifecyclePlan& plan_;
  Space arena_, segment_;
  std::vector<std::vector<int32_t>> births_, deaths_;  // per step
  // Per buffer: hash after its last write, and the step; -1: unknown.
  std::vector<uint64_t> hash_;
  std::vector<int32_t> hashed_at_;
  std::string error_;
};

}  // namespace braid::rt
