#include "runtime/emulated/nccl_host.h"

#include <utility>

#include "runtime/emulated/host_thread.h"
#include "runtime/emulated/options.h"

namespace braid::emulated {
namespace {

struct PendingCollective {
  ncclComm* comm;
  CollectiveCall call;
  uint64_t number;
  CUstream_st* stream;
};

struct Group {
  int depth = 0;
  std::vector<HostCall> host_calls;
  std::vector<PendingCollective> collectives;
  ncclResult_t error = ncclSuccess;
};

Group& group_of_thread() {
  thread_local Group group;
  return group;
}

// Enqueues one task per stream, with all of its calls, so that sends and receives of one group do not wait for
// each other.
void enqueue(std::vector<PendingCollective> pending) {
  while (!pending.empty()) {
    CUstream_st* stream = pending.front().stream;
    std::vector<ncclComm*> comms;
    std::vector<CollectiveCall> calls;
    std::vector<uint64_t> numbers;
    std::vector<PendingCollective> rest;
    for (auto& each : pending) {
      if (each.stream != stream) {
        rest.push_back(std::move(each));
        continue;
      }
      comms.push_back(each.comm);
      calls.push_back(std::move(each.call));
      numbers.push_back(each.number);
    }
    pending = std::move(rest);
    const auto if_failed = [comms] {
      for (ncclComm* comm : comms) {
        std::lock_guard lock(comm->group->mutex);
        comm->group->fail(ncclRemoteError, comm->group->rank_text(comm->rank) + " failed before it arrived");
      }
    };
    stream->enqueue(
        [comms, calls = std::move(calls), numbers = std::move(numbers)](TaskContext& context) {
          return run_collectives(comms.data(), calls.data(), numbers.data(), static_cast<int>(comms.size()),
                                 context);
        },
        true, if_failed);
  }
}

}  // namespace

HostCall::HostCall(std::shared_ptr<CommGroup> group, int rank, uint64_t number, std::string what,
                   std::vector<int64_t> payload, CompleteMeeting complete, std::function<void(void*)> deliver)
    : group_(std::move(group)),
      rank_(rank),
      number_(number),
      what_(std::move(what)),
      payload_(std::move(payload)),
      complete_(std::move(complete)),
      deliver_(std::move(deliver)) {}

void HostCall::arrive() {
  const size_t ranks = static_cast<size_t>(group_->size());
  std::lock_guard lock(group_->mutex);
  auto& entry = group_->host_meetings[number_];
  if (!entry) {
    entry = std::make_shared<CommGroup::HostMeeting>();
    entry->what = what_;
    entry->here.resize(ranks);
    entry->payload.resize(ranks);
    entry->outcome.resize(ranks);
  }
  meeting_ = entry;
  const size_t rank = static_cast<size_t>(rank_);
  if (meeting_->what != what_) {
    const std::string text = group_->name + ": " + group_->rank_text(rank_) + " calls " + what_ +
                             " where another rank calls " + meeting_->what;
    finding_list().add(FindingKind::kCollectiveMismatch, text);
    group_->fail(ncclInvalidUsage, text);
    return;
  }
  meeting_->here[rank] = true;
  meeting_->payload[rank] = payload_;
  meeting_->clock.join(host_thread().now());
  if (++meeting_->arrived == group_->size()) {
    complete_(*group_, *meeting_);
    meeting_->done = true;
    group_->host_meetings.erase(number_);
    group_->changed.notify_all();
  }
}

ncclResult_t HostCall::wait() {
  std::unique_lock lock(group_->mutex);
  const auto over = [&] { return meeting_->done || group_->error != ncclSuccess; };
  if (!group_->changed.wait_for(lock, options().time_out, over)) {
    std::string missing;
    for (size_t i = 0; i < meeting_->here.size(); ++i)
      if (!meeting_->here[i]) missing += (missing.empty() ? "rank " : ", rank ") + std::to_string(i);
    const std::string text = what_ + " of " + group_->name + ": missing after " +
                             std::to_string(options().time_out.count()) + " ms: " + missing;
    finding_list().add(FindingKind::kCollectiveTimeOut, text);
    group_->fail(ncclSystemError, text);
  }
  if (!meeting_->done) return group_->error;
  host_thread().follow(meeting_->clock);
  if (meeting_->result == ncclSuccess) deliver_(meeting_->outcome[static_cast<size_t>(rank_)]);
  return meeting_->result;
}

ncclResult_t submit(HostCall call) {
  Group& group = group_of_thread();
  if (group.depth > 0) {
    group.host_calls.push_back(std::move(call));
    return ncclSuccess;
  }
  call.arrive();
  return call.wait();
}

ncclResult_t submit(ncclComm* comm, const CollectiveCall& call, uint64_t number, CUstream_st* stream) {
  Group& group = group_of_thread();
  PendingCollective pending{comm, call, number, stream};
  if (group.depth > 0) {
    group.collectives.push_back(std::move(pending));
  } else {
    enqueue({std::move(pending)});
  }
  return ncclSuccess;
}

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
  ncclResult_t result = std::exchange(group.error, ncclSuccess);
  auto host_calls = std::move(group.host_calls);
  auto collectives = std::move(group.collectives);
  group.host_calls.clear();
  group.collectives.clear();
  if (result != ncclSuccess) return result;  // nothing of the group is launched
  for (HostCall& call : host_calls) call.arrive();
  for (HostCall& call : host_calls) {
    const ncclResult_t each = call.wait();
    if (result == ncclSuccess) result = each;
  }
  if (result == ncclSuccess) enqueue(std::move(collectives));
  return result;
}

ncclResult_t refuse(ncclComm* comm, ncclResult_t result, std::string text) {
  if (comm != nullptr) comm->last_error = text;
  finding_list().add(FindingKind::kInvalidUse, std::move(text));
  Group& group = group_of_thread();
  if (group.depth > 0 && group.error == ncclSuccess) group.error = result;
  return result;
}

}  // namespace braid::emulated
