// The part of an instance that is common to all generated CUDA programs. Header only, as it is built with the
// program, by nvcc or for the emulated device.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/cuda_abi.h"
#include "runtime/cuda_gemm.h"
#include "runtime/cuda_plan.h"
#include "runtime/cuda_program.h"
#include "runtime/cuda_weights.h"
#include "runtime/device/gemm_pointers.h"
#include "runtime/device/math.h"
#include "runtime/extern_kernel.h"

// Returns from the step (or any function that returns bool) if a call failed; the message names the current
// ONNX node.
#define BRAID_TRY(call) \
  if (!ok((call), #call)) return false

namespace braid::rt::cuda {

using rt::attribute;
using rt::tensor_view;

template <class T>
T* at(const void* base, int64_t bytes) {
  return reinterpret_cast<T*>(const_cast<char*>(static_cast<const char*>(base)) + bytes);
}

class Instance {
 public:
  // What a generated program describes besides its table.
  struct Layout {
    int events = 0;
    bool collectives = false;
    const char* const* index_sites = nullptr;  // ONNX nodes that check indices
    int index_site_count = 0;
    const bool* symmetric_groups = nullptr;  // per group of the table: peers address the segment directly
    const bool* peer_groups = nullptr;       // per group: its kernels read peers' memory; null: no group's do
    const PlannedBuffer* buffers = nullptr;  // that the steps declare
    int buffer_count = 0;
  };

  Instance(const BraidCudaProgram& table, const Layout& layout) : table_(table), layout_(layout) {}
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;
  virtual ~Instance() { tear_down(); }

  bool set_up(const BraidCudaCreateInfo& info);
  BraidStatus prepare(const int64_t* dims);
  BraidStatus run(const void* const* inputs, void* const* outputs, cudaStream_t stream);
  BraidStatus status();
  BraidStatus synchronize(int64_t timeout_ms);
  const char* last_error() const { return error_.c_str(); }
  BraidStatus error_status() const { return error_status_; }

 protected:
  virtual bool set_up_kernels() { return true; }
  virtual bool check_guards() { return true; }
  virtual void gemm_problems(std::vector<GemmProblem>& problems) { (void)problems; }
  virtual bool step() = 0;

  // ---- for the generated functions
  bool ok(cudaError_t e, const char* call) {
    return e == cudaSuccess || fail(BRAID_LIBRARY_ERROR, std::string(call) + ": " + cudaGetErrorString(e));
  }
  bool ok(ncclResult_t e, const char* call) {
    if (e == ncclInProgress) e = settled();
    return e == ncclSuccess || fail(BRAID_COMM_ERROR, std::string(call) + ": " + ncclGetErrorString(e));
  }
  bool ok(bool good, const char*) const { return good; }
  bool fail(BraidStatus status, const std::string& message) {
    error_status_ = status;
    error_ = node_ == nullptr ? message : "node '" + std::string(node_) + "': " + message;
    return false;
  }
  bool guard(bool holds, const char* text) {
    return holds ||
           fail(BRAID_BAD_SIZE, std::string("the sizes are inconsistent: ") + text + " does not hold");
  }
  // Sets the ONNX node to which the next calls belong.
  void at_node(const char* node) {
    node_ = node;
    BRAID_LABEL(node);
  }

  // The number of blocks for `count` points with `per_block` points each; a grid-stride loop covers the rest.
  unsigned grid_for(int64_t count, int64_t per_block) const {
    const int64_t wanted = (count + per_block - 1) / per_block;
    return static_cast<unsigned>(wanted < max_grid_ ? wanted : max_grid_);
  }
#ifdef BRAID_HAS_PEER_ACCESS
  // The number of blocks of a kernel that reads peers' memory: one per chunk that its threads move at once.
  static unsigned peer_blocks(int64_t bytes) {
    const int64_t wanted = (bytes + 16 * device::kPeerThreads - 1) / (16 * device::kPeerThreads);
    return static_cast<unsigned>(wanted < 1                     ? 1
                                 : wanted < device::kPeerBlocks ? wanted
                                                                : device::kPeerBlocks);
  }
#endif
  // The number of threads for a row of `elements`.
  static unsigned block_for(int64_t elements) {
    const int64_t wanted = (elements + 31) / 32 * 32;
    return static_cast<unsigned>(wanted < 32 ? 32 : wanted > 512 ? 512 : wanted);
  }

  bool compute_waits(int event) {
    return ok(cudaStreamWaitEvent(compute_, events_[static_cast<size_t>(event)], 0), "cudaStreamWaitEvent");
  }
  bool communication_waits(int event) {
    return ok(cudaStreamWaitEvent(communication_, events_[static_cast<size_t>(event)], 0),
              "cudaStreamWaitEvent");
  }
  bool compute_records(int event) {
    return ok(cudaEventRecord(events_[static_cast<size_t>(event)], compute_), "cudaEventRecord");
  }
  bool communication_records(int event) {
    return ok(cudaEventRecord(events_[static_cast<size_t>(event)], communication_), "cudaEventRecord");
  }

  // Runs problem `index` of gemm_problems, as prepared for the current dims.
  bool gemm(int index, const void* a, const void* b, const void* bias, void* d) {
    GemmOperands operands;
    operands.a = a;
    operands.b = b;
    operands.bias = bias;
    operands.d = d;
    operands.workspace = workspace_;
    return run_gemm(index, operands);
  }
  // The same for a problem over arrays of pointers, to matrices in these batch dimensions, outermost first.
  bool gemm(int index, std::initializer_list<GemmBatch> batches, const void* a, const void* b, void* d);

  bool call_extern(BraidExternKernel kernel, std::initializer_list<BraidTensorView> reads,
                   std::initializer_list<BraidTensorView> writes,
                   std::initializer_list<BraidAttribute> attributes) {
    const char* why = rt::call_extern(kernel, reads, writes, attributes, compute_);
    return why == nullptr || fail(BRAID_LIBRARY_ERROR, std::string("the extern kernel failed: ") + why);
  }

  // Whether this rank is in group `index` of the table.
  bool in_group(int index) const { return groups_[static_cast<size_t>(index)] != nullptr; }
  bool transfers(int index, int peer) const {
    return in_group(index) && positions_[static_cast<size_t>(index)] != peer;
  }
  ncclComm_t group(int index) const { return groups_[static_cast<size_t>(index)]; }
#ifdef BRAID_HAS_PEER_ACCESS
  // The peers in a group of this rank, for kernels of runtime/device/peer_collectives.h.
  device::PeerGroup peers(int index) const {
    const int ranks = table_.groups[index].size;
    const uint64_t before = static_cast<uint64_t>(index) * device::peer_flag_bytes(table_.ranks);
    return {windows_[static_cast<size_t>(index)], flags_offset_ + before, abandoned_,
            positions_[static_cast<size_t>(index)], ranks};
  }
#endif
  int* error_flag() const { return device_flag_; }
  const int64_t* dims() const { return current_->dims.data(); }

  cudaStream_t compute_ = nullptr, communication_ = nullptr;
  char* arena_ = nullptr;
  char* segment_ = nullptr;
  char* weights_ = nullptr;
  char* rank_weights_ = nullptr;
  const void* const* inputs_ = nullptr;  // during a step
  void* const* outputs_ = nullptr;
  PlannedMemory plan_;

 private:
  struct Prepared {
    std::vector<int64_t> dims;
    std::vector<GemmProblem> problems;
    std::vector<std::shared_ptr<const Gemm>> gemms;
    std::vector<bool> empty;  // per input, then per output: has no elements
    uint64_t used = 0;        // count of prepare() at the last use
  };
  static constexpr size_t kMostPrepared = 1024;

  bool check_device();
  bool check_memory(const char* what, const BraidTensorInfo& tensor, bool empty, const void* pointer,
                    const void** known);
  bool no_memory(const char* what, uint64_t bytes);
  // The result of a call that a communicator with blocking = 0 has begun; ncclInProgress: a rank is missing.
  ncclResult_t settled();
  bool make_streams();
  bool upload(const BraidCudaCreateInfo& info, bool of_rank);
  bool make_groups(ncclComm_t world);
  bool make_segment();
  bool check_peers();
  bool prepare_gemms(Prepared& prepared);
  bool run_gemm(int index, const GemmOperands& operands);
  void forget_oldest();
  bool enqueue(cudaStream_t stream);
  bool healthy();
  void tear_down();

  const BraidCudaProgram& table_;
  const Layout layout_;
  int device_ = 0, rank_ = 0;
  int64_t max_grid_ = 1;
  std::vector<cudaEvent_t> events_;
  cudaEvent_t fork_ = nullptr, join_ = nullptr, caller_ = nullptr;
  ncclComm_t world_ = nullptr;
  int (*missing_)(void* user, char* text, uint64_t bytes) = nullptr;
  void* missing_user_ = nullptr;
  std::vector<ncclComm_t> groups_;  // null: this rank is not in the group
  std::vector<int> positions_;      // rank within the group, or -1
  std::vector<bool> owned_groups_;
  struct Registration {
    ncclComm_t comm;
    void* handle;
    ncclWindow_t window;
  };
  std::vector<Registration> registrations_;
  std::vector<ncclWindow_t> windows_;  // per group; null: none
  uint64_t flags_offset_ = 0;          // in the segment, after the plan's bytes: flags of peer kernels
  int* abandoned_ = nullptr;           // pinned; 1: kernels that wait for peers must end
  std::vector<std::shared_ptr<DeviceWeights>> shared_weights_;  // what weights_ and rank_weights_ point to
  void* workspace_ = nullptr;
  size_t workspace_bytes_ = 0;
  std::vector<void*> old_workspaces_;
  int* device_flag_ = nullptr;  // INT_MAX - site of the first index check that failed; 0: none
  int* host_flag_ = nullptr;    // pinned, copied at the end of every step
  std::map<std::vector<int64_t>, std::unique_ptr<Prepared>> prepared_;  // by dims, the latest kMostPrepared
  std::map<GemmProblem, std::weak_ptr<const Gemm>> gemms_;              // those of prepared_
  Prepared* current_ = nullptr;
  uint64_t prepare_count_ = 0;
  std::vector<const void*> known_memory_;  // per input, then per output: the pointer last found right
  const char* node_ = nullptr;
  bool broken_ = false;   // a step failed midway, or its data is wrong
  bool overdue_ = false;  // a step exceeded the caller's time-out
  BraidStatus error_status_ = BRAID_OK;
  std::string error_;
};

}  // namespace braid::rt::cuda

#include "runtime/cuda_instance.inc"
