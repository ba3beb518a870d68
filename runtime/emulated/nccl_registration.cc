// Communication buffers of the emulated NCCL: allocation, registration, symmetric windows, peers' pointers.
//
// The rules of NCCL 2.28.9 that a GPU does not check (a mistake there is silent corruption, or a slow path)
// are findings here: windows and registrations lie in ncclMemAlloc memory, a symmetric window has the same
// size and the same offset in allocations of the same size on all ranks, and memory is not freed while
// registered.
#include <algorithm>

#include "runtime/emulated/block.h"
#include "runtime/emulated/graph.h"
#include "runtime/emulated/host_thread.h"
#include "runtime/emulated/nccl_host.h"
#include "runtime/emulated/options.h"
#include "runtime/emulated/step_scope.h"

using namespace braid::emulated;

namespace {

struct Registration {
  const ncclComm* comm;
  uintptr_t begin;
  size_t size;
  std::string text;
  bool symmetric;
};

struct Registrations {
  std::mutex mutex;
  std::map<const void*, std::unique_ptr<Registration>> live;  // by handle
  // Kept after their end: a kernel may still hold one.
  std::vector<std::unique_ptr<ncclWindow_vidmem>> windows;
  std::vector<Registration> abandoned;  // symmetric ones of aborted communicators
};

Registrations& registrations() {
  static Registrations* instance = new Registrations;
  return *instance;
}

void add(const void* handle, const ncclComm* comm, const void* buffer, size_t size, const char* call,
         bool symmetric) {
  std::lock_guard lock(registrations().mutex);
  registrations().live[handle] = std::make_unique<Registration>(
      Registration{comm, reinterpret_cast<uintptr_t>(buffer), size,
                   std::string(call) + " with " + comm->group->name, symmetric});
}

bool overlaps(const Registration& registration, const Allocation& allocation) {
  return registration.begin < allocation.end() && allocation.begin < registration.begin + registration.size;
}

bool remove(const void* handle) {
  std::lock_guard lock(registrations().mutex);
  return registrations().live.erase(handle) != 0;
}

// Why the buffer may not be registered; empty if it may.
std::string unsuitable(const void* buffer, size_t size) {
  const uintptr_t begin = reinterpret_cast<uintptr_t>(buffer);
  const int index = device_memory().find(begin);
  if (index < 0) return "the buffer is not device memory";
  const Allocation allocation = device_memory().at(index);
  if (allocation.freed || begin + size > allocation.end())
    return "the buffer is not inside " + allocation.describe();
  if (allocation.kind != AllocationKind::kNccl)
    return "the buffer is in " + allocation.describe() + ", not in memory of ncclMemAlloc";
  return {};
}

ncclWindow_vidmem* make_window(std::shared_ptr<WindowSet> set, int rank) {
  std::lock_guard lock(registrations().mutex);
  registrations().windows.push_back(
      std::make_unique<ncclWindow_vidmem>(ncclWindow_vidmem{std::move(set), rank}));
  return registrations().windows.back().get();
}

ncclResult_t refuse_buffer(ncclComm* comm, const char* call, const std::string& why) {
  const std::string text = std::string(call) + " on " + comm->group->rank_text(comm->rank) + " of " +
                           comm->group->name + ": " + why;
  comm->last_error = text;
  finding_list().add(FindingKind::kRegistration, text);
  return ncclInvalidArgument;
}

// Payload per rank: address, size, offset in the allocation, size of the allocation; empty: unsuitable.
void complete_window(CommGroup& group, CommGroup::HostMeeting& meeting) {
  const auto refuse_all = [&](const std::string& why) {
    const std::string text = "ncclCommWindowRegister of " + group.name + ": " + why;
    finding_list().add(FindingKind::kRegistration, text);
    meeting.result = ncclInvalidArgument;
  };
  static const char* const what[] = {"", "size", "offset in its allocation", "allocation's size"};
  for (size_t r = 0; r < meeting.payload.size(); ++r) {
    const auto& mine = meeting.payload[r];
    const std::string who = group.rank_text(static_cast<int>(r));
    if (mine.empty()) return refuse_all("the buffer of " + who + " is unsuitable");
    if (mine[2] % NCCL_WIN_REQUIRED_ALIGNMENT != 0)
      return refuse_all("the buffer of " + who + " is not aligned to 4096 bytes");
    for (size_t field = 1; field < 4; ++field)
      if (mine[field] != meeting.payload[0][field])
        return refuse_all(std::string("a symmetric window's ") + what[field] + " is " +
                          std::to_string(meeting.payload[0][field]) + " on " + group.rank_text(0) + " and " +
                          std::to_string(mine[field]) + " on " + who);
  }
  auto set = std::make_shared<WindowSet>();
  set->size = static_cast<size_t>(meeting.payload[0][1]);
  for (size_t r = 0; r < meeting.payload.size(); ++r) {
    set->begin.push_back(static_cast<uintptr_t>(meeting.payload[r][0]));
    set->here.push_back(group.here(static_cast<int>(r)));
  }
  set->live.assign(meeting.payload.size(), true);
  group.windows.push_back(set);
  for (size_t r = 0; r < meeting.payload.size(); ++r)
    if (set->here[r]) meeting.outcome[r] = make_window(set, static_cast<int>(r));
}

}  // namespace

