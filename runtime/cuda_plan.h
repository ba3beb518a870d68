// A program's declarations about its memory: the buffers of its plan and, for each step, the bytes that the
// step touches.
//
//   BRAID_STEP(plan_, 3, compute_, reads(buffer_h, 0, 32 * dim_rows), writes(buffer_y, 0, 4 * dim_rows));
//   BRAID_TRY(BRAID_LAUNCH(...));
//   ...
//   BRAID_STEPS_END(plan_, compute_, true);
//
// The emulated device checks every access against them (runtime/emulated/planned_memory.h). On a GPU the
// macros are empty.
#pragma once

#include <cstdint>

#ifdef BRAID_EMULATED_DEVICE
#include <initializer_list>

#include "runtime/emulated/cuda_api.h"
#endif

namespace braid::rt::cuda {

enum class Place : uint8_t { arena, segment, weights, rank_weights, input, output };

struct PlannedBuffer {
  const char* name;
  Place place;
  int64_t offset;  // in bytes; of an input or output its index
  int64_t bytes;   // at the upper bounds of all dimensions
  // The steps before which it is born and after which it dies; -1: the caller's, or constant.
  int first_step = -1, last_step = -1;
};

// The memory of an instance. Inputs and outputs are those of the present run.
struct PlannedMemory {
  const PlannedBuffer* buffers = nullptr;  // the same for all ranks
  int buffer_count = 0;
  const void* arena = nullptr;
  const void* segment = nullptr;
  int64_t segment_bytes = 0;  // planned; the bytes after them belong to the runtime
  const void* weights = nullptr;
  const void* rank_weights = nullptr;
  const void* const* inputs = nullptr;
  void* const* outputs = nullptr;
  const int* error_flag = nullptr;  // any step may set it
  const int* abandoned = nullptr;   // pinned: kernels that wait for peers look at it
  const void* workspace = nullptr;  // of products: any step may use it
};

// `rows` times `bytes` bytes, `pitch` bytes apart.
struct Touch {
  int buffer;  // index into the plan's buffers
  bool writes;
  int64_t first, bytes, rows, pitch;
};
constexpr int64_t kWholeBuffer = -1;
constexpr Touch reads(int buffer, int64_t first = 0, int64_t bytes = kWholeBuffer, int64_t rows = 1,
                      int64_t pitch = 0) {
  return {buffer, false, first, bytes, rows, pitch};
}
// A step may also read bytes that it declares as written.
constexpr Touch writes(int buffer, int64_t first = 0, int64_t bytes = kWholeBuffer, int64_t rows = 1,
                       int64_t pitch = 0) {
  return {buffer, true, first, bytes, rows, pitch};
}

template <class... Touches>
constexpr bool step(Touches...) {
  return true;
}

}  // namespace braid::rt::cuda

#ifdef BRAID_EMULATED_DEVICE

namespace braid::emulated {

// This thread's operations belong to step `number` until the next call. Buffers whose lives begin at the step
// are born on `stream`.
void begin_step(const rt::cuda::PlannedMemory& plan, int number, cudaStream_t stream,
                std::initializer_list<rt::cuda::Touch> touches);
// Call after the last step of a run. If the run is complete, the buffers in arena and segment die on
// `stream`, which must follow everything that the run has enqueued.
void end_steps(const rt::cuda::PlannedMemory& plan, cudaStream_t stream, bool complete);
// The program gives up the steps that it has enqueued, because a peer is lost: their writes may be missing.
void abandon_plan(const rt::cuda::PlannedMemory& plan);
// Call before the memory is freed.
void forget_plan(const rt::cuda::PlannedMemory& plan);

}  // namespace braid::emulated

#define BRAID_STEP(plan, number, stream, ...) \
  ::braid::emulated::begin_step(plan, number, stream, {__VA_ARGS__})
#define BRAID_STEPS_END(plan, stream, complete) ::braid::emulated::end_steps(plan, stream, complete)
#define BRAID_ABANDON_PLAN(plan) ::braid::emulated::abandon_plan(plan)
#define BRAID_FORGET_PLAN(plan) ::braid::emulated::forget_plan(plan)

#else

// The operands count as used, but are not evaluated.
#define BRAID_STEP(plan, number, stream, ...) static_cast<void>(sizeof(::braid::rt::cuda::step(__VA_ARGS__)))
#define BRAID_STEPS_END(plan, stream, complete) static_cast<void>(0)
#define BRAID_ABANDON_PLAN(plan) static_cast<void>(0)
#define BRAID_FORGET_PLAN(plan) static_cast<void>(0)

#endif
