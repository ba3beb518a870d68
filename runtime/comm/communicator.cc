#include "runtime/comm/communicator.h"

#include <iterator>

#include "runtime/comm/collective_kinds.h"

namespace braid::rt {

const char* to_string(ReduceOp op) {
  constexpr const char* kNames[] = {"sum", "avg", "min", "max", "prod"};
  return static_cast<size_t>(op) < std::size(kNames) ? kNames[static_cast<int>(op)] : "?";
}

const char* to_string(CollectiveKind kind) {
  return static_cast<size_t>(kind) < std::size(kCollectiveTable) ? row_of(kind).name : "?";
}

const char* to_string(Algorithm algorithm) {
  constexpr const char* kNames[] = {"automatic", "one_shot", "two_shot"};
  return static_cast<size_t>(algorithm) < std::size(kNames) ? kNames[static_cast<int>(algorithm)] : "?";
}

Status Communicator::run(const CollectiveCall& call) {
  Ticket ticket;
  if (Status status = start(call, &ticket); !status.ok()) return status;
  if (Status status = wait(ticket); !status.ok()) return status;
  return release(ticket);
}

}  // namespace braid::rt
