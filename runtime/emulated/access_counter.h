// Counts the memory use of the warps of one launch: 32-byte sectors of global memory and wavefronts of shared
// memory, by the instruction that accesses it.
//
// Lanes run one after another, so a warp's access is put together from the k-th access that each lane makes
// at an instruction between two synchronisations of its warp. A barrier, or the end, of all its lanes is one
// synchronisation, and so is a warp operation for the lanes of its mask. So if a lane skips a turn of a loop,
// its later turns count as made together with earlier turns of other lanes. Lanes that synchronise separately
// from others count as separate.
//
// A pack (runtime/device/pack.h) is one access, even if the compiler reads or writes it in parts: the thread
// has announced it. An access of more than 16 bytes counts as several.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_set>
#include <vector>

#include "runtime/emulated/access_set.h"
#include "runtime/emulated/vector_types.h"

namespace braid::emulated {

constexpr size_t kSectorBytes = 32, kLineBytes = 128;

struct SiteTotals {
  uint64_t accesses = 0, lanes = 0, bytes = 0, units = 0, least = 0, lines = 0;
  void add(const SiteTotals& other) {
    accesses += other.accesses, lanes += other.lanes, bytes += other.bytes;
    units += other.units, least += other.least, lines += other.lines;
  }
};

struct SiteKey {
  uintptr_t code;  // the return address of the hook's call
  bool shared;
  uint8_t kind;  // 0: read, 1: write, 2: atomic
  auto operator<=>(const SiteKey&) const = default;
};

// The bytes of an access by one lane.
struct LaneAccess {
  uintptr_t address;
  uint32_t size;
};
// The cost of one access of a warp; at least one lane, each at most 16 bytes.
SiteTotals sectors_of(const std::vector<LaneAccess>& lanes);
SiteTotals wavefronts_of(const std::vector<LaneAccess>& lanes, const std::vector<int>& lane_numbers);

class AccessCounter {
 public:
  explicit AccessCounter(dim3 block);

  void begin_block();
  void run_thread(unsigned thread) { thread_ = thread; }
  // An access of the running thread. For shared memory the address is an offset in the array that begins at
  // `array`.
  void global(uintptr_t code, uintptr_t address, size_t size, AccessKind kind);
  void shared(uintptr_t code, uintptr_t array, uintptr_t offset, size_t size, AccessKind kind);
  // The running thread reads or writes all `bytes` at `address`, of device or shared memory, with one
  // instruction.
  void pack(uintptr_t address, size_t bytes, AccessKind kind);

  void arrive();                            // the running thread is at a barrier of the block, or has ended
  void warp_operation(unsigned lane_mask);  // of the running thread's warp, complete
  void barrier() { ++barriers_; }
  // Device memory that the kernel has touched, by intervals of its blocks or at once.
  void touched(const AccessRanges& ranges);

  void finish();  // lanes of a kernel that was given up
  uint64_t blocks() const { return blocks_; }
  uint64_t threads() const { return blocks_ * block_threads_; }
  uint64_t barriers() const { return barriers_; }
  uint64_t read_intervals() const { return read_intervals_; }
  uint64_t block_sectors() const { return block_sectors_; }
  uint64_t read_bytes() { return bytes_of(reads_); }
  uint64_t written_bytes() { return bytes_of(writes_); }
  const std::vector<SiteKey>& sites() const { return sites_; }
  const std::vector<SiteTotals>& totals() const { return totals_; }

 private:
  static constexpr int kLaneCount = 32;
  // Accesses of a lane at an instruction beyond these, without a synchronisation, count as those before.
  static constexpr size_t kMostKept = size_t{1} << 14;
  static constexpr size_t kMostOpen = 64;
  struct Lane {
    std::vector<LaneAccess> kept;
    uint64_t beyond = 0;
  };
  struct SiteOfWarp {
    std::array<Lane, kLaneCount> lanes;
    bool any = false;  // has accesses that are not counted yet
  };
  // A pack that a thread has announced and not yet accessed as a whole.
  struct OpenPack {
    uintptr_t address;
    size_t bytes;
    uint8_t kind;
    uint32_t done = 0;              // a bit per byte
    size_t site = 0, position = 0;  // of the access that the parts become
  };
  struct Warp {
    std::vector<SiteOfWarp> sites;
    unsigned arrived = 0;
    unsigned has_read = 0;  // lanes, since their last synchronisation
  };

  // `place`: where packs are announced.
  void access(const SiteKey& key, uintptr_t address, size_t size, uintptr_t place);
  // Null, or the pack to which an access belongs.
  OpenPack* pack_at(uintptr_t place, size_t size, uint8_t kind);
  void join(OpenPack& pack, uintptr_t address, size_t size);
  size_t site_of(const SiteKey& key);
  SiteOfWarp& of_warp(size_t site);
  void close(unsigned warp, unsigned lane_mask);
  void close(size_t index, SiteOfWarp& site, unsigned lane_mask);
  void add_to_block(const std::vector<LaneAccess>& lanes);
  static uint64_t bytes_of(std::vector<AccessRange>& ranges);

  unsigned block_threads_;
  unsigned thread_ = 0;
  uint64_t blocks_ = 0, barriers_ = 0, read_intervals_ = 0, block_sectors_ = 0;
  std::vector<SiteKey> sites_;
  std::vector<SiteTotals> totals_;
  std::map<SiteKey, size_t> site_numbers_;
  std::vector<Warp> warps_;
  std::vector<std::vector<OpenPack>> open_;         // by thread
  std::unordered_set<uintptr_t> sectors_of_block_;  // that the present block has read
  std::vector<AccessRange> reads_, writes_;
  size_t merge_at_ = 4096;
  std::vector<LaneAccess> group_;
  std::vector<int> group_lanes_;
};

// The counter of the kernel that runs on this host thread; null if nothing is counted.
extern __thread AccessCounter* current_counter __attribute__((tls_model("initial-exec")));

}  // namespace braid::emulated
