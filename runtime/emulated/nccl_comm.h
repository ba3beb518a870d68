// Communicators of the emulated NCCL and how ranks meet in them.
//
// Ranks are threads, of one process or of several. For collectives and sends they meet on the streams,
// matched by each rank's call number in the communicator; for blocking calls (creation, split, registration)
// they meet on the host. Each process has a group of its own, in which ranks of other processes arrive by
// message (nccl_remote.h).
#pragma once

#include <array>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/comm/collective_kinds.h"
#include "runtime/emulated/checker.h"
#include "runtime/emulated/device_memory.h"
#include "runtime/emulated/nccl_api.h"
#include "runtime/emulated/stream.h"

namespace braid::emulated {

enum class CollectiveKind {
  kAllReduce,
  kReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kAllToAll,
  kSend,
  kRecv
};

// The data that a rank sends and receives, in multiples of CollectiveCall::count.
struct CollectiveRow {
  CollectiveKind kind;
  const char* name;
  rt::Blocks in, out;
  bool reduces;
  bool rooted;  // CollectiveCall::root is the root; of a transfer it is the peer

  constexpr bool transfer() const { return in == rt::Blocks::none || out == rt::Blocks::none; }
};

inline constexpr auto kCollectiveTable = [] {
  using enum CollectiveKind;
  using enum rt::Blocks;
  return std::to_array<CollectiveRow>({{kAllReduce, "ncclAllReduce", one, one, true, false},
                                       {kReduce, "ncclReduce", one, one, true, true},
                                       {kAllGather, "ncclAllGather", one, all, false, false},
                                       {kReduceScatter, "ncclReduceScatter", all, one, true, false},
                                       {kBroadcast, "ncclBroadcast", one, one, false, true},
                                       {kAllToAll, "ncclAlltoAll", all, all, false, false},
                                       {kSend, "ncclSend", one, none, false, false},
                                       {kRecv, "ncclRecv", none, one, false, false}});
}();

constexpr const CollectiveRow& row_of(CollectiveKind kind) {
  return kCollectiveTable[static_cast<size_t>(kind)];
}
inline const char* name_of(CollectiveKind kind) { return row_of(kind).name; }
size_t size_of(ncclDataType_t type);
const char* name_of(ncclDataType_t type);

// One rank's part in a collective.
struct CollectiveCall {
  CollectiveKind kind;
  const void* send = nullptr;
  void* recv = nullptr;
  size_t count = 0;  // as in the NCCL call
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t op = ncclSum;
  int root = 0;  // or the peer
  std::string label;
  bool captured = false;                       // part of a graph: on all ranks, or on none
  int64_t send_offset = -1, recv_offset = -1;  // in a symmetric window; -1: in none

  size_t send_bytes(int ranks) const;  // bytes of `send` that this rank reads; 0 if it only receives
  size_t recv_bytes(int ranks) const;
  // Everything that must agree between ranks, as text.
  std::string signature() const;
  std::string title() const;  // its name and label
};

// The meeting of the ranks of one collective (or the two of a send).
struct Meeting {
  explicit Meeting(int ranks) : calls(ranks), copies(ranks), clocks(ranks) {}
  std::vector<std::optional<CollectiveCall>> calls;
  std::vector<std::optional<std::string>> copies;  // of what ranks of other processes send
  std::vector<VectorClock> clocks;                 // each rank's on arrival
  int arrived = 0;
  bool done = false;
  bool reported = false;  // that it cannot complete
};

struct CommGroup;
class HostCall;

// As CommGroup::gone.
inline constexpr const char* kLost = "whose process has ended";

// A registered symmetric window, one object for all ranks.
struct WindowSet {
  std::vector<uintptr_t> begin;  // per rank
  size_t size = 0;
  std::vector<bool> live;
  std::vector<bool> here;  // in this process
};

struct CommGroup {
  std::string name;                    // "communicator 0"
  std::string key;                     // its name in all processes
  std::vector<int> devices;            // per rank
  std::vector<std::string> processes;  // per rank: its process's address; empty: this process
  bool forming = false;                // until it is known where the ranks are
  std::vector<std::string> early;      // messages that came before
  std::mutex mutex;
  std::condition_variable changed;
  std::map<uint64_t, std::shared_ptr<Meeting>> meetings;  // by the call's number
  std::map<std::tuple<int, int, uint64_t>, std::shared_ptr<Meeting>>
      transfers;                       // by sender, receiver, number
  std::vector<std::string> last_call;  // per rank
  std::vector<std::string> gone;  // per rank: "which has aborted the communicator"; empty while it has not
  std::vector<bool> left;         // per rank: has destroyed or aborted its end
  std::vector<std::shared_ptr<WindowSet>> windows;
  ncclResult_t error = ncclSuccess;  // of the whole group, once set it stays
  std::string error_text;
  std::string lost_text;  // a rank's process has ended: calls that need it hang