namespace braid::emulated {

void report_registered(const Allocation& allocation) {
  std::lock_guard lock(registrations().mutex);
  for (const auto& [handle, registration] : registrations().live)
    if (overlaps(*registration, allocation))
      finding_list().add(FindingKind::kRegistration,
                         allocation.describe() + " is freed while registered: " + registration->text);
}

void abandon_registrations(const ncclComm& comm) {
  std::lock_guard lock(registrations().mutex);
  std::erase_if(registrations().live, [&](const auto& entry) {
    if (entry.second->comm != &comm) return false;
    if (entry.second->symmetric) registrations().abandoned.push_back(*entry.second);
    return true;
  });
}

bool mapped_by_peers(const Allocation& allocation) {
  std::lock_guard lock(registrations().mutex);
  const auto& all = registrations().abandoned;
  return std::any_of(all.begin(), all.end(), [&](const Registration& r) { return overlaps(r, allocation); });
}

void* peer_pointer(ncclWindow_vidmem* window, size_t offset, int peer) {
  std::string why;
  if (window == nullptr || !window->set) {
    why = "no symmetric window";
  } else if (peer < 0 || static_cast<size_t>(peer) >= window->set->begin.size()) {
    why = "there is no rank " + std::to_string(peer);
  } else if (offset >= window->set->size) {
    why = "offset " + std::to_string(offset) + " in a window of " + std::to_string(window->set->size) +
          " bytes";
  } else if (!window->set->here[static_cast<size_t>(peer)]) {
    why = "rank " + std::to_string(peer) + " is in another process";
  } else if (!window->set->live[static_cast<size_t>(peer)]) {
    why = "rank " + std::to_string(peer) + " has deregistered the window";
  } else {
    return reinterpret_cast<void*>(window->set->begin[static_cast<size_t>(peer)] + offset);
  }
  if (BlockRunner* runner = BlockRunner::current())
    runner->fail(FindingKind::kInvalidUse, [&] { return "peer_pointer: " + std::move(why); });
  finding_list().add(FindingKind::kInvalidUse, "peer_pointer: " + why);
  return nullptr;
}

int reachable_peers(const ncclComm* comm) {
  const auto& processes = comm->group->processes;
  return static_cast<int>(std::count(processes.begin(), processes.end(), std::string()));
}

bool is_symmetric(const ncclWindow_vidmem* window) { return window->set != nullptr; }

}  // namespace braid::emulated

