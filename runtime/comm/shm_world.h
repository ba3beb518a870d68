// The shared-memory engine: ranks are threads of one process or processes of one machine.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "runtime/comm/communicator.h"
#include "runtime/comm/paced_link.h"

namespace braid::rt {

namespace shm {
class Arena;
}

// The shared memory to which the ranks of one World attach. Copyable; lives as long as any copy or World.
class SharedMemory {
 public:
  // Accessible to the threads of this process and its future children.
  static Status create(int size, const WorldOptions& options, SharedMemory* out);

  // Makes the World of `rank`; call once per rank. All ranks must give the same pacing, or none.
  Status attach(int rank, std::unique_ptr<World>* out, std::optional<LinkPacing> pacing = std::nullopt) const;

  int size() const;

  // For launchers: whether the World has failed, whether a rank has destroyed its World, and the time-out.
  bool failed() const;
  bool has_left(int rank) const;
  int64_t timeout_ms() const;

 private:
  friend Status join_world(int, int, const std::string&, const WorldOptions&, std::unique_ptr<World>*);
  std::shared_ptr<shm::Arena> arena_;
};

// Independent processes of one machine and one user find each other by `run_id` (equal on all ranks of a
// run). Blocks until all have arrived or the time-out has passed. A duplicate rank is an error on all of
// them. Nothing remains in /dev/shm.
Status join_world(int rank, int size, const std::string& run_id, const WorldOptions& options,
                  std::unique_ptr<World>* out);

// The name of the socket, in the abstract namespace, at which they meet.
std::string rendezvous_name(const std::string& run_id);

}  // namespace braid::rt
