// Creation and end of the emulated NCCL's communicators.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>

#include "runtime/emulated/host_thread.h"
#include "runtime/emulated/nccl_host.h"
#include "runtime/emulated/options.h"

using namespace braid::emulated;

namespace {

struct Communicators {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<CommGroup>> forming;  // by unique id
  // Never removed, so that work still on a stream and a caller's stale handle find an object.
  std::vector<std::unique_ptr<ncclComm>> all;
};

Communicators& communicators() {
  static Communicators* instance = new Communicators;
  return *instance;
}

ncclComm* make_end(std::shared_ptr<CommGroup> group, int rank) {
  auto comm = std::make_unique<ncclComm>();
  comm->device = group->devices[static_cast<size_t>(rank)];
  comm->group = std::move(group);
  comm->rank = rank;
  std::lock_guard lock(communicators().mutex);
  communicators().all.push_back(std::move(comm));
  return communicators().all.back().get();
}

std::shared_ptr<CommGroup> make_group(std::string name, int ranks) {
  auto group = std::make_shared<CommGroup>();
  group->name = std::move(name);
  group->devices.assign(static_cast<size_t>(ranks), -1);
  group->last_call.resize(static_cast<size_t>(ranks));
  return group;
}

std::atomic<int> next_id{0};

// NCCL 2.28 refuses two ranks on one device.
void refuse_shared_device(CommGroup& group, CommGroup::HostMeeting& meeting) {
  for (size_t i = 0; i < group.devices.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (group.devices[i] != group.devices[j]) continue;
      const std::string text = group.name + ": ranks " + std::to_string(j) + " and " + std::to_string(i) +
                               " are both on device " + std::to_string(group.devices[i]) +
                               "; call cudaSetDevice before ncclCommInitRank";
      finding_list().add(FindingKind::kInvalidUse, text);
      meeting.result = ncclInvalidUsage;
      group.fail(ncclInvalidUsage, text);
      return;
    }
  }
}

}  // namespace

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (id == nullptr) return ncclInvalidArgument;
  std::memset(id, 0, sizeof *id);
  std::snprintf(id->internal, sizeof id->internal, "communicator %d", next_id++);
  host_thread().now();  // orders this, on the main thread, after what was done with earlier ones
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* out, int ranks, ncclUniqueId id, int rank, ncclConfig_t*) {
  if (out == nullptr || ranks < 1 || rank < 0 || rank >= ranks)
    return refuse(nullptr, ncclInvalidArgument,
                  "ncclCommInitRank: no rank " + std::to_string(rank) + " of " + std::to_string(ranks));
  const std::string key(id.internal, strnlen(id.internal, sizeof id.internal));
  std::shared_ptr<CommGroup> group;
  {
    std::lock_guard lock(communicators().mutex);
    auto& entry = communicators().forming[key];
    if (!entry) entry = make_group(key, ranks);
    group = entry;
  }
  const int device = host_thread().device;
  {
    std::lock_guard lock(group->mutex);
    if (group->size() != ranks || group->devices[static_cast<size_t>(rank)] >= 0) {
      const std::string text = "ncclCommInitRank of " + key + ": rank " + std::to_string(rank) +
                               (group->size() != ranks ? " gives another number of ranks" : " occurs twice");
      group->fail(ncclInvalidUsage, text);
      finding_list().add(FindingKind::kCollectiveMismatch, text);
      return ncclInvalidUsage;
    }
    group->devices[static_cast<size_t>(rank)] = device;
  }
  *out = nullptr;
  return submit(HostCall(
      group, rank, 0, "ncclCommInitRank", {},
      [key](CommGroup& g, CommGroup::HostMeeting& meeting) {
        refuse_shared_device(g, meeting);
        std::lock_guard lock(communicators().mutex);
        communicators().forming.erase(key);
      },
      [out, group, rank](void*) {
        *out = make_end(group, rank);
        (*out)->host_calls = 1;
      }));
}

ncclResult_t ncclCommInitRank(ncclComm_t* out, int ranks, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(out, ranks, id, rank, nullptr);
}

ncclResult_t ncclCommInitAll(ncclComm_t* out, int count, const int* devices) {
  if (out == nullptr || count < 1 || count > options().devices) return ncclInvalidArgument;
  auto group = make_group("communicator " + std::to_string(next_id++), count);
  for (int i = 0; i < count; ++i)
    group->devices[static_cast<size_t>(i)] = devices == nullptr ? i : devices[i];
  CommGroup::HostMeeting meeting;
  refuse_shared_device(*group, meeting);
  if (meeting.result != ncclSuccess) return meeting.result;
  for (int i = 0; i < count; ++i) out[i] = make_end(group, i);
  return ncclSuccess;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* out, ncclConfig_t*) {
  if (comm == nullptr || out == nullptr) return ncclInvalidArgument;
  const uint64_t number = comm->host_calls++;
  *out = nullptr;
  return submit(HostCall(
      comm->group, comm->rank, number, "ncclCommSplit", {color, key},
      [number](CommGroup& parent, CommGroup::HostMeeting& meeting) {
        std::map<int64_t, std::vector<std::pair<int64_t, int>>> members;  // color -> (key, rank)
        for (int r = 0; r < parent.size(); ++r) {
          const auto& payload = meeting.payload[static_cast<size_t>(r)];
          if (payload[0] != NCCL_SPLIT_NOCOLOR) members[payload[0]].emplace_back(payload[1], r);
        }
        for (auto& [each_color, list] : members) {
          std::sort(list.begin(), list.end());
          auto group = make_group(
              parent.name + " split " + std::to_string(number) + " color " + std::to_string(each_color),
              static_cast<int>(list.size()));
          for (size_t i = 0; i < list.size(); ++i)
            group->devices[i] = parent.devices[static_cast<size_t>(list[i].second)];
          for (size_t i = 0; i < list.size(); ++i)
            meeting.outcome[static_cast<size_t>(list[i].second)] = make_end(group, static_cast<int>(i));
        }
      },
      [out](void* outcome) { *out = static_cast<ncclComm*>(outcome); }));
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) { return comm == nullptr ? ncclInvalidArgument : ncclSuccess; }

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  std::lock_guard lock(comm->group->mutex);
  comm->group->fail(ncclRemoteError, comm->group->rank_text(comm->rank) + " aborted " + comm->group->name);
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  if (comm == nullptr || count == nullptr) return ncclInvalidArgument;
  *count = comm->group->size();
  return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  if (comm == nullptr || device == nullptr) return ncclInvalidArgument;
  *device = comm->device;
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  if (comm == nullptr || rank == nullptr) return ncclInvalidArgument;
  *rank = comm->rank;
  return ncclSuccess;
}

}  // extern "C"
