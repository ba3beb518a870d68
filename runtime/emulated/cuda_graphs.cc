// Capture, instantiation, update and replay of graphs, under CUDA's names.
#include <algorithm>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "runtime/emulated/graph.h"
#include "runtime/emulated/graph_counts.h"
#include "runtime/emulated/host_thread.h"
#include "runtime/emulated/leaks.h"
#include "runtime/emulated/options.h"
#include "runtime/emulated/step_scope.h"

using namespace braid::emulated;

namespace {

struct Graphs {
  std::mutex mutex;
  std::set<CUgraph_st*> graphs;
  std::map<CUgraphExec_st*, std::shared_ptr<CUgraphExec_st>> executables;
  GraphCounts counts;
};

Graphs& graphs() {
  static Graphs* instance = new Graphs;
  return *instance;
}

// Device memory that an executable graph takes per node, approximately.
constexpr size_t kNodeBytes = 1024;

bool is_graph(CUgraph_st* graph) {
  std::lock_guard lock(graphs().mutex);
  return graphs().graphs.count(graph) != 0;
}

std::shared_ptr<CUgraphExec_st> executable(CUgraphExec_st* handle) {
  std::lock_guard lock(graphs().mutex);
  const auto it = graphs().executables.find(handle);
  return it == graphs().executables.end() ? nullptr : it->second;
}

bool uses(const CUgraph_st& graph, const ncclComm* communicator) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const CUgraphNode_st& node) {
    return std::count(node.communicators.begin(), node.communicators.end(), communicator) > 0;
  });
}

// Runs the nodes one after the other, each in its lane and after those on which it depends.
bool replay(CUgraphExec_st& executable, const std::vector<CUgraphNode_st>& nodes, std::vector<Work>& works,
            TaskContext& context) {
  std::vector<VectorClock> done(nodes.size());
  bool good = true;
  for (size_t i = 0; i < nodes.size(); ++i) {
    done[i] = context.clock;
    for (const size_t before : nodes[i].after) done[i].join(done[before]);
    if (good) {
      TaskContext own{context.stream,   *executable.lanes[nodes[i].lane],
                      context.accesses, done[i],
                      nodes[i].label,   nodes[i].node};
      good = works[i].task(own);
    } else if (works[i].if_failed) {
      works[i].if_failed();
    }
  }
  for (const VectorClock& each : done) context.clock.join(each);
  return good;
}

// The first difference that an executable graph cannot take over.
cudaGraphExecUpdateResultInfo compare(CUgraph_st& present, CUgraph_st& updated) {
  if (present.nodes.size() != updated.nodes.size())
    return {cudaGraphExecUpdateErrorTopologyChanged, nullptr, nullptr};
  for (size_t i = 0; i < present.nodes.size(); ++i) {
    CUgraphNode_st &a = present.nodes[i], &b = updated.nodes[i];
    if (a.kind != b.kind) return {cudaGraphExecUpdateErrorNodeTypeChanged, &b, &a};
    if (a.after != b.after) return {cudaGraphExecUpdateErrorTopologyChanged, &b, &a};
  }
  return {cudaGraphExecUpdateSuccess, nullptr, nullptr};
}

}  // namespace

bool braid::emulated::has_graphs(const ncclComm* communicator) {
  std::lock_guard lock(graphs().mutex);
  for (const CUgraph_st* graph : graphs().graphs)
    if (uses(*graph, communicator)) return true;
  for (const auto& [handle, executable] : graphs().executables)
    if (uses(executable->graph, communicator)) return true;
  return false;
}

GraphCounts braid::emulated::graph_counts() {
  std::lock_guard lock(graphs().mutex);
  GraphCounts counts = graphs().counts;
  counts.live = static_cast<int>(graphs().executables.size());
  return counts;
}

