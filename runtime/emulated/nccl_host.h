// Calls in which ranks meet on the host, and NCCL's groups, which defer calls to their end.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/emulated/nccl_comm.h"

namespace braid::emulated {

// Run by the last rank to arrive, with the group's mutex held: fills `outcome` and `result` from `payload`.
using CompleteMeeting = std::function<void(CommGroup&, CommGroup::HostMeeting&)>;

// A rank's part of a meeting on the host: `arrive` never blocks, `wait` does.
class HostCall {
 public:
  HostCall(std::shared_ptr<CommGroup> group, int rank, uint64_t number, std::string what,
           std::vector<int64_t> payload, CompleteMeeting complete, std::function<void(void*)> deliver);
  void arrive();
  ncclResult_t wait();

 private:
  std::shared_ptr<CommGroup> group_;
  int rank_;
  uint64_t number_;
  std::string what_;
  std::vector<int64_t> payload_;
  CompleteMeeting complete_;
  std::function<void(void*)> deliver_;  // gets this rank's outcome
  std::shared_ptr<CommGroup::HostMeeting> meeting_;
};

// Deferred to the end within ncclGroupStart/End, otherwise executed at once.
ncclResult_t submit(HostCall call);
ncclResult_t submit(ncclComm* comm, const CollectiveCall& call, uint64_t number, CUstream_st* stream);
ncclResult_t group_start();
ncclResult_t group_end();
// Returns `result`; within a group, ncclGroupEnd returns it as well.
ncclResult_t refuse(ncclComm* comm, ncclResult_t result, std::string text);

}  // namespace braid::emulated
