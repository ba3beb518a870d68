// The ranks of one group, for kernels that read their memory (peer_collectives.h).
#pragma once

#include <cstdint>

namespace braid::rt::device {

constexpr int kPeerBlocks = 24;  // few enough that all blocks of a kernel run at once
constexpr int kPeerThreads = 512;
constexpr int kMostPeers = 72;  // that one device reaches by load and store: an NVLink domain

// A parameter of kernels, so that what is to be known of peers needs no memory of its own.
struct PeerGroup {
  char*
      segments[kMostPeers];  // the communication segment of each rank of the group, as this device reaches it
  uint64_t flags;            // offset of the group's flags in it: [block][rank that raises it]
  const int* abandoned;      // in pinned host memory; 1: the host has abandoned the step
  int rank, ranks;           // within the group
};

inline uint64_t peer_flag_bytes(int ranks) { return uint64_t{kPeerBlocks} * ranks * sizeof(unsigned); }

}  // namespace braid::rt::device