int braid::emulated::live_graphs() {
  std::lock_guard lock(graphs().mutex);
  return static_cast<int>(graphs().executables.size());
}

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  CUstream_st* stream = find_stream(handle);
  if (stream == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (sticky_error() != cudaSuccess) return result(sticky_error());
  if (stream->ordinal < 0)
    return capture_error(nullptr, cudaErrorStreamCaptureUnsupported, __func__, "stream 0 cannot be captured");
  if (stream->capture() != nullptr)
    return capture_error(stream->capture().get(), cudaErrorIllegalState, __func__,
                         "the stream is already captured");
  auto capture = std::make_shared<Capture>(*stream, mode);
  capture->join(*stream, {});
  stream->set_capture(std::move(capture));
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* out) {
  CUstream_st* stream = find_stream(handle);
  if (stream == nullptr || out == nullptr) return result(cudaErrorInvalidResourceHandle);
  *out = nullptr;
  const std::shared_ptr<Capture> capture = stream->capture();
  if (capture == nullptr)
    return capture_error(nullptr, cudaErrorIllegalState, __func__, "the stream is not captured");
  if (stream != &capture->origin)
    return capture_error(capture.get(), cudaErrorStreamCaptureUnmatched, __func__,
                         "the capture began on stream " + std::to_string(capture->origin.ordinal));
  if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id())
    return capture_error(capture.get(), cudaErrorStreamCaptureWrongThread, __func__,
                         "the capture began on another thread");
  auto graph = std::make_unique<CUgraph_st>();
  const std::string left = capture->end(graph.get());
  // The reason why it is invalid has been reported.
  if (!capture->valid()) return result(cudaErrorStreamCaptureInvalidated);
  if (!left.empty())
    return capture_error(capture.get(), cudaErrorStreamCaptureUnjoined, __func__,
                         "stream " + std::to_string(stream->ordinal) + " does not wait for " + left);
  std::lock_guard lock(graphs().mutex);
  graphs().graphs.insert(*out = graph.release());
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  CUstream_st* stream = find_stream(handle);
  if (stream == nullptr || status == nullptr) return result(cudaErrorInvalidResourceHandle);
  const std::shared_ptr<Capture> capture = stream->capture();
  *status = capture == nullptr ? cudaStreamCaptureStatusNone
            : capture->valid() ? cudaStreamCaptureStatusActive
                               : cudaStreamCaptureStatusInvalidated;
  return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  if (mode == nullptr) return result(cudaErrorInvalidValue);
  std::swap(*mode, host_thread().capture_mode);
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  if (!is_graph(graph) || count == nullptr) return result(cudaErrorInvalidValue);
  const size_t all = graph->nodes.size();
  for (size_t i = 0; nodes != nullptr && i < *count; ++i) nodes[i] = i < all ? &graph->nodes[i] : nullptr;
  *count = nodes == nullptr ? all : std::min(*count, all);
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long) {
  not_within_step();  // it allocates
  if (out == nullptr || !is_graph(graph)) return result(cudaErrorInvalidValue);
  if (sticky_error() != cudaSuccess) return result(sticky_error());
  if (device_memory().used_bytes(graph->device) + kNodeBytes * graph->nodes.size() > options().device_bytes)
    return result(cudaErrorMemoryAllocation);
  auto executable = std::make_shared<CUgraphExec_st>(*graph);
  *out = executable.get();
  std::lock_guard lock(graphs().mutex);
  graphs().executables[*out] = std::move(executable);
  ++graphs().counts.instantiated;
  return cudaSuccess;
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t handle, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo* info) {
  const auto present = executable(handle);
  if (present == nullptr || !is_graph(graph) || info == nullptr) return result(cudaErrorInvalidValue);
  *info = compare(present->graph, *graph);
  if (info->result != cudaGraphExecUpdateSuccess) return result(cudaErrorGraphExecUpdateFailure);
  // Lanes stay: the captured streams are the same but for their handles.
  for (size_t i = 0; i < graph->nodes.size(); ++i) {
    const size_t lane = present->graph.nodes[i].lane;
    present->graph.nodes[i] = graph->nodes[i];
    present->graph.nodes[i].lane = lane;
  }
  std::lock_guard lock(graphs().mutex);
  ++graphs().counts.updated;
  return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t handle, cudaStream_t stream) {
  if (executable(handle) == nullptr) return result(cudaErrorInvalidValue);
  return find_stream(stream) == nullptr ? result(cudaErrorInvalidResourceHandle) : cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t handle, cudaStream_t stream_handle) {
  const auto launched = executable(handle);
  if (launched == nullptr) {
    finding_list().add(FindingKind::kGraph, "cudaGraphLaunch on rank " +
                                                std::to_string(host_thread().device) +
                                                " of a graph that does not exist, or no more");
    return result(cudaErrorInvalidValue);
  }
  CUstream_st* stream = find_stream(stream_handle);
  if (stream == nullptr || stream->device.index != launched->graph.device)
    return result(cudaErrorInvalidResourceHandle);
  if (sticky_error() != cudaSuccess) return result(sticky_error());
  if (stream->capture() != nullptr)
    return capture_error(stream->capture().get(), cudaErrorStreamCaptureUnsupported, __func__,
                         "the emulated device has no graphs within graphs");
  stream->must_be_launched(__func__);
  std::vector<Work> works;
  bool asynchronous = false;
  for (const CUgraphNode_st& node : launched->graph.nodes) {
    works.push_back(node.make());
    asynchronous = asynchronous || node.asynchronous;
  }
  if (launched->latest != nullptr) stream->wait_for(launched->latest);
  const auto all = std::make_shared<std::vector<Work>>(std::move(works));
  stream->enqueue({WorkKind::kGraph, __func__,
                   [launched, nodes = launched->graph.nodes, all](TaskContext& context) {
                     return replay(*launched, nodes, *all, context);
                   },
                   [all] {
                     for (Work& work : *all)
                       if (work.if_failed) work.if_failed();
                   },
                   asynchronous});
  launched->latest = stream->record();
  std::lock_guard lock(graphs().mutex);
  ++graphs().counts.launched;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t handle) {
  not_within_step();
  std::shared_ptr<CUgraphExec_st> last;  // let go of without the lock
  std::lock_guard lock(graphs().mutex);
  const auto it = graphs().executables.find(handle);
  if (it == graphs().executables.end()) return result(cudaErrorInvalidValue);
  last = std::move(it->second);
  graphs().executables.erase(it);
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  {
    std::lock_guard lock(graphs().mutex);
    if (graphs().graphs.erase(graph) == 0) return result(cudaErrorInvalidValue);
  }
  delete graph;
  return cudaSuccess;
}

}  // extern "C"
