// Holds a running program to its memory plan, in programs that were compiled with checks (`braid compile
// --checked`).
//
// Memory that nobody lives in holds poison. At each step:
//   before   what is born there finds poison, or bytes of somebody who dies there (in-place reuse); what the
//            step touches is alive, and holds what its last writer left
//   after    what dies is poisoned; of what was written, a hash is kept
//   end      what is dead still holds poison
// Whatever does not hold ends the run with an error that names the buffer and the step. Peers may write a
// collective's outputs from its start to its wait, so nothing is said about their bytes between.
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
// What one step does to one buffer.
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
  // `plan` and the memory must outlive it.
  Lifecycle(const LifecyclePlan& plan, std::byte* arena, std::byte* segment);

  void begin();
  // False where the plan does not hold; then error() says how.
  bool before(int32_t step);
  bool after(int32_t step);
  bool end();
  const std::string& error() const { return error_; }

 private:
  struct Space {
    std::byte* memory;
    // Per byte: who lives there, or one of the values below.
    std::vector<int32_t> owner;
  };
  static constexpr int32_t kNobody = -1;   // poison since the beginning
  static constexpr int32_t kUnknown = -2;  // held to the end of a run: perhaps still read by peers
  static constexpr int32_t kDead = -3;     // kDead - buffer: poison since that one died

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
