// CUDA graphs: streams that are being captured, what they captured, and its replay.
//
// Work enqueued on a capturing stream becomes a node instead: a function that makes the work of one replay.
// Kernel arguments and addresses are therefore those of the capture. In a replay every captured stream is a
// lane of its own, so that the checker sees the order of the graph, not the order in which its nodes run
// here.
//
// CUDA's prohibitions hold per device, as ranks are threads that stand for processes. A prohibited call
// invalidates the capture, returns CUDA's error, and is a finding.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/emulated/nccl_api.h"
#include "runtime/emulated/stream.h"

// cudaGraphNode_t points to one of these.
struct CUgraphNode_st {
  braid::emulated::WorkKind kind;
  std::string name, label;
  int node = -1;
  size_t lane = 0;                              // of the graph
  std::set<size_t> after;                       // nodes
  bool asynchronous = false;                    // may wait for other ranks
  std::vector<const ncclComm*> communicators;   // of its collectives
  std::function<braid::emulated::Work()> make;  // called by the host thread that launches a replay
};

// cudaGraph_t points to one of these. Nodes come after those that they depend on.
struct CUgraph_st {
  int device = 0;
  std::vector<CUgraphNode_st> nodes;
  std::vector<std::string> lanes;  // the captured streams
};

// cudaGraphExec_t points to one of these. Shared with its replays, which may outlive it.
struct CUgraphExec_st {
  CUgraph_st graph;
  std::vector<std::unique_ptr<braid::emulated::Lane>> lanes;
  std::shared_ptr<braid::emulated::Recording> latest;  // replay: the next one follows it

  explicit CUgraphExec_st(const CUgraph_st& graph);
};

namespace braid::emulated {

// One capture, from cudaStreamBeginCapture to cudaStreamEndCapture.
class Capture {
 public:
  Capture(CUstream_st& origin, cudaStreamCaptureMode mode);

  void add(CUstream_st& stream, CUgraphNode_st node);
  // Returns the nodes that an event recorded now stands for: those after which the stream's next node comes.
  std::set<size_t> frontier(CUstream_st& stream);
  // The stream's next node comes after these; a stream that was not captured is from now on.
  void join(CUstream_st& stream, const std::set<size_t>& nodes);

  // Ends it: no stream is captured any more. Empty, or the node that the origin does not follow.
  std::string end(CUgraph_st* graph);

  // The stream is destroyed.
  void leave(CUstream_st& stream);

  void invalidate();
  bool valid();
  bool ended();

  CUstream_st& origin;
  const cudaStreamCaptureMode mode;
  const std::thread::id thread;

 private:
  std::mutex mutex_;
  bool valid_ = true, ended_ = false;
  CUgraph_st graph_;
  struct Stream {
    size_t lane;
    std::set<size_t> frontier;
  };
  std::map<CUstream_st*, Stream> streams_;
};

// Whether there is a graph, or an executable one, with collectives of the communicator.
bool has_graphs(const ncclComm* communicator);

// Returns cudaSuccess, or the error of a call that must not be made while this device has captures, because
// it waits or allocates. If all captures of this thread and device are relaxed, it may be made.
cudaError_t unsafe_while_capturing(const char* call = __builtin_FUNCTION());
// The same, of a call that uses stream 0 if a blocking stream is being captured.
cudaError_t implicit_while_capturing(const CUstream_st& stream, const char* call = __builtin_FUNCTION());
// The same for a call that needs the stream not to be captured.
cudaError_t not_while_capturing(CUstream_st& stream, const char* call = __builtin_FUNCTION());
// Adds the finding, invalidates the capture if there is one, and returns the error.
cudaError_t capture_error(Capture* capture, cudaError_t error, const std::string& call,
                          const std::string& why);

}  // namespace braid::emulated
