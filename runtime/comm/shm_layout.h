// The layout of a World's shared memory. It is initially zero; every word that several ranks access is
// atomic, or is written before and read after an atomic flag.
//
//   WorldHeader | RankLine x size | GroupEntry x kMaxGroups | segment of rank 0 | segment of rank 1 | ...
//   then, appended as groups are made: group blocks
//
//   group block:  GroupHeader | int members[n] | FingerprintLine x n | channel of all members |
//                 channel (src,dst) for each ordered pair
//   channel:      ProgressLine x k | PostLine[kRing] x k | staging x k
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "runtime/comm/communicator.h"

namespace braid::rt::shm {

inline constexpr uint32_t kMagic = 0x62726434;  // also the version of this layout
inline constexpr int kMaxGroups = 1024;
inline constexpr int kRing = Communicator::kMaxInFlight;
inline constexpr int kStagingSlots = 4;
inline constexpr size_t kPage = 4096;
inline constexpr int kLabelBytes = 48;
inline constexpr int kWaitBytes = 256;
inline constexpr int kReasonBytes = 6000;
inline constexpr int kFingerprintBytes = 2048;

static_assert(std::atomic<uint32_t>::is_always_lock_free && std::atomic<uint64_t>::is_always_lock_free);

// Sequence and round numbers wrap; they are compared by difference.
constexpr bool reached(uint32_t value, uint32_t goal) { return static_cast<int32_t>(value - goal) >= 0; }

inline constexpr size_t kLine = 64;  // bytes of a cache line

constexpr size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

// Set once, by the first rank that has an error.
struct AbortRecord {
  std::atomic<uint32_t> state;  // 0 none, 1 being written, 2 readable
  uint32_t code;
  char reason[kReasonBytes];
};

enum class RankState : uint32_t { absent, attached, left };

inline constexpr int kCoreWords = 16;

// The reason why a blocked rank waits (shm_waiting.h).
struct alignas(128) WaitLine {
  std::atomic<uint32_t> number;  // odd while a wait is published
  std::atomic<uint32_t> looks;   // in this wait
  std::atomic<uint32_t>
      target;  // twice the rank that it waits for; one more if that has not started its part
  std::atomic<uint64_t> call[kWaitBytes / 8];
};

struct alignas(128) RankLine {
  // The rank sleeps on `bell`. `sleep_on` says for whose news it waits: kAwake, kAnyone, or a rank plus
  // kFirstRank.
  std::atomic<uint32_t> bell;
  std::atomic<uint32_t> sleep_on;
  std::atomic<uint32_t> state;  // RankState
  int64_t pid;                  // ProcessIdentity, written before `state`
  uint64_t start_time;
  uint64_t pid_namespace;
  uint64_t cores[kCoreWords];  // bit c: this rank may run on core c
  WaitLine wait;
  uint64_t word_address;  // of a word in this rank's ordinary memory, and its value (peer_memory.h)
  uint64_t word;
};
inline constexpr uint32_t kAwake = 0;
inline constexpr uint32_t kAnyone = 1;
inline constexpr uint32_t kFirstRank = 2;

struct GroupEntry {
  uint64_t key;     // hash of name, members and occurrence; 0: free
  uint64_t offset;  // of the group block in the file
  uint64_t bytes;
};

struct WorldHeader {
  std::atomic<uint32_t> magic;  // set last by the creator
  uint32_t size;
  uint64_t segment_bytes;
  uint64_t staging_bytes;
  uint32_t peer_reads;  // WorldOptions::peer_reads
  uint32_t worker;      // WorldOptions::worker
  int32_t compute_threads;
  pthread_mutex_t groups_mutex;  // robust: a rank may die while it holds it
  uint64_t file_bytes;           // guarded by groups_mutex, as are group_count and the entries
  uint32_t group_count;
  std::atomic<uint32_t> no_membarrier;  // 1 once a rank cannot take part in expedited barriers
  AbortRecord abort;
};

struct GroupHeader {
  char name[64];
  uint32_t size;
  uint32_t occurrence;
  uint64_t channel_staging;  // bytes of one staging slot of the channel of all members
  uint64_t pair_staging;     // of a pair channel
};

// Written by one member, read by all. Both counters only grow.
struct alignas(128) ProgressLine {
  std::atomic<uint32_t> avail;      // rounds whose input this member has put into its staging
  std::atomic<uint32_t> consumed;   // rounds in which this member has finished with all others' memory
  std::atomic<uint32_t> phase;      // rounds whose slice this member has reduced (two-shot)
  std::atomic<uint32_t> joined;     // 1 once the member has made its Communicator
  std::atomic<uint32_t> reads_all;  // 1 once the member knows that it can read all others' ordinary memory
  std::atomic<uint64_t>
      claims;  // of a message by its source: sequence number + 1, and below it the pieces taken
};

// One collective as its member called it. Peers compare it with their own and find the data through it.
// Everything that a small collective needs from a peer is in the first cache line.
struct alignas(128) PostLine {
  std::atomic<uint32_t> seq;  // sequence number of the collective + 1, written last
  uint8_t kind;
  uint8_t dtype;
  uint8_t op;
  uint8_t flags;  // kInputDirect, kOutputDirect, and the algorithm hint in the upper bits
  uint64_t count;
  uint64_t input_offset;   // in the member's segment, if kInputDirect; else its address
  uint64_t output_offset;  // if kOutputDirect; else its address
  int32_t root;
  uint32_t avail;     // ProgressLine::avail when this was written
  uint32_t consumed;  // ProgressLine::consumed then: so a later collective proves earlier ones consumed
  int64_t start_ns;   // monotonic clock, only for engines that pace
  std::atomic<uint64_t> label[kLabelBytes / 8];
};
inline constexpr uint8_t kInputDirect = 1;
inline constexpr uint8_t kOutputDirect = 2;
inline constexpr uint8_t kInPlace = 4;
inline constexpr uint8_t kRemote = 8;  // peers may read data that is not direct at its address
inline constexpr uint8_t kAlgorithmShift = 4;

struct alignas(128) FingerprintLine {
  uint64_t hash;
  char text[kFingerprintBytes];
};

}  // namespace braid::rt::shm
