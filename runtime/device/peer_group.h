// The ranks of one group, for kernels that read their memory (peer_collectives.h).
#pragma once

#include <cstdint>

namespace braid::rt::device {

struct PeerGroup {
  ncclWindow_t window;   // over the communication segment
  uint64_t flags;        // offset of the group's flags in it: [block][rank that raises it]
  const int* abandoned;  // in pinned host memory; 1: the host has abandoned the step
  int rank, ranks;       // within the group
};

constexpr int kPeerBlocks = 24;  // few enough that all blocks of a kernel run at once
constexpr int kPeerThreads = 512;
constexpr int kMostPeers = kPeerThreads;  // a thread of each block for every peer's flag

inline uint64_t peer_flag_bytes(int ranks) { return uint64_t{kPeerBlocks} * ranks * sizeof(unsigned); }

}  // namespace braid::rt::device
