// Which steps are captured, and how a step's collectives reach the communication stream.
#include <algorithm>
#include <vector>

#include "runtime/cuda/core.h"
#include "runtime/device/launch.h"

namespace braid::rt::cuda {

// Called for a run before it is enqueued: decides which parts come from a graph, captures those that are due,
// and returns the whole step's graph, or null.
cudaGraphExec_t InstanceCore::captured_step() {
  CapturedSteps& captured = current_->captured;
  const uint64_t run = captured.next_run();
  pointers_.assign(program_.inputs_, program_.inputs_ + table_.input_count);
  pointers_.insert(pointers_.end(), program_.outputs_, program_.outputs_ + table_.output_count);
  // A first run without graphs lets NCCL connect, and libraries load their kernels.
  const uint64_t first = layout_.collectives ? 3 : 2;
  if (run == 2) drop_captured();
  if (CapturedSteps::due(run, first)) capture_step(captured);
  if (layout_.collectives && run >= 2)
    collectives_ = run == 2 ? Collectives::kCaptured : Collectives::kLaunched;
  return captured.find(pointers_);
}

// A step that cannot be captured is enqueued instead: the caller gets no error.
void InstanceCore::capture_step(CapturedSteps& captured) {
  const cudaStream_t compute = program_.compute_, communication = program_.communication_;
  const Failure before = failure_;
  const auto captures = [&] {
    if (layout_.collectives) {
      BRAID_TRY(cudaEventRecord(fork_, compute));
      BRAID_TRY(cudaStreamWaitEvent(communication, fork_, 0));
    }
    return enqueue_calls();
  };
  if (cudaStreamBeginCapture(compute, cudaStreamCaptureModeThreadLocal) == cudaSuccess) {
    const bool good = captures();
    // A step that stops halfway has not joined its second stream.
    if (!good && layout_.collectives && cudaEventRecord(fork_, communication) == cudaSuccess)
      (void)cudaStreamWaitEvent(compute, fork_, 0);
    cudaGraph_t graph = nullptr;
    // NCCL's memory for captured collectives lives as long as the graph that they were captured into.
    if (cudaStreamEndCapture(compute, &graph) == cudaSuccess && good)
      (void)captured.keep(graph, pointers_, !layout_.collectives);
    if (graph != nullptr) (void)cudaGraphDestroy(graph);
  }
  (void)cudaGetLastError();
  failure_ = before;
}

// Makes room for graphs of other dims.
void InstanceCore::drop_captured() {
  std::vector<Prepared*> with_graphs;
  for (const auto& [dims, prepared] : prepared_)
    if (prepared.get() != current_ && !prepared->captured.empty()) with_graphs.push_back(prepared.get());
  if (with_graphs.size() < kMostCaptured) return;
  (*std::min_element(with_graphs.begin(), with_graphs.end(), [](const Prepared* a, const Prepared* b) {
    return a->used < b->used;
  }))->captured.clear();
}

void InstanceCore::comes_to_collective() {
  if (watched_) watch_.comes_to(++collective_, program_.communication_);
}

Instance::Collective InstanceCore::begin_collective() {
  using enum Instance::Collective;
  comes_to_collective();
  const cudaStream_t stream = program_.communication_;
  if (collectives_ == Collectives::kLaunched) {
    const cudaGraphExec_t graph = current_->captured.collectives[next_collective_++].get();
    return ok(cudaGraphLaunch(graph, stream), "cudaGraphLaunch") ? kDone : kFailed;
  }
  if (!ok(ncclGroupStart(), "ncclGroupStart")) return kFailed;
  if (collectives_ == Collectives::kCalled ||
      ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture"))
    return kToBeCalled;
  (void)ncclGroupEnd();
  return kFailed;
}

// `good`: whether all calls since begin_collective succeeded. A group that was begun is ended in any case.
bool InstanceCore::end_collective(bool good) {
  const ncclResult_t ended = ncclGroupEnd();
  ++launches_of_thread();
  good = good && groups_.done(ended, "ncclGroupEnd");
  if (collectives_ != Collectives::kCaptured) return good;
  const cudaStream_t stream = program_.communication_;
  cudaGraph_t graph = nullptr;
  good = ok(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture") && good;
  cudaError_t error = cudaSuccess;
  if (good) current_->captured.collectives.push_back(instantiate(graph, &error));
  if (graph != nullptr) cudaGraphDestroy(graph);
  return good && ok(error, "cudaGraphInstantiate") &&
         ok(cudaGraphLaunch(current_->captured.collectives.back().get(), stream), "cudaGraphLaunch");
}

}  // namespace braid::rt::cuda
