// Collectives on the streams: ranks meet, their calls are compared, data moves, clocks are joined.
//
// A collective proves only this: a rank's result depends on the inputs of its source ranks, so everything
// that those had done on the stream before is ordered before the later work here. It does not prove that a
// peer has finished its collective or anything later.
#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/emulated/block.h"
#include "runtime/emulated/nccl_comm.h"
#include "runtime/emulated/nccl_data.h"
#include "runtime/emulated/nccl_remote.h"
#include "runtime/emulated/options.h"

namespace braid::emulated {
namespace {

// Index in the meeting: the rank, or 0 for a sender and 1 for a receiver.
size_t seat(int rank, const CollectiveCall& call) {
  return static_cast<size_t>(call.kind == CollectiveKind::kSend   ? 0
                             : call.kind == CollectiveKind::kRecv ? 1
                                                                  : rank);
}
// `call` is that of `rank`.
int rank_at(int rank, const CollectiveCall& call, int seat_index) {
  if (!row_of(call.kind).transfer()) return seat_index;
  return (seat_index == 0) == (call.kind == CollectiveKind::kSend) ? rank : call.root;
}

// The offset in a symmetric window; -1: in none.
int64_t symmetric_offset(const CommGroup& group, int rank, const void* pointer) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
  for (const auto& window : group.windows) {
    const uintptr_t begin = window->begin[static_cast<size_t>(rank)];
    if (window->live[static_cast<size_t>(rank)] && address - begin < window->size)
      return static_cast<int64_t>(address - begin);
  }
  return -1;
}

// The meeting of that number, made if need be.
std::shared_ptr<Meeting>& meeting_of(CommGroup& group, int rank, const CollectiveCall& call,
                                     uint64_t number) {
  if (!row_of(call.kind).transfer()) {
    std::shared_ptr<Meeting>& entry = group.meetings[number];
    if (!entry) entry = std::make_shared<Meeting>(group.size());
    return entry;
  }
  auto& entry = group.transfers[{rank_at(rank, call, 0), rank_at(rank, call, 1), number}];
  if (!entry) entry = std::make_shared<Meeting>(2);
  return entry;
}

void end_meeting(CommGroup& group, int rank, const CollectiveCall& call, uint64_t number) {
  if (row_of(call.kind).transfer())
    group.transfers.erase({rank_at(rank, call, 0), rank_at(rank, call, 1), number});
  else
    group.meetings.erase(number);
}

// True: a finding has been added and the group failed.
bool disagree(CommGroup& group, const Meeting& meeting, uint64_t number) {
  const CollectiveCall& first = *meeting.calls[0];
  const CollectiveRow& row = row_of(first.kind);
  const std::string where = " number " + std::to_string(number) + " of " + group.name;
  for (size_t i = 1; i < meeting.calls.size(); ++i) {
    const CollectiveCall& other = *meeting.calls[i];
    const bool same = row.transfer() ? first.count == other.count && first.type == other.type &&
                                           first.captured == other.captured
                                     : first.signature() == other.signature();
    if (same) continue;
    const int rank_a = row.transfer() ? other.root : 0;
    const int rank_b = row.transfer() ? first.root : static_cast<int>(i);
    const std::string message = "call" + where + " differs: " + group.rank_text(rank_a) + " calls " +
                                first.signature() + (first.label.empty() ? "" : " [" + first.label + "]") +
                                ", " + group.rank_text(rank_b) + " calls " + other.signature() +
                                (other.label.empty() ? "" : " [" + other.label + "]");
    fail_everywhere(group, ncclInvalidUsage, message, FindingKind::kCollectiveMismatch);
    return true;
  }
  if (row.transfer()) return false;
  const auto check = [&](const char* what, int64_t CollectiveCall::*offset) {
    for (size_t i = 1; i < meeting.calls.size(); ++i) {
      const int64_t a = *meeting.calls[0].*offset, b = *meeting.calls[i].*offset;
      if (a == b) continue;
      const auto say = [](int64_t offset) {
        return offset < 0 ? std::string("in no symmetric window") : "at offset " + std::to_string(offset);
      };
      const std::string message = first.title() + where + ": the " + what + " buffer of " +
                                  group.rank_text(0) + " is " + say(a) + ", that of " +
                                  group.rank_text(static_cast<int>(i)) + " is " + say(b) +
                                  "; in a symmetric window it must be the same on all ranks";
      fail_everywhere(group, ncclInvalidUsage, message, FindingKind::kRegistration);
      return true;
    }
    return false;
  };
  // In place, an all-gather's input and a reduce-scatter's output are the rank's own part of the other
  // buffer.
  const bool in_place = [&] {
    for (size_t i = 0; i < meeting.calls.size(); ++i) {
      const CollectiveCall& call = *meeting.calls[i];
      const size_t bytes = call.count * size_of(call.type) * i;
      const char* send = static_cast<const char*>(call.send);
      const char* recv = static_cast<const char*>(call.recv);
      if (row.in < row.out ? send != recv + bytes : recv != send + bytes) return false;
    }
    return true;
  }();
  const bool gather = row.in<row.out, scatter = row.in> row.out;
  if (row.rooted) return false;
  if (!(gather && in_place) && check("send", &CollectiveCall::send_offset)) return true;
  return !(scatter && in_place) && check("receive", &CollectiveCall::recv_offset);
}

std::string missing_text(const CommGroup& group, const ncclComm& comm, const CollectiveCall& mine,
                         const Meeting& meeting, uint64_t number) {
  std::string waiting, missing;
  for (size_t i = 0; i < meeting.calls.size(); ++i) {
    const int rank = rank_at(comm.rank, mine, static_cast<int>(i));
    std::string& list = meeting.calls[i] ? waiting : missing;
    if (!list.empty()) list += ", ";
    list += group.rank_text(rank);
    if (!meeting.calls[i] && !group.gone[static_cast<size_t>(rank)].empty()) {
      list += " (" + group.gone[static_cast<size_t>(rank)] + ")";
    } else if (!meeting.calls[i]) {
      const std::string& last = group.last_call[static_cast<size_t>(rank)];
      list += last.empty() ? " (which has called nothing)" : " (whose latest call is " + last + ")";
    }
  }
  std::string name = name_of(mine.kind), label = mine.label;
  for (const auto& call : meeting.calls) {
    if (!call) continue;
    name = name_of(call->kind);
    label = call->label;
    break;
  }
  return name + (label.empty() ? "" : " [" + label + "]") + " number " + std::to_string(number) + " of " +
         group.name + ": " + waiting + " waits; missing after " + std::to_string(options().time_out.count()) +
         " ms: " + missing;
}

// With the group's mutex held. The last of the ranks moves the data to those of this process. Null: the ranks
// disagree.
std::shared_ptr<Meeting> join(CommGroup& group, int rank, const CollectiveCall& call, uint64_t number,
                              const VectorClock& clock, std::optional<std::string> copy) {
  const std::shared_ptr<Meeting> meeting = meeting_of(group, rank, call, number);
  const size_t index = seat(rank, call);
  meeting->calls[index] = call;
  meeting->clocks[index] = clock;
  meeting->copies[index] = std::move(copy);
  group.last_call[static_cast<size_t>(rank)] = call.signature() + " number " + std::to_string(number);
  if (static_cast<size_t>(++meeting->arrived) < meeting->calls.size()) return meeting;
  end_meeting(group, rank, call, number);
  if (disagree(group, *meeting, number)) return nullptr;
  std::vector<CollectiveCall> calls;
  for (size_t i = 0; i < meeting->calls.size(); ++i) {
    calls.push_back(*meeting->calls[i]);
    if (!meeting->copies[i]) continue;
    calls.back().send = meeting->copies[i]->data();
    calls.back().recv = nullptr;
  }
  move_data(calls);
  meeting->copies.clear();
  meeting->done = true;
  group.changed.notify_all();
  return meeting;
}

std::shared_ptr<Meeting> arrive(ncclComm& comm, CollectiveCall call, uint64_t number,
                                const VectorClock& clock, Told& told) {
  CommGroup& group = *comm.group;
  std::lock_guard lock(group.mutex);
  if (group.error != ncclSuccess) return nullptr;
  call.send_offset = symmetric_offset(group, comm.rank, call.send);
  call.recv_offset = symmetric_offset(group, comm.rank, call.recv);
  told = tell_call(group, comm.rank, call, number);
  return join(group, comm.rank, call, number, clock, std::nullopt);
}

// As on a GPU, a collective whose peers do not come waits until its own rank gives it up. The missing peers
// are reported once; if no rank of the process gives up, the process ends. Returns false if the ranks
// disagree, or one has failed.
bool wait_for_peers(ncclComm& comm, const CollectiveCall& call, uint64_t number, Meeting& meeting) {
  CommGroup& group = *comm.group;
  std::unique_lock lock(group.mutex);
  const auto over = [&] { return meeting.done || group.error != ncclSuccess || comm.released(); };
  if (!group.changed.wait_for(lock, options().time_out, over)) {
    const std::string text = missing_text(group, comm, call, meeting, number);
    if (!std::exchange(meeting.reported, true)) finding_list().add(FindingKind::kCollectiveTimeOut, text);
    if (!group.changed.wait_for(lock, options().hang, over)) {
      lock.unlock();
      end_process("nobody aborts " + text);
    }
  }
  if (meeting.done || !comm.released()) return meeting.done;
  withdraw(group, comm.rank, call, number);
  tell_withdrawal(group, comm.rank, call, number);
  return true;
}

bool released(ncclComm& comm) {
  std::lock_guard lock(comm.group->mutex);
  return comm.released();
}

// Makes the receive buffer of an aborted collective undefined.
void leave_undefined(void* pointer, size_t bytes) {
  if (bytes == 0) return;  // the pointer may be null
  const uintptr_t begin = reinterpret_cast<uintptr_t>(pointer), end = begin + bytes;
  std::memset(pointer, kPoison, bytes);
  for (uintptr_t word = begin / 64 * 64; word < end; word += 64) {
    const uint64_t from = word < begin ? ~uint64_t{0} << (begin - word) : ~uint64_t{0};
    const uint64_t to = end - word < 64 ? ~(~uint64_t{0} << (end - word)) : ~uint64_t{0};
    device_memory().initialized_word(word).fetch_and(~(from & to), std::memory_order_relaxed);
  }
}

void join_clocks(const ncclComm& comm, const CollectiveCall& call, const Meeting& meeting,
                 VectorClock& clock) {
  switch (call.kind) {
    case CollectiveKind::kSend:
      return;
    case CollectiveKind::kRecv:
      return clock.join(meeting.clocks[0]);
    case CollectiveKind::kBroadcast:
      return clock.join(meeting.clocks[static_cast<size_t>(call.root)]);
    case CollectiveKind::kReduce:
      if (comm.rank != call.root) return;
      break;
    default:
      break;
  }
  for (const VectorClock& other : meeting.clocks) clock.join(other);
}

// False if a buffer is invalid; a finding has been added and the group failed.
bool record(ncclComm& comm, const CollectiveCall& call, const void* pointer, size_t bytes, AccessKind kind,
            TaskContext& context) {
  if (bytes == 0) return true;
  std::string text;
  if (!DeviceMemory::contains(reinterpret_cast<uintptr_t>(pointer))) {
    text = kind == AccessKind::kRead ? "the send buffer is not device memory"
                                     : "the receive buffer is not device memory";
  } else if (const auto* fault = context.accesses.record(reinterpret_cast<uintptr_t>(pointer), bytes, kind)) {
    text = *fault;
  } else {
    return true;
  }
  text = call.title() + " on " + context.lane.text + ": " + text;
  finding_list().add(FindingKind::kIllegalAccess, text);
  std::lock_guard lock(comm.group->mutex);
  fail_everywhere(*comm.group, ncclInvalidArgument, text);
  return false;
}

}  // namespace

