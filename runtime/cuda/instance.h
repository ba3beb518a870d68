// The base of a generated program's class, which declares the functions that its step may call. The rest of
// an instance is its core (core.h).
#pragma once

#include <cstdint>
#include <initializer_list>

#include "runtime/cuda/api.h"
#include "runtime/cuda/try.h"
#include "runtime/cuda_abi.h"
#include "runtime/cuda_gemm_problem.h"
#include "runtime/cuda_plan.h"
#include "runtime/device/peer_group.h"
#include "runtime/extern_kernel.h"

namespace braid::rt::cuda {

class InstanceCore;

class Instance {
 public:
  // The parts of a generated program's description that its table does not have.
  struct Layout {
    int oldest_architecture = 0;
    int events = 0;
    bool collectives = false;
    int products = 0;
    const char* const* index_sites = nullptr;  // ONNX nodes that check indices
    int index_site_count = 0;
    const bool* symmetric_groups = nullptr;  // per group of the table: peers address the segment directly
    const bool* peer_groups = nullptr;       // per group: its kernels read peers' memory; null: no group's do
    const PlannedBuffer* buffers = nullptr;  // that the steps declare
    int buffer_count = 0;
  };

  Instance(const BraidCudaProgram& table, const Layout& layout);
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;
  virtual ~Instance();

  InstanceCore& core() { return *core_; }
  const InstanceCore& core() const { return *core_; }

 protected:
  virtual bool set_up_kernels() { return true; }
  // Fills in Layout::products of them, for the current dims.
  virtual void products(BatchedGemm* products) { (void)products; }
  // Bytes for the current dims, in addition to those of products.
  virtual int64_t workspace_bytes() { return 0; }
  virtual bool step() = 0;

  // ---- for the generated functions
  bool ok(cudaError_t e, const char* call) { return e == cudaSuccess || failed(e, call); }
  bool ok(ncclResult_t e, const char* call) { return e == ncclSuccess || failed(e, call); }
  bool ok(bool good, const char*) const { return good; }
  // Sets the ONNX node to which the next calls belong.
  void at_node(const char* node);

  // The number of blocks for `count` points with `per_block` points each; a grid-stride loop covers the rest.
  unsigned grid_for(int64_t count, int64_t per_block) const {
    const int64_t wanted = (count + per_block - 1) / per_block;
    return static_cast<unsigned>(wanted < max_grid_ ? wanted : max_grid_);
  }
  // Whether so many blocks give all of the device's processors work.
  bool occupies_device(int64_t blocks) const { return 2 * blocks >= most_spilling_; }
  // The number of blocks of a kernel that reads peers' memory: one per chunk that its threads move at once.
  static unsigned peer_blocks(int64_t bytes) {
    const int64_t wanted = (bytes + 16 * device::kPeerThreads - 1) / (16 * device::kPeerThreads);
    return static_cast<unsigned>(wanted < 1                     ? 1
                                 : wanted < device::kPeerBlocks ? wanted
                                                                : device::kPeerBlocks);
  }
  // The number of threads for a row of `elements`.
  static unsigned block_for(int64_t elements) {
    const int64_t wanted = (elements + 31) / 32 * 32;
    return static_cast<unsigned>(wanted < 32 ? 32 : wanted > 512 ? 512 : wanted);
  }

  // Collectives that `calls` puts on communication_, as one group of NCCL's.
  template <class Calls>
  bool collective(Calls calls) {
    const Collective begun = begin_collective();
    return begun == Collective::kToBeCalled ? end_collective(calls()) : begun == Collective::kDone;
  }

  // Comes before one that is a kernel of our own.
  void comes_to_collective();

  // For a kernel that spills: whether its rows fit into a block's shared memory, otherwise how many blocks to
  // launch.
  bool fits_shared(int64_t bytes) const { return bytes <= most_shared_; }
  unsigned spill_blocks(int64_t count) const {
    return static_cast<unsigned>(count < most_spilling_ ? count : most_spilling_);
  }
  unsigned char* spilled() const { return static_cast<unsigned char*>(workspace_); }
  // The rows of a kernel; spilled_bytes returns the memory for those that do not fit.
  struct Rows {
    int64_t count, bytes;
  };
  int64_t spilled_bytes(std::initializer_list<Rows> kernels) const;
  int most_shared(int64_t bytes) const {
    return static_cast<int>(bytes < most_shared_ ? bytes : most_shared_);
  }

  bool compute_waits(int event);
  bool communication_waits(int event);
  bool compute_records(int event);
  bool communication_records(int event);

  // Runs product `index` of `products`, as prepared for the current dims. The operands are their first
  // matrices, or null if the product has no such operand. `residual` is added to the sums and has the layout
  // of D.
  bool gemm(int index, const void* a, const void* b, const void* bias, const void* residual, void* d);

  bool call_extern(BraidExternKernel kernel, std::initializer_list<BraidTensorView> reads,
                   std::initializer_list<BraidTensorView> writes,
                   std::initializer_list<BraidAttribute> attributes);

  int rank() const;
  // Whether this rank is in group `index` of the table.
  bool in_group(int index) const { return group(index) != nullptr; }
  // The same, and is not member `peer`.
  bool transfers(int index, int peer) const;
  ncclComm_t group(int index) const;
  // The peers in a group of this rank, for kernels of runtime/device/peer_collectives.h.
  device::PeerGroup peers(int index) const;
  int* error_flag() const { return error_flag_; }
  const int64_t* dims() const { return dims_; }

  // Set by the core.
  cudaStream_t compute_ = nullptr, communication_ = nullptr;
  char* arena_ = nullptr;
  char* segment_ = nullptr;
  char* weights_ = nullptr;
  char* rank_weights_ = nullptr;
  int* error_flag_ = nullptr;  // INT_MAX - site of the first index check that failed; 0: none
  int64_t max_grid_ = 1;
  int64_t most_spilling_ = 1;  // blocks: two per processor
  int64_t most_shared_ = 0;    // bytes of rows, per block
  const int64_t* dims_ = nullptr;
  void* workspace_ = nullptr;
  const void* const* inputs_ = nullptr;  // during a step
  void* const* outputs_ = nullptr;
  PlannedMemory plan_;

 private:
  friend class InstanceCore;
  enum class Collective { kToBeCalled, kDone, kFailed };
  Collective begin_collective();
  bool end_collective(bool good);
  bool failed(cudaError_t e, const char* call);
  bool failed(ncclResult_t e, const char* call);

  InstanceCore* const core_;
};

BraidStatus create_instance(const BraidCudaCreateInfo* info, BraidCudaInstance** out, Instance* (*make)());

// Sets all functions but `create`.
void set_functions(BraidCudaProgram& table);

}  // namespace braid::rt::cuda