  // Host-side meetings: creation, split, registration.
  struct HostMeeting {
    std::vector<std::string> what;  // per rank: the call; empty: not here yet
    int arrived = 0;
    VectorClock clock;
    std::vector<std::vector<int64_t>> payload;  // per rank
    std::vector<void*> outcome;                 // per rank of this process
    std::function<void(CommGroup&, HostMeeting&)> complete;
    ncclResult_t result = ncclSuccess;
    bool done = false;
  };
  std::map<uint64_t, std::shared_ptr<HostMeeting>> host_meetings;

  int size() const { return static_cast<int>(devices.size()); }
  bool here(int rank) const { return processes[static_cast<size_t>(rank)].empty(); }
  bool across_processes() const;
  // The result of ncclCommGetAsyncError, and its reason.
  ncclResult_t asynchronous_error() const;
  const std::string& asynchronous_text() const { return error == ncclSuccess ? lost_text : error_text; }
  void fail(ncclResult_t result, std::string text);  // with the mutex held
  std::string rank_text(int rank) const;
};

// Waits on the stream until all ranks have arrived and the data has moved. False if the group failed.
bool run_collectives(struct ::ncclComm* const* comms, const CollectiveCall* calls, const uint64_t* numbers,
                     int count, TaskContext& context);

// A rank of another process arrives: at a collective, with a copy of the data that it sends, or at a call on
// the host. With the group's mutex held.
void arrive_from_elsewhere(CommGroup& group, int rank, const CollectiveCall& call, uint64_t number,
                           std::string copy);
void arrive_from_elsewhere(CommGroup& group, int rank, uint64_t number, std::string what,
                           std::vector<int64_t> payload);
// The rank gives up its part: ranks that wait for it go on waiting.
void withdraw(CommGroup& group, int rank, const CollectiveCall& call, uint64_t number);

// Reports a finding for each live window or registration of memory about to be freed.
void report_registered(const Allocation& allocation);
// The communicator is aborted, and with it what is registered. Peers keep its symmetric windows mapped.
void abandon_registrations(const ncclComm& comm);
bool mapped_by_peers(const Allocation& allocation);

void* allocate(size_t size, AllocationKind kind);
bool release(void* pointer, AllocationKind kind);

}  // namespace braid::emulated

// ncclComm_t points to one of these: one rank's end.
struct ncclComm {
  // Out of line: HostCall is complete only there.
  ncclComm();
  ~ncclComm();

  std::shared_ptr<braid::emulated::CommGroup> group;
  int rank = 0;
  int device = 0;
  bool blocking = true;

  // The rest with the group's mutex.
  enum class Life { kAlive, kFinalized, kRevoked, kDestroyed, kAborted };
  Life life = Life::kAlive;
  int outstanding = 0;  // collectives that have not ended on their streams
  bool released() const { return life == Life::kAborted || life == Life::kRevoked; }

  // For a communicator with blocking = 0: its unfinished calls. They are over at the second look with
  // ncclCommGetAsyncError at the earliest, so that a program that does not look is found in every run.
  ncclResult_t state = ncclSuccess;
  int looks = 0;
  std::vector<braid::emulated::HostCall> under_way;
  std::vector<CUstream_st*> launching;   // streams on which its collectives may not have been launched yet
  uint64_t calls = 0;                    // collectives so far
  std::map<int, uint64_t> sends, recvs;  // per peer
  uint64_t host_calls = 0;
  std::string last_error;
};

// ncclWindow_t points to one of these.
struct ncclWindow_vidmem {
  std::shared_ptr<braid::emulated::WindowSet> set;  // null: registered with NCCL_WIN_DEFAULT
  int rank = 0;
};
