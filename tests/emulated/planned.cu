#include "runtime/cuda_plan.h"
#include "runtime/cuda_program.h"
#include "tests/emulated/check.h"
#include "tests/emulated/planned.h"

namespace {

using namespace braid::rt::cuda;

constexpr int kCount = 64;
constexpr int64_t kBytes = kCount * sizeof(float);

__global__ void copy_kernel(const float* in, float* out, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = in[i];
}

__global__ void count_kernel(int* counter) { atomicAdd(counter, 1); }

enum : int { buffer_w, buffer_x, buffer_a, buffer_b, buffer_c, buffer_y };

// a = x; b = a; c = b, in the bytes of a; y = c.
constexpr PlannedBuffer kBuffers[] = {
    {"w", Place::weights, 0, kBytes},     {"x", Place::input, 0, kBytes},
    {"a", Place::arena, 0, kBytes, 0, 1}, {"b", Place::arena, kBytes, kBytes, 1, 2},
    {"c", Place::arena, 0, kBytes, 2, 3}, {"y", Place::output, 0, kBytes, 3, -1},
};
// The same, but c = a in place.
constexpr PlannedBuffer kInPlace[] = {
    {"w", Place::weights, 0, kBytes},     {"x", Place::input, 0, kBytes},
    {"a", Place::arena, 0, kBytes, 0, 2}, {"b", Place::arena, kBytes, kBytes, 1, 3},
    {"c", Place::arena, 0, kBytes, 2, 3}, {"y", Place::output, 0, kBytes, 3, -1},
};
// c begins too early.
constexpr PlannedBuffer kOverlap[] = {
    {"w", Place::weights, 0, kBytes},     {"x", Place::input, 0, kBytes},
    {"a", Place::arena, 0, kBytes, 0, 3}, {"b", Place::arena, kBytes, kBytes, 1, 2},
    {"c", Place::arena, 0, kBytes, 2, 3}, {"y", Place::output, 0, kBytes, 3, -1},
};

struct Memory {
  float *arena = nullptr, *weights = nullptr, *x = nullptr, *y = nullptr;
};

const char* run_once(const Memory& m, const PlannedMemory& plan, PlanFault fault, cudaStream_t stream,
                     cudaStream_t other) {
  float *a = m.arena, *b = m.arena + kCount, *c = m.arena;
  const bool in_place = fault == PlanFault::kInPlace || fault == PlanFault::kInPlaceTooShort;
  const auto copy = [](const float* from, float* to, int n, cudaStream_t on) {
    return BRAID_LAUNCH(copy_kernel, 1, kCount + 1, 0, on, from, to, n);
  };

  BRAID_LABEL("/a");
  BRAID_STEP(plan, 0, stream, reads(buffer_x), writes(buffer_a));
  if (fault != PlanFault::kPreviousRun)
    CHECK_CUDA(copy(m.x, a, fault == PlanFault::kPartlyWritten ? kCount / 2 : kCount, stream));

  BRAID_LABEL("/b");
  BRAID_STEP(plan, 1, stream, reads(buffer_a), writes(buffer_b));
  float* to = fault == PlanFault::kOtherBuffer ? b + kCount
              : fault == PlanFault::kConstant  ? m.weights
              : fault == PlanFault::kInput     ? m.x
                                               : b;
  CHECK_CUDA(copy(a, to, fault == PlanFault::kPastBuffer ? kCount + 1 : kCount, stream));
  if (to != b) CHECK_CUDA(copy(a, b, kCount, stream));
  if (fault == PlanFault::kAtomicElsewhere)
    CHECK_CUDA(BRAID_LAUNCH(count_kernel, 1, 1, 0, stream, reinterpret_cast<int*>(a)));

  BRAID_LABEL("/c");
  const cudaStream_t third = fault == PlanFault::kUnorderedBirth ? other : stream;
  BRAID_STEP(plan, 2, third, reads(in_place ? buffer_a : buffer_b), writes(buffer_c));
  CHECK_CUDA(copy(in_place ? a : b, c, fault == PlanFault::kInPlaceTooShort ? kCount - 1 : kCount, third));
  if (third != stream) CHECK_CUDA(cudaStreamSynchronize(third));

  BRAID_LABEL("/y");
  const int64_t declared = fault == PlanFault::kMoreThanPlanned ? kBytes + 4 : kBytes;
  BRAID_STEP(plan, 3, stream, reads(fault == PlanFault::kOutsideItsLife ? buffer_a : buffer_c, 0, declared),
             writes(buffer_y));
  CHECK_CUDA(copy(fault == PlanFault::kDeadBuffer ? b : c, m.y,
                  fault == PlanFault::kLargerOutput ? kCount + 1 : kCount, stream));
  BRAID_STEPS_END(plan, fault == PlanFault::kUnorderedEnd ? other : stream, true);
  return nullptr;
}

}  // namespace

const char* run_planned(PlanFault fault) {
  cudaStream_t stream, other;
  CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK_CUDA(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  Memory m;
  CHECK_CUDA(cudaMalloc(&m.arena, 4 * kBytes));
  CHECK_CUDA(cudaMalloc(&m.weights, kBytes));
  CHECK_CUDA(cudaMalloc(&m.x, kBytes));
  CHECK_CUDA(cudaMalloc(&m.y, 2 * kBytes));  // the caller's may be larger than the output
  for (float* memory : {m.weights, m.x}) CHECK_CUDA(cudaMemsetAsync(memory, 0, kBytes, stream));
  const void* inputs[] = {m.x};
  void* outputs[] = {m.y};
  PlannedMemory plan;
  plan.buffers = fault == PlanFault::kInPlace || fault == PlanFault::kInPlaceTooShort ? kInPlace
                 : fault == PlanFault::kBornInLivingBuffer                            ? kOverlap
                                                                                      : kBuffers;
  plan.buffer_count = 6;
  plan.arena = m.arena;
  plan.weights = m.weights;
  plan.inputs = inputs;
  plan.outputs = outputs;
  const bool second = fault == PlanFault::kPreviousRun || fault == PlanFault::kUnorderedEnd;
  if (second) {
    if (const char* error = run_once(m, plan, PlanFault::kNone, stream, other)) return error;
  }
  if (const char* error = run_once(m, plan, fault, stream, other)) return error;
  CHECK_CUDA(cudaStreamSynchronize(stream));
  CHECK_CUDA(cudaStreamSynchronize(other));
  BRAID_FORGET_PLAN(plan);
  for (float* memory : {m.arena, m.weights, m.x, m.y}) CHECK_CUDA(cudaFree(memory));
  for (cudaStream_t each : {stream, other}) CHECK_CUDA(cudaStreamDestroy(each));
  return nullptr;
}