extern "C" {

ncclResult_t ncclMemAlloc(void** pointer, size_t size) {
  if (pointer == nullptr) return ncclInvalidArgument;
  not_within_step();
  if (current_device().error.load() != cudaSuccess) return ncclUnhandledCudaError;
  *pointer = allocate(size, AllocationKind::kNccl);
  return *pointer == nullptr ? ncclUnhandledCudaError : ncclSuccess;
}

ncclResult_t ncclMemFree(void* pointer) {
  if (pointer == nullptr) return ncclSuccess;
  not_within_step();
  if (release(pointer, AllocationKind::kNccl)) return ncclSuccess;
  finding_list().add(FindingKind::kInvalidUse,
                     "ncclMemFree of a pointer that is not the start of a live ncclMemAlloc");
  return ncclInvalidArgument;
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buffer, size_t size, void** handle) {
  if (handle == nullptr) return ncclInvalidArgument;
  if (const ncclResult_t error = ensure_ready(comm, "ncclCommRegister"); error != ncclSuccess) return error;
  not_within_step();
  if (const std::string why = unsuitable(buffer, size); !why.empty())
    return refuse_buffer(comm, "ncclCommRegister", why);
  *handle = new char;
  add(*handle, comm, buffer, size, "ncclCommRegister", false);
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle) {
  if (handle == nullptr) return ncclSuccess;
  if (const ncclResult_t error = ensure_ready(comm, "ncclCommDeregister"); error != ncclSuccess) return error;
  not_within_step();
  if (!remove(handle)) return refuse_buffer(comm, "ncclCommDeregister", "no such registration");
  delete static_cast<char*>(handle);
  return ncclSuccess;
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buffer, size_t size, ncclWindow_t* window,
                                    int flags) {
  if (window == nullptr) return ncclInvalidArgument;
  if (const ncclResult_t error = ensure_ready(comm, "ncclCommWindowRegister"); error != ncclSuccess)
    return error;
  not_within_step();
  if (unsafe_while_capturing() != cudaSuccess) return ncclUnhandledCudaError;
  *window = nullptr;
  const std::string why = unsuitable(buffer, size);
  if (!why.empty()) refuse_buffer(comm, "ncclCommWindowRegister", why);
  if ((flags & NCCL_WIN_COLL_SYMMETRIC) == 0 || !options().symmetric) {  // local, as ncclCommRegister
    if (!why.empty()) return ncclInvalidArgument;
    *window = make_window(nullptr, comm->rank);
    add(*window, comm, buffer, size, "ncclCommWindowRegister", false);
    return ncclSuccess;
  }
  std::vector<int64_t> payload;
  if (why.empty()) {
    const Allocation allocation =
        device_memory().at(device_memory().find(reinterpret_cast<uintptr_t>(buffer)));
    payload = {static_cast<int64_t>(reinterpret_cast<uintptr_t>(buffer)), static_cast<int64_t>(size),
               static_cast<int64_t>(reinterpret_cast<uintptr_t>(buffer) - allocation.begin),
               static_cast<int64_t>(allocation.size)};
  }
  const ncclResult_t result =
      submit(comm, HostCall(comm->group, comm->rank, comm->host_calls++, "ncclCommWindowRegister", payload,
                            complete_window, [=](void* outcome) {
                              *window = static_cast<ncclWindow_vidmem*>(outcome);
                              if (outcome != nullptr)
                                add(outcome, comm, buffer, size, "ncclCommWindowRegister", true);
                            }));
  // As NCCL 2.28 does: only the communicator's state tells that a registration is in progress.
  return result == ncclInProgress ? ncclSuccess : result;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  if (window == nullptr) return ncclSuccess;
  if (const ncclResult_t error = ensure_ready(comm, "ncclCommWindowDeregister"); error != ncclSuccess)
    return error;
  not_within_step();
  if (!remove(window)) return refuse_buffer(comm, "ncclCommWindowDeregister", "no such window");
  std::lock_guard lock(comm->group->mutex);
  if (window->set) window->set->live[static_cast<size_t>(window->rank)] = false;
  return ncclSuccess;  // the object stays: a kernel may still hold it
}

}  // extern "C"
