#include "runtime/cuda/segment.h"

#include <algorithm>

#include "runtime/cuda/peer_segments.h"

#if !defined(BRAID_EMULATED_DEVICE) && NCCL_VERSION_CODE >= 22800
#include <nccl_device/core.h>
#endif

namespace braid::rt::cuda {

namespace {

// How many ranks of the communicator this one reaches by load and store, itself included.
int reachable_peers([[maybe_unused]] ncclComm_t comm) {
#ifdef BRAID_EMULATED_DEVICE
  return emulated::reachable_peers(comm);
#elif NCCL_VERSION_CODE >= 22800
  return ncclTeamLsa(comm).nRanks;
#else
  return 1;
#endif
}

// Without symmetric memory NCCL 2.28 returns a local registration, which lies in the host's memory and is no
// window that a kernel can read.
bool is_symmetric(ncclWindow_t window) {
  if (window == nullptr) return false;
#ifdef BRAID_EMULATED_DEVICE
  return emulated::is_symmetric(window);
#else
  cudaPointerAttributes found = {};
  const bool known = cudaPointerGetAttributes(&found, window) == cudaSuccess;
  if (!known) (void)cudaGetLastError();
  return known && found.type == cudaMemoryTypeDevice;
#endif
}

}  // namespace

bool Segment::allocate(cudaStream_t stream) {
  if (table_.comm_bytes == 0) return true;
  size_t bytes = table_.comm_bytes;
  if (layout_.peer_groups != nullptr) {
    flags_offset_ = (bytes + 255) / 256 * 256;
    bytes = flags_offset_ + static_cast<size_t>(table_.group_count) * device::peer_flag_bytes(table_.ranks);
  }
  bytes_ = bytes = (bytes + 4095) / 4096 * 4096;
  if (const ncclResult_t e = ncclMemAlloc(reinterpret_cast<void**>(&memory_), bytes); e != ncclSuccess) {
    // NCCL has one error for all that CUDA refuses.
    size_t free = 0, total = 0;
    (void)cudaGetLastError();
    if (e == ncclUnhandledCudaError && cudaMemGetInfo(&free, &total) == cudaSuccess && free < bytes)
      return no_memory(table_, "communication", bytes);
    return ok(e, "ncclMemAlloc");
  }
  if (layout_.peer_groups != nullptr) {
    // All flags are down before the first rank can raise one: registering a window waits for all ranks.
    BRAID_TRY(cudaMemsetAsync(memory_ + flags_offset_, 0, bytes - flags_offset_, stream));
    BRAID_TRY(cudaStreamSynchronize(stream));
    BRAID_TRY(cudaHostAlloc(reinterpret_cast<void**>(&abandoned_), sizeof(int), cudaHostAllocDefault));
    *abandoned_ = 0;
  }
  return true;
}

bool Segment::register_with(Groups& groups, cudaStream_t stream) {
  if (memory_ == nullptr) return true;
  windows_.assign(static_cast<size_t>(groups.count()), nullptr);
  for (int g = 0; g < groups.count(); ++g) {
    if (groups.comm(g) == nullptr) continue;
    ncclWindow_t& window = windows_[static_cast<size_t>(g)];
    bool known = false;
    for (const Registration& other : registrations_) {
      if (other.comm != groups.comm(g)) continue;
      window = is_symmetric(other.window) ? other.window : nullptr;
      known = true;
    }
    if (known) continue;
    // The registration is in the list before the call: a call that does not wait may write to it after it has
    // been given up.
    Registration& r = registrations_.emplace_back(Registration{groups.comm(g), nullptr, nullptr});
#if NCCL_VERSION_CODE >= 22700
    if (layout_.symmetric_groups[g]) {
      const ncclResult_t begun =
          ncclCommWindowRegister(r.comm, memory_, bytes_, &r.window, NCCL_WIN_COLL_SYMMETRIC);
      if (!groups.done(begun, "ncclCommWindowRegister")) return false;
    }
#endif
    if (r.window == nullptr &&
        !groups.done(ncclCommRegister(r.comm, memory_, bytes_, &r.handle), "ncclCommRegister"))
      return false;
    if (is_symmetric(r.window)) window = r.window;
  }
  return check_peers(groups) && find_peers(groups, stream);
}

// Kernels that read peers' memory need all of it within reach of loads and stores.
bool Segment::check_peers(const Groups& groups) {
  for (int g = 0; layout_.peer_groups != nullptr && g < groups.count(); ++g) {
    if (groups.comm(g) == nullptr || !layout_.peer_groups[g]) continue;
    const BraidGroup& group = table_.groups[g];
    const int reached = windows_[static_cast<size_t>(g)] == nullptr ? 1 : reachable_peers(groups.comm(g));
    if (reached >= group.size && group.size <= device::kMostPeers) continue;
    return fail(BRAID_COMM_ERROR, std::string("create: kernels of group '") + group.name +
                                      "' read the memory of all its " + std::to_string(group.size) +
                                      " ranks, but rank " + std::to_string(groups.rank()) + " reaches " +
                                      std::to_string(reached) +
                                      " by load and store; compile with --force-kernel '*=library'");
  }
  return true;
}

// NCCL tells the addresses only to kernels.
bool Segment::find_peers(const Groups& groups, cudaStream_t stream) {
  peers_.resize(layout_.peer_groups == nullptr ? 0 : static_cast<size_t>(groups.count()));
  char** found = nullptr;
  bool good = true;
  for (size_t g = 0; good && g < peers_.size(); ++g) {
    if (groups.comm(static_cast<int>(g)) == nullptr || !layout_.peer_groups[g]) continue;
    const int ranks = table_.groups[g].size;
    if (ranks == 1) {  // it has a window only where there is symmetric memory, and needs none
      peers_[g][0] = memory_;
      continue;
    }
    const size_t bytes = static_cast<size_t>(ranks) * sizeof(char*);
    if (found == nullptr)
      good = ok(cudaMalloc(reinterpret_cast<void**>(&found), sizeof(peers_[g])), "cudaMalloc");
    good = good && ok(write_peer_segments(windows_[g], ranks, found, stream), "peer_segments_kernel") &&
           ok(cudaMemcpyAsync(peers_[g].data(), found, bytes, cudaMemcpyDeviceToHost, stream),
              "cudaMemcpyAsync") &&
           ok(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }
  if (found != nullptr) cudaFree(found);
  return good;
}

device::PeerGroup Segment::peers(const Groups& groups, int group) const {
  device::PeerGroup out = {};
  const int ranks = table_.groups[group].size;
  std::copy_n(peers_[static_cast<size_t>(group)].begin(), ranks, out.segments);
  out.flags = flags_offset_ + static_cast<uint64_t>(group) * device::peer_flag_bytes(table_.ranks);
  out.abandoned = abandoned_;
  out.rank = groups.position(group);
  out.ranks = ranks;
  return out;
}

void Segment::abandon() {
  if (abandoned_ != nullptr) __atomic_store_n(abandoned_, 1, __ATOMIC_RELAXED);
}

void Segment::deregister(Groups& groups) {
  const Failure before = failure_;
  for (const Registration& r : registrations_) {
#if NCCL_VERSION_CODE >= 22700
    if (r.window != nullptr)
      (void)groups.done(ncclCommWindowDeregister(r.comm, r.window), "ncclCommWindowDeregister");
#endif
    if (r.handle != nullptr) (void)groups.done(ncclCommDeregister(r.comm, r.handle), "ncclCommDeregister");
  }
  failure_ = before;
  registrations_.clear();
}

void Segment::release() {
  if (memory_ != nullptr) ncclMemFree(memory_);
  if (abandoned_ != nullptr) cudaFreeHost(abandoned_);
  memory_ = nullptr;
  abandoned_ = nullptr;
}

}  // namespace braid::rt::cuda
