// The communication segment: allocated once, registered once with each communicator, never moved.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <vector>

#include "runtime/cuda/groups.h"
#include "runtime/cuda/instance.h"

namespace braid::rt::cuda {

class Segment : private Reporter {
 public:
  Segment(const BraidCudaProgram& table, const Instance::Layout& layout, Failure& failure)
      : Reporter(failure), table_(table), layout_(layout) {}

  bool allocate(cudaStream_t stream);
  // Collective. Uses the stream and waits for it.
  bool register_with(Groups& groups, cudaStream_t stream);
  // Kernels that wait for peers end. They do not notice by themselves that a peer is lost.
  void abandon();
  void deregister(Groups& groups);
  void release();

  char* memory() const { return memory_; }
  const int* abandoned() const { return abandoned_; }
  device::PeerGroup peers(const Groups& groups, int group) const;

 private:
  struct Registration {
    ncclComm_t comm;
    void* handle;
    ncclWindow_t window;
  };
  bool check_peers(const Groups& groups);
  bool find_peers(const Groups& groups, cudaStream_t stream);

  const BraidCudaProgram& table_;
  const Instance::Layout& layout_;
  char* memory_ = nullptr;
  size_t bytes_ = 0;
  uint64_t flags_offset_ = 0;  // after the plan's bytes: flags of kernels that read peers' memory
  int* abandoned_ = nullptr;   // pinned; 1: kernels that wait for peers must end
  std::deque<Registration> registrations_;
  std::vector<ncclWindow_t> windows_;  // per group; null: none that kernels can read
  std::vector<std::array<char*, device::kMostPeers>>
      peers_;  // per group whose kernels read peers' memory: their segments
};

}  // namespace braid::rt::cuda
