// Creation and end of the emulated NCCL's communicators.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "runtime/emulated/graph.h"
#include "runtime/emulated/host_thread.h"
#include "runtime/emulated/nccl_host.h"
#include "runtime/emulated/nccl_order.h"
#include "runtime/emulated/options.h"
#include "runtime/emulated/step_scope.h"
#include "runtime/hash.h"

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

ncclComm* make_end(std::shared_ptr<CommGroup> group, int rank, bool blocking) {
  auto comm = std::make_unique<ncclComm>();
  comm->blocking = blocking;
  comm->device = group->devices[static_cast<size_t>(rank)];
  comm->group = std::move(group);
  comm->rank = rank;
  std::lock_guard lock(communicators().mutex);
  communicators().all.push_back(std::move(comm));
  return communicators().all.back().get();
}

std::shared_ptr<CommGroup> make_group(std::string key, int ranks) {
  auto group = std::make_shared<CommGroup>();
  group->name = name_of_key(key);
  group->key = std::move(key);
  group->devices.assign(static_cast<size_t>(ranks), -1);
  group->processes.resize(static_cast<size_t>(ranks));
  group->last_call.resize(static_cast<size_t>(ranks));
  group->gone.resize(static_cast<size_t>(ranks));
  group->left.resize(static_cast<size_t>(ranks));
  return group;
}

std::atomic<int> next_id{0};
constexpr std::chrono::seconds kFarewell{2};  // for processes that are stopped and do not take it

bool initialized(const ncclConfig_t* config) {
  const ncclConfig_t right = NCCL_CONFIG_INITIALIZER;
  return config == nullptr || (config->size == right.size && config->magic == right.magic);
}

bool is_blocking(const ncclConfig_t* config, bool otherwise) {
  return config == nullptr || config->blocking == NCCL_CONFIG_UNDEF_INT ? otherwise : config->blocking != 0;
}

// Sets the rank's state, and wakes its collectives to see it.
void end_as(ncclComm& comm, ncclComm::Life life, const char* given_up = "") {
  for (CUstream_st* stream : std::exchange(comm.launching, {})) stream->end_launch(&comm);
  comm.under_way.clear();
  CommGroup& group = *comm.group;
  const size_t rank = static_cast<size_t>(comm.rank);
  Told told;
  {
    std::lock_guard lock(group.mutex);
    group.left[rank] = life == ncclComm::Life::kAborted || life == ncclComm::Life::kDestroyed;
    if (std::count(group.left.begin(), group.left.end(), false) == 0) collective_order().ended(&group);
    comm.life = life;
    comm.state = ncclSuccess;
    group.gone[rank] = given_up;
    told = tell_end(group, comm.rank, given_up);
    group.changed.notify_all();
  }
  // The process may end now; without farewell it would count as lost.
  const auto deadline = std::chrono::steady_clock::now() + kFarewell;
  await_sent(told, [&] { return std::chrono::steady_clock::now() >= deadline; });
}

// Returns a rank's description of its device on arrival: its number, and a hash that identifies the machine's
// GPU in other processes. As with NCCL, processes with different NCCL_HOSTID count as on different machines.
std::vector<int64_t> device_payload(int device) {
  const char* host = std::getenv("NCCL_HOSTID");
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string gpu = std::string(host == nullptr ? "" : host) + "/" +
                          (visible == nullptr ? "" : visible) + "/" + std::to_string(device);
  return {device, static_cast<int64_t>(braid::rt::fnv1a(gpu))};
}

// NCCL waits until the last graph with the communicator's collectives is destroyed.
void must_have_no_graphs(const ncclComm& comm, const std::string& call) {
  if (!has_graphs(&comm)) return;
  finding_list().add(FindingKind::kGraph, call + " on " + comm.group->rank_text(comm.rank) + " of " +
                                              comm.group->name +
                                              " waits for ever: there is a graph with its collectives");
}

