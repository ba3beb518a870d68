// Reads and writes the ordinary memory of another process on this machine. The kernel makes a single copy
// (process_vm_readv(2)) and the other process need not take part. Also works between threads of one process:
// an address that is no longer mapped is an error, not a signal.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/comm/shm_arena.h"

namespace braid::rt::shm {

// False if the other process is gone, access is denied, or the memory does not exist.
bool read_peer(int64_t pid, void* to, uint64_t from, size_t bytes);
bool write_peer(int64_t pid, uint64_t to, const void* from, size_t bytes);

// Which peers' memory is accessible. Containers and security modules may forbid access, and no flag tells. So
// every rank publishes a word of its memory, and others find out by reading it.
class PeerMemory {
 public:
  // Publishes this rank's word, before the rank is announced as attached.
  PeerMemory(Arena& arena, int rank);

  // Also false until the peer is attached.
  bool reachable(int peer);

 private:
  enum class Answer : uint8_t { unknown, no, yes };

  Arena& arena_;
  int rank_;
  uint64_t word_;
  std::vector<Answer> answers_;
};

// Copies non-overlapping memory of any size for use by another core: large blocks bypass the caches.
void copy_block(void* to, const void* from, size_t bytes);

}  // namespace braid::rt::shm
