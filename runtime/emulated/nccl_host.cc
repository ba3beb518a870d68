#include "runtime/emulated/nccl_host.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "runtime/emulated/graph.h"
#include "runtime/emulated/host_thread.h"
#include "runtime/emulated/nccl_order.h"
#include "runtime/emulated/options.h"
#include "runtime/emulated/planned_memory.h"

namespace braid::emulated {
namespace {

struct PendingCollective {
  ncclComm* comm;
  CollectiveCall call;
  CUstream_st* stream;
  uint64_t number = 0;  // in its communicator, once it is launched
};

struct PendingHostCall {
  ncclComm* comm;
  HostCall call;
};

struct Group {
  int depth = 0;
  std::vector<PendingHostCall> host_calls;
  std::vector<PendingCollective> collectives;
  ncclResult_t error = ncclSuccess;
};

Group& group_of_thread() {
  thread_local Group group;
  return group;
}

std::string who(const ncclComm& comm) { return comm.group->rank_text(comm.rank) + " of " + comm.group->name; }

uint64_t next_number(ncclComm& comm, const CollectiveCall& call) {
  switch (call.kind) {
    case CollectiveKind::kSend:
      return comm.sends[call.root]++;
    case CollectiveKind::kRecv:
      return comm.recvs[call.root]++;
    default:
      return comm.calls++;
  }
}

// Reports the calls in their order, but transfers of one communicator together.
void note_order(const std::vector<PendingCollective>& pending) {
  std::vector<std::pair<const ncclComm*, std::vector<CollectiveOrder::Call>>> batches;
  for (const PendingCollective& each : pending) {
    const CommGroup& group = *each.comm->group;
    if (group.across_processes()) continue;  // what the others call is not known here
    const CollectiveRow& row = row_of(each.call.kind);
    std::string text = each.call.title() + " number " + std::to_string(each.number);
    CollectiveOrder::Call call{{&group, -1, -1, each.number}, group.devices, {}};
    if (row.transfer()) {
      const bool sends = each.call.kind == CollectiveKind::kSend;
      call.key.from = sends ? each.comm->rank : each.call.root;
      call.key.to = sends ? each.call.root : each.comm->rank;
      call.devices = {each.comm->device};
      if (each.call.root != each.comm->rank)
        call.devices.push_back(group.devices[static_cast<size_t>(each.call.root)]);
      text += (sends ? " to " : " from ") + group.rank_text(each.call.root);
    }
    call.text = text + " of " + group.name;
    const auto transfers_of_comm = [&](const auto& batch) {
      return row.transfer() && batch.first == each.comm && batch.second.front().key.from >= 0;
    };
    const auto batch = std::find_if(batches.begin(), batches.end(), transfers_of_comm);
    if (batch != batches.end())
      batch->second.push_back(std::move(call));
    else
      batches.push_back({each.comm, {std::move(call)}});
  }
  for (auto& [comm, calls] : batches) collective_order().issue(comm->device, std::move(calls));
}

// One task for all calls of a group on one stream, so that sends and receives do not wait for each other.
Work work_of(std::vector<PendingCollective> pending) {
  std::vector<ncclComm*> comms;
  std::vector<CollectiveCall> calls;
  std::vector<uint64_t> numbers;
  for (PendingCollective& each : pending) {
    std::lock_guard lock(each.comm->group->mutex);
    ++each.comm->outstanding;
    comms.push_back(each.comm);
    calls.push_back(std::move(each.call));
    numbers.push_back(each.number);
  }
  const auto ended = [comms](bool failed) {
    for (ncclComm* comm : comms) {
      std::lock_guard lock(comm->group->mutex);
      --comm->outstanding;
      comm->group->changed.notify_all();
      if (failed)
        fail_everywhere(*comm->group, ncclRemoteError,
                        comm->group->rank_text(comm->rank) + " failed before it arrived");
    }
  };
  const std::string name = name_of(calls.front().kind);
  return {WorkKind::kCollective, name,
          [comms, ended, calls = std::move(calls), numbers = std::move(numbers)](TaskContext& context) {
            const bool good = run_collectives(comms.data(), calls.data(), numbers.data(),
                                              static_cast<int>(comms.size()), context);
            ended(false);
            return good;
          },
          [ended] { ended(true); }, true};
}

void number(std::vector<PendingCollective>& pending) {
  for (PendingCollective& each : pending) each.number = next_number(*each.comm, each.call);
  note_order(pending);
}

// Each replay calls the collectives anew, as part of the step that was declared at the capture.
CUgraphNode_st node_of(std::vector<PendingCollective> pending) {
  for (PendingCollective& each : pending) each.call.captured = true;
  CUgraphNode_st node{WorkKind::kCollective,
                      name_of(pending.front().call.kind),
                      pending.front().call.label,
                      -1,
                      0,
                      {},
                      true,
                      {},
                      nullptr};
  for (const PendingCollective& each : pending) node.communicators.push_back(each.comm);
  node.make = [pending = std::move(pending), declared = host_thread().declared] {
    std::vector<PendingCollective> again = pending;
    for (const PendingCollective& each : again) ensure_ready(each.comm, "a replay of " + each.call.title());
    number(again);
    Work work = work_of(std::move(again));
    if (declared != nullptr) work.task = in_step(declared, std::move(work.task));
    return work;
  };
  return node;
}

void enqueue(std::vector<PendingCollective> pending) {
  const auto captured = [](const PendingCollective& each) { return each.stream->capture() != nullptr; };
  std::vector<PendingCollective> now;
  std::copy_if(pending.begin(), pending.end(), std::back_inserter(now), std::not_fn(captured));
  number(now);
  auto next = now.begin();
  for (PendingCollective& each : pending)
    if (!captured(each)) each.number = next++->number;
  while (!pending.empty()) {
    CUstream_st* stream = pending.front().stream;
    const auto others = std::stable_partition(pending.begin(), pending.end(),
                                              [&](const auto& each) { return each.stream == stream; });
    std::vector<PendingCollective> mine(pending.begin(), others);
    pending.erase(pending.begin(), others);
    if (const auto capture = stream->capture())
      capture->add(*stream, node_of(std::move(mine)));
    else
      stream->enqueue(work_of(std::move(mine)));
  }
}

// The communicator is busy until ncclCommGetAsyncError says otherwise.
void set_in_progress(ncclComm& comm) {
  std::lock_guard lock(comm.group->mutex);
  comm.state = ncclInProgress;
  comm.looks = 0;
}

ncclResult_t execute(std::vector<PendingHostCall> host_calls, std::vector<PendingCollective> collectives) {
  std::vector<ncclComm*> comms;
  for (const auto& each : host_calls) comms.push_back(each.comm);
  for (const auto& each : collectives) comms.push_back(each.comm);
  if (comms.empty()) return ncclSuccess;
  const bool blocking = comms.front()->blocking;
  for (const ncclComm* comm : comms)
    if (comm->blocking != blocking)
      return refuse(comms.front(), ncclInvalidArgument,
                    "a group of " + who(*comms.front()) + " has blocking and nonblocking communicators");
  for (auto& each : host_calls) each.call.arrive();
  if (!blocking) {
    for (ncclComm* comm : comms) set_in_progress(*comm);
    for (auto& each : host_calls) each.comm->under_way.push_back(std::move(each.call));
    for (const auto& each : collectives) {
      each.comm->launching.push_back(each.stream);
      each.stream->begin_launch(each.comm, each.call.title() + " of " + who(*each.comm) +
                                               " is launched: ncclCommGetAsyncError has not said so yet");
    }
    enqueue(std::move(collectives));
    return ncclInProgress;
  }
  ncclResult_t result = ncclSuccess;
  for (auto& each : host_calls) {
    const ncclResult_t one = each.call.wait();
    if (result == ncclSuccess) result = one;
  }
  if (result == ncclSuccess) enqueue(std::move(collectives));
  return result;
}

// With the group's mutex held.
std::shared_ptr<CommGroup::HostMeeting> meeting_of(CommGroup& group, uint64_t number) {
  auto& entry = group.host_meetings[number];
  if (!entry) {
    const size_t ranks = static_cast<size_t>(group.size());
    entry = std::make_shared<CommGroup::HostMeeting>();
    entry->what.resize(ranks);
    entry->payload.resize(ranks);
    entry->outcome.resize(ranks);
  }
  return entry;
}

// With the group's mutex held.
void arrive_at(CommGroup& group, CommGroup::HostMeeting& meeting, int rank, uint64_t number, std::string what,
               std::vector<int64_t> payload) {
  meeting.what[static_cast<size_t>(rank)] = std::move(what);
  meeting.payload[static_cast<size_t>(rank)] = std::move(payload);
  if (++meeting.arrived < group.size()) return;
  for (size_t i = 1; i < meeting.what.size(); ++i) {
    if (meeting.what[i] == meeting.what[0]) continue;
    const std::string text = group.name + ": " + group.rank_text(0) + " calls " + meeting.what[0] + ", " +
                             group.rank_text(static_cast<int>(i)) + " calls " + meeting.what[i];
    finding_list().add(FindingKind::kCollectiveMismatch, text);
    return group.fail(ncclInvalidUsage, text);
  }
  meeting.complete(group, meeting);
  meeting.done = true;
  group.host_meetings.erase(number);
  group.changed.notify_all();
}

}  // namespace

void arrive_from_elsewhere(CommGroup& group, int rank, uint64_t number, std::string what,
                           std::vector<int64_t> payload) {
  arrive_at(group, *meeting_of(group, number), rank, number, std::move(what), std::move(payload));
}

HostCall::HostCall(std::shared_ptr<CommGroup> group, int rank, uint64_t number, std::string what,
                   std::vector<int64_t> payload, CompleteMeeting complete, std::function<void(void*)> deliver)
    : group_(std::move(group)),
      rank_(rank),
      number_(number),
      what_(std::move(what)),
      payload_(std::move(payload)),
      complete_(std::move(complete)),
      deliver_(std::move(deliver)),
      deadline_(std::chrono::steady_clock::now() + options().time_out) {}

void HostCall::arrive() {
  bool forming = false;
  {
    std::lock_guard lock(group_->mutex);
    forming = group_->forming;
    meeting_ = meeting_of(*group_, number_);
    meeting_->complete = complete_;
    meeting_->clock.join(host_thread().now());
    if (!forming) told_ = tell_host_call(*group_, rank_, number_, what_, payload_);
    arrive_at(*group_, *meeting_, rank_, number_, what_, payload_);
  }
  if (forming) seek_peers(group_, rank_, payload_);
}

void HostCall::report_missing() {
  std::string missing;
  for (size_t i = 0; i < meeting_->what.size(); ++i)
    if (meeting_->what[i].empty()) missing += (missing.empty() ? "rank " : ", rank ") + std::to_string(i);
  finding_list().add(FindingKind::kCollectiveTimeOut, what_ + " of " + group_->name + ": missing after " +
                                                          std::to_string(options().time_out.count()) +
                                                          " ms: " + missing);
}

bool HostCall::decided() const {
  if (meeting_->done || group_->error != ncclSuccess) return true;
  for (size_t r = 0; r < meeting_->what.size(); ++r)
    if (meeting_->what[r].empty() && group_->gone[r] == kLost) return true;
  return false;
}

bool HostCall::over() {
  std::lock_guard lock(group_->mutex);
  if (decided()) return true;
  if (std::chrono::steady_clock::now() >= deadline_) report_missing();
  return false;
}

ncclResult_t HostCall::wait() {
  std::unique_lock lock(group_->mutex);
  if (!group_->changed.wait_until(lock, deadline_, [&] { return decided(); })) {
    report_missing();
    group_->fail(ncclSystemError, what_ + " of " + group_->name + ": a rank is missing");
  }
  if (!meeting_->done) return group_->asynchronous_error();
  lock.unlock();
  await_sent(told_, [&] { return std::chrono::steady_clock::now() >= deadline_; });
  host_thread().follow(meeting_->clock);
  if (meeting_->result == ncclSuccess) deliver_(meeting_->outcome[static_cast<size_t>(rank_)]);
  return meeting_->result;
}

ncclResult_t submit(ncclComm* comm, HostCall call) {
  Group& group = group_of_thread();
  std::vector<PendingHostCall> calls;
  calls.push_back({comm, std::move(call)});
  if (group.depth == 0) return execute(std::move(calls), {});
  group.host_calls.push_back(std::move(calls.front()));
  return ncclSuccess;
}

ncclResult_t submit(ncclComm* comm, const CollectiveCall& call, CUstream_st* stream) {
  Group& group = group_of_thread();
  PendingCollective pending{comm, call, stream};
  if (group.depth == 0) return execute({}, {std::move(pending)});
  stream->begin_launch(&group, call.title() + " of " + who(*comm) + " is launched by ncclGroupEnd");
  group.collectives.push_back(std::move(pending));
  return ncclSuccess;
}

bool in_nccl_group() { return group_of_thread().depth > 0; }

ncclResult_t group_start() {
  ++group_of_thread().depth;
  return ncclSuccess;
}

ncclResult_t group_end() {
  Group& group = group_of_thread();
  if (group.depth == 0) {
    finding_list().add(FindingKind::kInvalidUse, "ncclGroupEnd without ncclGroupStart");
    return ncclInvalidUsage;
  }
  if (--group.depth > 0) return ncclSuccess;
  const ncclResult_t error = std::exchange(group.error, ncclSuccess);
  auto host_calls = std::exchange(group.host_calls, {});
  auto collectives = std::exchange(group.collectives, {});
  for (const auto& each : collectives) each.stream->end_launch(&group);
  if (error != ncclSuccess) return error;  // nothing of the group is launched
  return execute(std::move(host_calls), std::move(collectives));
}

ncclResult_t look(ncclComm& comm) {
  {
    std::lock_guard lock(comm.group->mutex);
    if (comm.group->asynchronous_error() != ncclSuccess) return comm.group->asynchronous_error();
    if (comm.state != ncclInProgress) return comm.state;
    if (++comm.looks < 2) return ncclInProgress;
    if (comm.life == ncclComm::Life::kFinalized && comm.outstanding > 0) return ncclInProgress;
  }
  for (HostCall& call : comm.under_way)
    if (!call.over()) return ncclInProgress;
  ncclResult_t result = ncclSuccess;
  for (HostCall& call : comm.under_way) {
    const ncclResult_t one = call.wait();
    if (result == ncclSuccess) result = one;
  }
  comm.under_way.clear();
  for (CUstream_st* stream : std::exchange(comm.launching, {})) stream->end_launch(&comm);
  std::lock_guard lock(comm.group->mutex);
  return comm.state = result;
}

ncclResult_t ensure_ready(ncclComm* comm, const std::string& call) {
  if (comm == nullptr) return refuse(nullptr, ncclInvalidArgument, call + ": no communicator");
  std::string why;
  {
    std::lock_guard lock(comm->group->mutex);
    if (comm->life == ncclComm::Life::kAborted) why = "the communicator has been aborted";
    if (comm->life == ncclComm::Life::kDestroyed) why = "the communicator has been destroyed";
    if (comm->life == ncclComm::Life::kFinalized && call != "ncclCommDestroy")
      why = "the communicator has been finalized";
    if (comm->state == ncclInProgress)
      why = "the call before it is still in progress (ncclCommGetAsyncError has not returned ncclSuccess)";
  }
  return why.empty() ? ncclSuccess
                     : refuse(comm, ncclInvalidArgument, call + " on " + who(*comm) + ": " + why);
}

void await_collectives(ncclComm& comm) {
  std::unique_lock lock(comm.group->mutex);
  if (comm.group->changed.wait_for(lock, options().time_out + options().hang,
                                   [&] { return comm.outstanding == 0; }))
    return;
  lock.unlock();
  end_process("the collectives of " + who(comm) + " do not end, and nobody aborts them");
}

ncclResult_t refuse(ncclComm* comm, ncclResult_t result, std::string text) {
  if (comm != nullptr) comm->last_error = text;
  finding_list().add(FindingKind::kInvalidUse, std::move(text));
  return fail_group(result);
}

ncclResult_t fail_group(ncclResult_t result) {
  Group& group = group_of_thread();
  if (group.depth > 0 && group.error == ncclSuccess) group.error = result;
  return result;
}

}  // namespace braid::emulated

ncclComm::ncclComm() = default;
ncclComm::~ncclComm() = default;
