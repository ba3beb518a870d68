#include "runtime/emulated/graph.h"

#include <algorithm>
#include <utility>

#include "runtime/emulated/host_thread.h"

namespace braid::emulated {
namespace {

// Captures that have not ended.
struct Captures {
  std::mutex mutex;
  std::vector<Capture*> active;
};

Captures& captures() {
  static Captures* instance = new Captures;
  return *instance;
}

}  // namespace

Capture::Capture(CUstream_st& origin, cudaStreamCaptureMode mode)
    : origin(origin), mode(mode), thread(std::this_thread::get_id()) {
  graph_.device = origin.device.index;
  std::lock_guard lock(captures().mutex);
  captures().active.push_back(this);
}

void Capture::add(CUstream_st& stream, CUgraphNode_st node) {
  std::lock_guard lock(mutex_);
  Stream& at = streams_.at(&stream);
  node.lane = at.lane;
  node.after = std::exchange(at.frontier, {graph_.nodes.size()});
  graph_.nodes.push_back(std::move(node));
}

std::set<size_t> Capture::frontier(CUstream_st& stream) {
  std::lock_guard lock(mutex_);
  return streams_.at(&stream).frontier;
}

void Capture::join(CUstream_st& stream, const std::set<size_t>& nodes) {
  std::lock_guard lock(mutex_);
  const auto [at, fresh] = streams_.try_emplace(&stream, Stream{graph_.lanes.size(), {}});
  if (fresh) graph_.lanes.push_back(stream.lane.text);
  at->second.frontier.insert(nodes.begin(), nodes.end());
}

std::string Capture::end(CUgraph_st* graph) {
  {
    std::lock_guard lock(captures().mutex);
    auto& active = captures().active;
    active.erase(std::find(active.begin(), active.end(), this));
  }
  std::lock_guard lock(mutex_);
  ended_ = true;
  for (auto& [stream, unused] : streams_) stream->set_capture(nullptr);
  std::vector<bool> joined(graph_.nodes.size());
  for (const size_t node : streams_.at(&origin).frontier) joined[node] = true;
  std::string left;
  for (size_t i = graph_.nodes.size(); i-- > 0;) {
    const CUgraphNode_st& node = graph_.nodes[i];
    if (joined[i])
      for (const size_t before : node.after) joined[before] = true;
    else if (left.empty())
      left =
          node.name + (node.label.empty() ? "" : " [" + node.label + "]") + " on " + graph_.lanes[node.lane];
  }
  *graph = std::move(graph_);
  return left;
}

void Capture::leave(CUstream_st& stream) {
  if (&stream == &origin && !ended()) {
    CUgraph_st nobodys;
    end(&nobodys);
  }
  std::lock_guard lock(mutex_);
  streams_.erase(&stream);
}

void Capture::invalidate() {
  std::lock_guard lock(mutex_);
  valid_ = false;
}

bool Capture::ended() {
  std::lock_guard lock(mutex_);
  return ended_;
}

bool Capture::valid() {
  std::lock_guard lock(mutex_);
  return valid_;
}

cudaError_t capture_error(Capture* capture, cudaError_t error, const std::string& call,
                          const std::string& why) {
  if (capture != nullptr) capture->invalidate();
  const HostThread& host = host_thread();
  finding_list().add(FindingKind::kGraph, call + (host.label.empty() ? "" : " [" + host.label + "]") +
                                              " on rank " + std::to_string(host.device) + ": " + why);
  return result(error, call.c_str());
}

cudaError_t unsafe_while_capturing(const char* call) {
  const HostThread& host = host_thread();
  if (host.capture_mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  Capture* conflict = nullptr;
  {
    std::lock_guard lock(captures().mutex);
    for (Capture* each : captures().active) {
      if (each->origin.device.index != host.device || each->mode == cudaStreamCaptureModeRelaxed) continue;
      const bool global =
          each->mode == cudaStreamCaptureModeGlobal && host.capture_mode == cudaStreamCaptureModeGlobal;
      if (global || each->thread == std::this_thread::get_id()) conflict = each;
    }
  }
  if (conflict == nullptr) return cudaSuccess;
  return capture_error(conflict, cudaErrorStreamCaptureUnsupported, call, "not while a stream is captured");
}

cudaError_t implicit_while_capturing(const CUstream_st& stream, const char* call) {
  if (stream.ordinal >= 0) return cudaSuccess;
  Capture* conflict = nullptr;
  {
    std::lock_guard lock(captures().mutex);
    for (Capture* each : captures().active)
      if (&each->origin.device == &stream.device && (each->origin.flags & cudaStreamNonBlocking) == 0)
        conflict = each;
  }
  if (conflict == nullptr) return cudaSuccess;
  return capture_error(conflict, cudaErrorStreamCaptureImplicit, call,
                       "stream 0 would have to wait for a stream that is captured");
}

cudaError_t not_while_capturing(CUstream_st& stream, const char* call) {
  const std::shared_ptr<Capture> capture = stream.capture();
  if (capture == nullptr) return implicit_while_capturing(stream, call);
  return capture_error(capture.get(), cudaErrorStreamCaptureUnsupported, call,
                       "stream " + std::to_string(stream.ordinal) + " is captured");
}

}  // namespace braid::emulated

using namespace braid::emulated;

CUgraphExec_st::CUgraphExec_st(const CUgraph_st& graph) : graph(graph) {
  for (const std::string& text : graph.lanes) lanes.push_back(std::make_unique<Lane>(text + " of a graph"));
}