void arrive_from_elsewhere(CommGroup& group, int rank, const CollectiveCall& call, uint64_t number,
                           std::string copy) {
  if (group.error == ncclSuccess) join(group, rank, call, number, {}, std::move(copy));
}

void withdraw(CommGroup& group, int rank, const CollectiveCall& call, uint64_t number) {
  const std::shared_ptr<Meeting> meeting = meeting_of(group, rank, call, number);
  if (std::exchange(meeting->calls[seat(rank, call)], std::nullopt)) --meeting->arrived;
  if (meeting->arrived == 0 && !meeting->reported) end_meeting(group, rank, call, number);
}

bool run_collectives(ncclComm* const* comms, const CollectiveCall* calls, const uint64_t* numbers, int count,
                     TaskContext& context) {
  const VectorClock before = context.clock;
  const std::string name =
      count == 1 ? name_of(calls[0].kind) : std::string("group of ") + name_of(calls[0].kind);
  const auto reading = checker().begin(context.lane.thread, context.clock, name, calls[0].label);
  bool valid = true;
  for (int i = 0; i < count; ++i) {
    const int ranks = comms[i]->group->size();
    valid =
        record(*comms[i], calls[i], calls[i].send, calls[i].send_bytes(ranks), AccessKind::kRead, context) &&
        valid;
  }
  checker().finish(reading, context.accesses.finish());
  // Checks the bounds of what will be written before it is written.
  for (int i = 0; i < count && valid; ++i) {
    const int ranks = comms[i]->group->size();
    const size_t bytes = comms[i]->rank != calls[i].root && calls[i].kind == CollectiveKind::kReduce
                             ? 0
                             : calls[i].recv_bytes(ranks);
    valid = record(*comms[i], calls[i], calls[i].recv, bytes, AccessKind::kWrite, context);
  }
  AccessRanges written = context.accesses.finish();
  std::vector<std::shared_ptr<Meeting>> meetings;
  std::vector<Told> told(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    if (!valid) return false;
    meetings.push_back(released(*comms[i])
                           ? nullptr
                           : arrive(*comms[i], calls[i], numbers[i], before, told[static_cast<size_t>(i)]));
    if (!meetings.back() && !released(*comms[i])) return false;
  }
  for (int i = 0; i < count; ++i) {
    Meeting* meeting = meetings[static_cast<size_t>(i)].get();
    if (meeting != nullptr && !wait_for_peers(*comms[i], calls[i], numbers[i], *meeting)) return false;
    await_sent(told[static_cast<size_t>(i)], [&] { return released(*comms[i]); });
    if (meeting != nullptr && meeting->done)
      join_clocks(*comms[i], calls[i], *meeting, context.clock);
    else
      leave_undefined(calls[i].recv, calls[i].recv_bytes(comms[i]->group->size()));
  }
  const auto writing = checker().begin(context.lane.thread, context.clock, name, calls[0].label);
  checker().finish(writing, std::move(written));
  return true;
}

}  // namespace braid::emulated
