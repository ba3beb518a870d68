#include "runtime/comm/shm_world.h"

#include "runtime/comm/shm_communicator.h"

namespace braid::rt {

Status SharedMemory::create(int size, const WorldOptions& options, SharedMemory* out) {
  return shm::Arena::create_anonymous(size, options, &out->arena_);
}

int SharedMemory::size() const { return static_cast<int>(arena_->header().size); }

bool SharedMemory::failed() const { return arena_->header().abort.state.load() != 0; }

bool SharedMemory::has_left(int rank) const {
  return static_cast<shm::RankState>(arena_->rank_line(rank).state.load()) == shm::RankState::left;
}

int64_t SharedMemory::timeout_ms() const { return arena_->timeout_ms(); }

Status SharedMemory::attach(int rank, std::unique_ptr<World>* out, std::optional<LinkPacing> pacing) const {
  if (rank < 0 || rank >= size()) {
    return Status::error(StatusCode::invalid_argument,
                         "rank " + std::to_string(rank) + " of a World of " + std::to_string(size()));
  }
  auto world = std::make_unique<shm::ShmWorld>(arena_, rank, pacing);
  if (Status started = world->start_worker(); !started.ok()) return started;
  *out = std::move(world);
  return {};
}

}  // namespace braid::rt
