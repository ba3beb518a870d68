#include "runtime/comm/control_peers.h"

#include <cstddef>
#include <cstdio>
#include <span>
#include <string>

namespace braid::rt {
namespace {

ControlChannel& channel(void* user) { return *static_cast<ControlChannel*>(user); }

int tell(const Status& status, char* text, std::uint64_t bytes) {
  std::snprintf(text, bytes, "%s", status.message.c_str());
  return status.ok() ? 1 : 0;
}

}  // namespace

BraidCudaHostPeers control_peers(ControlChannel& of, int local_rank) {
  BraidCudaHostPeers peers{};
  peers.user = &of;
  peers.rank = of.rank();
  peers.local_rank = local_rank;
  peers.broadcast = [](void* user, void* data, std::uint64_t bytes, char* text, std::uint64_t text_bytes) {
    return tell(channel(user).broadcast(std::span(static_cast<std::byte*>(data), bytes)), text, text_bytes);
  };
  peers.reached = [](void* user, std::uint64_t progress) { channel(user).reached(progress); };
  peers.device_at = [](void* user, std::uint64_t step, std::uint64_t collectives) {
    channel(user).device_at(step, collectives);
  };
  peers.await_all = [](void* user, std::uint64_t progress, std::int64_t timeout_ms, char* text,
                       std::uint64_t bytes) {
    return tell(channel(user).await_all(progress, timeout_ms), text, bytes);
  };
  peers.lost = [](void* user) { return channel(user).lost() ? 1 : 0; };
  peers.missing = [](void* user, int overdue, char* text, std::uint64_t bytes) {
    std::string who;
    const int count = channel(user).missing(overdue != 0, &who);
    std::snprintf(text, bytes, "%s", who.c_str());
    return count;
  };
  peers.failed = [](void* user, const char* text, int consequence) {
    channel(user).leave(text, consequence != 0);
  };
  return peers;
}

}  // namespace braid::rt
