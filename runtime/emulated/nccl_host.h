// Calls in which ranks meet on the host, and NCCL's groups, which put calls off to their end.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/emulated/nccl_comm.h"

namespace braid::emulated {

// Run by the last rank to come, with the group's mutex held: fills `outcome` and `result` from `payload`.
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

// Within ncclGroupStart/End: kept for the end. Outside: done at once.
ncclResult_t submit(HostCall call);
ncclResult_t submit(ncclComm* comm, const CollectiveCall& call, uint64_t number, CUstream_st* stream);
ncclResult_t group_start();
ncclResult_t group_end();
// Outside a group: the result itself. Inside, it is remembered for ncclGroupEnd as well.
ncclResult_t refuse(ncclComm* comm, ncclResult_t result, std::string text);

}  // namespace braid::emulated
