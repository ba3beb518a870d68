// The communicators of a program's groups.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/cuda/failure.h"

namespace braid::rt::cuda {

class Groups : private Reporter {
 public:
  Groups(const BraidCudaProgram& table, Failure& failure) : Reporter(failure), table_(table) {}

  // The caller's communicator, of all ranks.
  bool join(ncclComm_t world);
  // Whether all ranks are `good`; the lowest one that is not is named where it is another. Collective, over `host`, which
  // is pinned, and `device`.
  bool all_agree(bool good, int* host, int* device, cudaStream_t stream);
  // One communicator per group: the caller's if the group is all ranks in order, otherwise a split of it. Collective.
  bool make();
  void destroy();

  // False once one of them has failed.
  bool healthy();
  // No collective waits any longer, on any rank. The caller's communicator is of no more use either.
  void revoke();

  bool joined() const { return world_ != nullptr; }
  int rank() const { return rank_; }  // 0 before join
  int count() const { return static_cast<int>(comms_.size()); }
  ncclComm_t comm(int group) const { return comms_[static_cast<size_t>(group)]; }   // null: not a member
  int position(int group) const { return positions_[static_cast<size_t>(group)]; }  // in the group, or -1

 private:
  const BraidCudaProgram& table_;
  ncclComm_t world_ = nullptr;
  int rank_ = 0;
  std::vector<ncclComm_t> comms_;
  std::vector<int> positions_;
  std::vector<bool> owned_;
};

}  // namespace braid::rt::cuda
