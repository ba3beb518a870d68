// The shared memory of one World: an anonymous memory file that every rank maps. It grows as groups are made.
// Ranks that are threads share one arena; ranks that are processes each have an arena over the same file.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/comm/shm_layout.h"

namespace braid::rt::shm {

class Arena {
 public:
  // Creates a file that only this process and its future children can access; *out is inherited through fork.
  static Status create_anonymous(int size, const WorldOptions& options, std::shared_ptr<Arena>* out);

  // Ranks of independent processes meet under a `run_id` shared by all ranks of a run (shm_rendezvous.cc).
  // Blocks until all have arrived; after the time-out, the error names those that have not.
  static Status rendezvous(int rank, int size, const std::string& run_id, const WorldOptions& options,
                           std::shared_ptr<Arena>* out);

  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  WorldHeader& header() const { return *reinterpret_cast<WorldHeader*>(base_); }
  RankLine& rank_line(int rank) const;
  std::byte* segment(int rank) const;
  int64_t timeout_ms() const { return timeout_ms_; }

  // Finds the group block with this key (the occurrence-th of this name and members), or makes it: `bytes`
  // zeros, on which `initialise` is called once. *out stays mapped as long as the arena lives.
  template <typename Initialise, typename Matches>
  Status find_or_make_group(uint64_t key, size_t bytes, Initialise initialise, Matches matches,
                            std::byte** out);

 private:
  struct Mapping {
    size_t offset;
    size_t bytes;
    std::byte* address;
  };

  Arena(int fd, std::byte* base, size_t bytes, int64_t timeout_ms);
  // Both own fd on success.
  static Status map_file(int fd, int size, int64_t timeout_ms, std::shared_ptr<Arena>* out);
  static Status initialise_file(int fd, int size, const WorldOptions& options, std::shared_ptr<Arena>* out);
  Status lock_groups();
  Status map_block(size_t offset, size_t bytes, std::byte** out);
  Status grow(size_t bytes, size_t* offset);
  GroupEntry* entries() const;

  int fd_;
  std::byte* base_;
  size_t base_bytes_;
  int64_t timeout_ms_;
  std::mutex mappings_mutex_;
  std::vector<Mapping> mappings_;
};

template <typename Initialise, typename Matches>
Status Arena::find_or_make_group(uint64_t key, size_t bytes, Initialise initialise, Matches matches,
                                 std::byte** out) {
  if (Status locked = lock_groups(); !locked.ok()) return locked;
  Status result;
  GroupEntry* found = nullptr;
  WorldHeader& world = header();
  for (uint32_t i = 0; i < world.group_count && found == nullptr && result.ok(); ++i) {
    GroupEntry& entry = entries()[i];
    if (entry.key != key || entry.bytes != bytes) continue;
    result = map_block(entry.offset, entry.bytes, out);
    if (result.ok() && matches(*out)) found = &entry;
  }
  if (result.ok() && found == nullptr) {
    size_t offset = 0;
    if (world.group_count == kMaxGroups) {
      result = Status::error(StatusCode::out_of_memory,
                             "more than " + std::to_string(kMaxGroups) + " groups in one World");
    } else {
      result = grow(bytes, &offset);
      if (result.ok()) result = map_block(offset, bytes, out);
      if (result.ok()) {
        initialise(*out);
        entries()[world.group_count] = GroupEntry{key, offset, bytes};
        ++world.group_count;
      }
    }
  }
  pthread_mutex_unlock(&world.groups_mutex);
  return result;
}

}  // namespace braid::rt::shm
