// Reading and writing the ordinary memory of another process of this machine, with one copy and by the kernel
// (process_vm_readv(2)); the other one need not take part. Serves threads of one process as well: an address
// that is not mapped any more is an error and not a signal.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/comm/shm_arena.h"

namespace braid::rt::shm {

// False if the other process is gone, may not be touched, or has no such memory.
bool read_peer(int64_t pid, void* to, uint64_t from, size_t bytes);
bool write_peer(int64_t pid, uint64_t to, const void* from, size_t bytes);

// Which peers' memory may be touched; containers and security modules may forbid it, and no flag tells. So
// every rank shows a word of its memory, and who wants to know tries to read it.
class PeerMemory {
 public:
  // Shows this rank's word, before it is announced as attached.
  PeerMemory(Arena& arena, int rank);

  // False also as long as the peer is not there.
  bool reachable(int peer);

 private:
  enum class Answer : uint8_t { unknown, no, yes };

  Arena& arena_;
  int rank_;
  uint64_t word_;
  std::vector<Answer> answers_;
};

// Copies memory that does not overlap, of any size, for use by another core: large blocks go around the
// caches.
void copy_block(void* to, const void* from, size_t bytes);

}  // namespace braid::rt::shm
