// Calls in which ranks meet on the host, and NCCL's groups, which defer calls to their end.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/emulated/nccl_comm.h"
#include "runtime/emulated/nccl_remote.h"

namespace braid::emulated {

// Runs in each process when the last rank has arrived, with the group's mutex held: fills `outcome`, for the
// ranks of this process, and `result` from `payload`.
using CompleteMeeting = std::function<void(CommGroup&, CommGroup::HostMeeting&)>;

// A rank's part of a meeting on the host: `arrive` never blocks, `wait` does.
//
// If blocking, it returns an error when the time-out is over, because the program has no communicator to
// abort yet; NCCL waits without end. With blocking = 0 the call stays under way until the communicator is
// aborted.
class HostCall {
 public:
  HostCall(std::shared_ptr<CommGroup> group, int rank, uint64_t number, std::string what,
           std::vector<int64_t> payload, CompleteMeeting complete, std::function<void(void*)> deliver);
  void arrive();
  ncclResult_t wait();
  // Whether `wait` would not wait. Reports the missing ranks when the time-out is over.
  bool over();

 private:
  // All are here, or cannot be any more. With the group's mutex held.
  bool decided() const;
  void report_missing();

  std::shared_ptr<CommGroup> group_;
  int rank_;
  uint64_t number_;
  std::string what_;
  std::vector<int64_t> payload_;
  CompleteMeeting complete_;
  Told told_;
  std::function<void(void*)> deliver_;  // gets this rank's outcome
  std::shared_ptr<CommGroup::HostMeeting> meeting_;
  std::chrono::steady_clock::time_point deadline_;
};

// Defers the call to the end within ncclGroupStart/End, otherwise executes it at once. If the communicator is
// not blocking, the call is under way afterwards.
ncclResult_t submit(ncclComm* comm, HostCall call);
ncclResult_t submit(ncclComm* comm, const CollectiveCall& call, CUstream_st* stream);
ncclResult_t group_start();
bool in_nccl_group();  // of this host thread
ncclResult_t group_end();
// The communicator's asynchronous error: makes progress with what is under way.
ncclResult_t look(ncclComm& comm);
// ncclSuccess, or why `call` may not be made now: with communicators that are busy or gone it is a finding.
ncclResult_t ensure_ready(ncclComm* comm, const std::string& call);
// Waits until all collectives of this rank have ended on their streams.
void await_collectives(ncclComm& comm);
// Returns `result`; within a group, ncclGroupEnd returns it as well and launches nothing.
ncclResult_t fail_group(ncclResult_t result);
// The same, with a finding.
ncclResult_t refuse(ncclComm* comm, ncclResult_t result, std::string text);

}  // namespace braid::emulated