// NCCL 2.28 refuses two ranks on one device.
void refuse_shared_device(CommGroup& group, CommGroup::HostMeeting& meeting) {
  for (size_t i = 0; i < meeting.payload.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (meeting.payload[i] != meeting.payload[j]) continue;
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
  std::snprintf(id->internal, sizeof id->internal, "%s", make_id_text(next_id++).c_str());
  host_thread().now();  // orders this, on the main thread, after what was done with earlier ones
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* out, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  not_within_step("ncclCommInitRank");
  if (unsafe_while_capturing("ncclCommInitRank") != cudaSuccess) return ncclUnhandledCudaError;
  if (out == nullptr || ranks < 1 || rank < 0 || rank >= ranks)
    return refuse(nullptr, ncclInvalidArgument,
                  "ncclCommInitRank: no rank " + std::to_string(rank) + " of " + std::to_string(ranks));
  if (!initialized(config))
    return refuse(nullptr, ncclInvalidArgument,
                  "ncclCommInitRankConfig: the configuration does not begin with NCCL_CONFIG_INITIALIZER");
  const std::string key(id.internal, strnlen(id.internal, sizeof id.internal));
  std::shared_ptr<CommGroup> group;
  {
    std::lock_guard lock(communicators().mutex);
    auto& entry = communicators().forming[key];
    if (!entry) {
      entry = make_group(key, ranks);
      entry->forming = true;
      add_group(entry);
    }
    group = entry;
  }
  const int device = host_thread().device;
  {
    std::lock_guard lock(group->mutex);
    if (group->size() != ranks || group->devices[static_cast<size_t>(rank)] >= 0) {
      const std::string text = "ncclCommInitRank of " + group->name + ": rank " + std::to_string(rank) +
                               (group->size() != ranks ? " gives another number of ranks" : " occurs twice");
      group->fail(ncclInvalidUsage, text);
      finding_list().add(FindingKind::kCollectiveMismatch, text);
      return ncclInvalidUsage;
    }
    group->devices[static_cast<size_t>(rank)] = device;
  }
  // With blocking = 0 it can be asked for its state, and aborted, from now on.
  *out = make_end(group, rank, is_blocking(config, true));
  (*out)->host_calls = 1;
  const ncclResult_t result = submit(*out, HostCall(
                                               group, rank, 0, "ncclCommInitRank", device_payload(device),
                                               [key](CommGroup& g, CommGroup::HostMeeting& meeting) {
                                                 g.forming = false;
                                                 for (size_t r = 0; r < g.devices.size(); ++r)
                                                   g.devices[r] = static_cast<int>(meeting.payload[r][0]);
                                                 refuse_shared_device(g, meeting);
                                                 std::lock_guard lock(communicators().mutex);
                                                 communicators().forming.erase(key);
                                               },
                                               [](void*) {}));
  if (result != ncclSuccess && result != ncclInProgress) *out = nullptr;
  return result;
}

ncclResult_t ncclCommInitRank(ncclComm_t* out, int ranks, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(out, ranks, id, rank, nullptr);
}

ncclResult_t ncclCommInitAll(ncclComm_t* out, int count, const int* devices) {
  not_within_step();
  if (out == nullptr || count < 1 || count > options().devices) return ncclInvalidArgument;
  auto group = make_group("communicator " + std::to_string(next_id++), count);
  CommGroup::HostMeeting meeting;
  for (int i = 0; i < count; ++i) {
    group->devices[static_cast<size_t>(i)] = devices == nullptr ? i : devices[i];
    meeting.payload.push_back({group->devices[static_cast<size_t>(i)]});
  }
  refuse_shared_device(*group, meeting);
  if (meeting.result != ncclSuccess) return meeting.result;
  for (int i = 0; i < count; ++i) out[i] = make_end(group, i, true);
  return ncclSuccess;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* out, ncclConfig_t* config) {
  not_within_step();
  if (out == nullptr) return ncclInvalidArgument;
  if (unsafe_while_capturing() != cudaSuccess) return ncclUnhandledCudaError;
  if (const ncclResult_t error = ensure_ready(comm, "ncclCommSplit"); error != ncclSuccess) return error;
  const uint64_t number = comm->host_calls++;
  *out = nullptr;
  return submit(
      comm,
      HostCall(
          comm->group, comm->rank, number, "ncclCommSplit", {color, key, is_blocking(config, comm->blocking)},
          [number](CommGroup& parent, CommGroup::HostMeeting& meeting) {
            std::map<int64_t, std::vector<std::pair<int64_t, int>>> members;  // color -> (key, rank)
            for (int r = 0; r < parent.size(); ++r) {
              const auto& payload = meeting.payload[static_cast<size_t>(r)];
              if (payload[0] != NCCL_SPLIT_NOCOLOR) members[payload[0]].emplace_back(payload[1], r);
            }
            for (auto& [each_color, list] : members) {
              std::sort(list.begin(), list.end());
              if (std::none_of(list.begin(), list.end(),
                               [&](const auto& each) { return parent.here(each.second); }))
                continue;
              const std::string name =
                  parent.name + " split " + std::to_string(number) + " color " + std::to_string(each_color);
              auto group =
                  make_group(name + parent.key.substr(parent.name.size()), static_cast<int>(list.size()));
              for (size_t i = 0; i < list.size(); ++i) {
                const size_t r = static_cast<size_t>(list[i].second);
                group->devices[i] = parent.devices[r];
                group->processes[i] = parent.processes[r];
              }
              if (parent.across_processes()) add_group(group);
              for (size_t i = 0; i < list.size(); ++i) {
                const size_t r = static_cast<size_t>(list[i].second);
                if (group->processes[i].empty())
                  meeting.outcome[r] = make_end(group, static_cast<int>(i), meeting.payload[r][2] != 0);
              }
            }
          },
          [out](void* outcome) { *out = static_cast<ncclComm*>(outcome); }));
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  not_within_step();
  if (const ncclResult_t error = ensure_ready(comm, "ncclCommFinalize"); error != ncclSuccess) return error;
  {
    std::lock_guard lock(comm->group->mutex);
    if (comm->life == ncclComm::Life::kRevoked) return ncclInvalidArgument;
    comm->life = ncclComm::Life::kFinalized;
    comm->looks = 0;
    if (!comm->blocking) return comm->state = ncclInProgress;
  }
  await_collectives(*comm);
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  not_within_step();
  if (const ncclResult_t error = ensure_ready(comm, "ncclCommDestroy"); error != ncclSuccess) return error;
  must_have_no_graphs(*comm, "ncclCommDestroy");
  await_collectives(*comm);
  end_as(*comm, ncclComm::Life::kDestroyed);
  return ncclSuccess;
}

// Both concern this rank only: peers that wait for it go on waiting.
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  {
    std::lock_guard lock(comm->group->mutex);
    if (comm->life == ncclComm::Life::kAborted || comm->life == ncclComm::Life::kDestroyed) {
      finding_list().add(FindingKind::kInvalidUse, "ncclCommAbort of a communicator that is no more, " +
                                                       comm->group->rank_text(comm->rank) + " of " +
                                                       comm->group->name);
      return ncclInvalidArgument;
    }
  }
  must_have_no_graphs(*comm, "ncclCommAbort");
  end_as(*comm, ncclComm::Life::kAborted, "which has aborted the communicator");
  abandon_registrations(*comm);
  return ncclSuccess;
}

ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags) {
  if (comm == nullptr) return ncclSuccess;
  if (flags != NCCL_REVOKE_DEFAULT) return ncclInvalidArgument;
  {
    std::lock_guard lock(comm->group->mutex);
    if (comm->life != ncclComm::Life::kAlive) return ncclInvalidArgument;
  }
  end_as(*comm, ncclComm::Life::kRevoked, "which has revoked the communicator");
  if (comm->blocking) return ncclSuccess;
  std::lock_guard lock(comm->group->mutex);
  comm->looks = 0;
  return comm->state = ncclInProgress;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  if (count == nullptr) return ncclInvalidArgument;
  if (const ncclResult_t error = ensure_ready(comm, "ncclCommCount"); error != ncclSuccess) return error;
  *count = comm->group->size();
  return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  if (device == nullptr) return ncclInvalidArgument;
  if (const ncclResult_t error = ensure_ready(comm, "ncclCommCuDevice"); error != ncclSuccess) return error;
  *device = comm->device;
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  if (rank == nullptr) return ncclInvalidArgument;
  if (const ncclResult_t error = ensure_ready(comm, "ncclCommUserRank"); error != ncclSuccess) return error;
  *rank = comm->rank;
  return ncclSuccess;
}

}  // extern "C"
