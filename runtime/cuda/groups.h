// The communicators of a program's groups.
//
// They are splits of the caller's communicator that share nothing with it (ncclConfig_t::splitShare = 0, NCCL
// 2.18). So they can be given up without harm to the caller's, which is not used after `join`. Their calls do
// not block (`blocking` = 0): the code that makes a call waits for its end, at most for the time-out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/cuda/failure.h"
#include "runtime/cuda/other_ranks.h"

namespace braid::rt::cuda {

class Groups : private Reporter {
 public:
  Groups(const BraidCudaProgram& table, const OtherRanks& others, Failure& failure)
      : Reporter(failure), table_(table), others_(others) {}
  ~Groups();

  // Splits a communicator of all ranks off the caller's, which is not used again. Collective; waits for all
  // ranks without a time-out if the caller's communicator blocks.
  bool join(ncclComm_t world, int64_t timeout_ms);
  // Returns whether all ranks are `good`; the error names the lowest rank that is not, if it is another one.
  // Collective, over `host`, which is pinned, and `device`. After the time-out it keeps waiting for late
  // ranks as long as the caller knows that none is missing.
  bool all_agree(bool good, int* host, int* device, cudaStream_t stream);
  // Makes one communicator per group: that of all ranks in order, or a split of it, with a color for each
  // part. Collective.
  bool make();
  // Waits for the end of an NCCL call on these communicators that returned `result`. Returns whether it
  // succeeded.
  bool done(ncclResult_t result, const char* call);
  // False once one of them has failed.
  bool healthy();
  // Ends the communicators, and aborts those that are not done after the time-out.
  void destroy(int64_t timeout_ms);
  // Ends them at once: this rank's collectives stop waiting, and peers do not notice. No graph may contain
  // their collectives.
  void abort();

  bool joined() const { return joined_; }
  int rank() const { return rank_; }  // 0 before join
  int count() const { return static_cast<int>(comms_.size()); }
  // The communicator of, and the position in, this rank's part of the group: null and -1 if it is in none.
  ncclComm_t comm(int group) const { return comms_[static_cast<size_t>(group)]; }
  int position(int group) const { return positions_[static_cast<size_t>(group)]; }

 private:
  bool split(ncclComm_t parent, int color, int key, ncclComm_t* out);
  bool wait_for_all(cudaStream_t stream);
  bool wait_for(ncclComm_t comm, const char* call, int64_t timeout_ms);
  std::optional<bool> settled(ncclComm_t comm, const char* call);

  const BraidCudaProgram& table_;
  const OtherRanks& others_;
  int64_t timeout_ms_ = -1;
  bool joined_ = false;
  int rank_ = 0;
  ncclComm_t all_ = nullptr;
  std::vector<ncclComm_t> comms_;  // per group; groups of all ranks in order have the same one
  std::vector<int> positions_;
  // Each communicator once; null: not made. When a split that did not wait is done, NCCL writes to the last
  // place, even after this object has ended: then the places stay.
  std::unique_ptr<std::deque<ncclComm_t>> own_ = std::make_unique<std::deque<ncclComm_t>>();
  bool splits_caller_ = false;
};

}  // namespace braid::rt::cuda
