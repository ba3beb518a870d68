#include "runtime/comm/communicator.h"

namespace braid::rt {

const char* to_string(ReduceOp op) {
  constexpr const char* kNames[] = {"sum", "avg", "min", "max", "prod"};
  return static_cast<size_t>(op) < std::size(kNames) ? kNames[static_cast<int>(op)] : "?";
}

const char* to_string(CollectiveKind kind) {
  constexpr const char* kNames[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                    "all_to_all", "send",       "recv",           "barrier"};
  return static_cast<size_t>(kind) < std::size(kNames) ? kNames[static_cast<int>(kind)] : "?";
}

Status Communicator::run(const CollectiveCall& call) {
  Ticket ticket;
  if (Status status = start(call, &ticket); !status.ok()) return status;
  if (Status status = wait(ticket); !status.ok()) return status;
  return release(ticket);
}

}  // namespace braid::rt
