// Races within a launch: between threads of one block, and between blocks.
//
// Order within a block comes from its barriers and, among the lanes that take part, from __syncwarp. Shuffles
// and votes order nothing, and neither do atomics. Blocks are not ordered at all. Two unordered accesses of
// the same byte race if one of them is a write and not both are atomic. The order in which the fibers
// happened to run does not matter.
//
// Time is counted per launch in events: a new block, a barrier, a __syncwarp. An access is stamped with the
// latest event of its warp and its thread. Each word (each byte, in a page with smaller accesses) keeps the
// stamp of its last write and those of enough reads since then to find every race with a later write:
// FastTrack (Flanagan and Freund, 2009) with barriers in place of vector clocks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "runtime/emulated/access_set.h"

namespace braid::emulated {

class BlockRaces {
 public:
  struct Side {
    AccessKind kind;
    unsigned block;  // counted from 0 in the order of begin_block
    unsigned thread;
  };
  struct Race {
    uintptr_t address;
    Side earlier, later;
  };

  explicit BlockRaces(std::function<void(const Race&)> report) : report_(std::move(report)) {}

  void begin_launch(unsigned threads);
  void begin_block();
  // Blocks may be ordered by flags: their races are left to the checker, which knows the order.
  void leave_blocks_to_checker() { check_blocks_ = false; }
  // All threads of the block have met.
  void barrier();
  // The lanes of `mask` have met and see each other's accesses.
  void warp_barrier(unsigned warp, unsigned mask);
  // Which thread makes the next accesses.
  void run_thread(unsigned thread) {
    thread_ = thread;
    me_ = stamp(warp_time_[thread / 32], thread);
  }

  unsigned thread() const { return thread_; }

  void global(uintptr_t address, size_t size, AccessKind kind) { access(address, size, kind, launch_begin_); }
  // The contents of shared memory do not outlive a block, and neither do races.
  void shared(uintptr_t address, size_t size, AccessKind kind) { access(address, size, kind, block_begin_); }

 private:
  using Stamp = uint64_t;  // event << 16 | thread; 0: none
  static constexpr uint64_t kMask = uint64_t{1} << 63, kList = uint64_t{1} << 62;
  static constexpr size_t kCached = 256;

  struct Cell {
    Stamp write = 0;
    Stamp read = 0;  // of one reader since the write
    // The other readers. 0: none; kMask | lanes: of the same warp and event, `read` included; kList | index:
    // in lists_, with all readers and atomic accesses; otherwise the stamp of a reader of another warp, and
    // then no more are kept, as every later write races with one of the two or follows a barrier.
    uint64_t more = 0;
  };
  struct Page {
    uintptr_t number = 0;
    bool bytes = false;  // a cell per byte, otherwise per 4 bytes
    std::vector<Cell> cells;
  };
  struct List {
    std::vector<Stamp> reads, atomics;
  };

  static constexpr Stamp kNobody = 0x8000;  // a thread that does not exist

  static Stamp stamp(uint64_t event, unsigned thread) { return event << 16 | thread; }
  static uint64_t event_of(Stamp s) { return s >> 16; }
  static unsigned thread_of(Stamp s) { return s & 0xffff; }

  void access(uintptr_t address, size_t size, AccessKind kind, Stamp oldest) {
    Page*& cached = cache_[address / kPageBytes % kCached];
    if (cached == nullptr || cached->number != address / kPageBytes ||
        address % kPageBytes + size > kPageBytes || (!cached->bytes && ((address | size) & 3) != 0)) {
      access_slowly(address, size, kind, oldest);
      return;
    }
    access_page(*cached, address, size, kind, oldest);
  }
  void access_page(Page& page, uintptr_t address, size_t size, AccessKind kind, Stamp oldest) {
    const unsigned shift = page.bytes ? 0 : 2;
    Cell* cell = page.cells.data() + (address % kPageBytes >> shift);
    const size_t count = size >> shift;
    if (kind == AccessKind::kRead) {
      for (size_t i = 0; i < count; ++i) read(cell[i], address + (i << shift), oldest);
    } else if (kind == AccessKind::kWrite) {
      for (size_t i = 0; i < count; ++i) write(cell[i], address + (i << shift), oldest);
    } else {
      for (size_t i = 0; i < count; ++i) atomic(cell[i], address + (i << shift), oldest);
    }
  }
  void read(Cell& cell, uintptr_t address, Stamp oldest) {
    if (cell.write >= oldest && cell.write != me_)
      follow(cell.write, AccessKind::kWrite, address, AccessKind::kRead);
    if (cell.read == me_) return;
    if (cell.read < oldest) {
      cell.read = me_;
      cell.more = 0;
    } else {
      add_reader(cell, address);
    }
  }
  void write(Cell& cell, uintptr_t address, Stamp oldest) {
    if (cell.write >= oldest && cell.write != me_)
      follow(cell.write, AccessKind::kWrite, address, AccessKind::kWrite);
    if (cell.read >= oldest && (cell.read != me_ || cell.more != 0))
      follow_readers(cell, address, AccessKind::kWrite);
    cell.write = me_;
    cell.read = 0;
    cell.more = 0;
  }
  void atomic(Cell& cell, uintptr_t address, Stamp oldest);

  void access_slowly(uintptr_t address, size_t size, AccessKind kind, Stamp oldest);
  Page& page_of(uintptr_t number);
  void split(Page& page);
  void add_reader(Cell& cell, uintptr_t address);
  void follow_readers(const Cell& cell, uintptr_t address, AccessKind mine);
  void follow(Stamp other, AccessKind kind, uintptr_t address, AccessKind mine) {
    if (!ordered(other)) conflict(other, kind, address, mine);
  }
  void conflict(Stamp other, AccessKind kind, uintptr_t address, AccessKind mine);
  // Returns whether an access with this stamp is ordered before the running thread's present ones.
  bool ordered(Stamp other) const;
  List& list_of(Cell& cell, bool fresh);
  void add(std::vector<Stamp>& stamps) const;
  unsigned block_of(Stamp s) const;
  template <class Function>
  static void for_each_lane(const Cell& cell, const Function& function);

  std::function<void(const Race&)> report_;
  std::unordered_map<uintptr_t, std::unique_ptr<Page>>
      pages_;  // kept for later launches; old stamps count for nothing
  std::array<Page*, kCached> cache_{};
  std::vector<List> lists_;  // of this launch
  size_t lists_used_ = 0;

  uint64_t event_ = 0, barrier_event_ = 0;
  Stamp launch_begin_ = 0, block_begin_ = 0, me_ = 0;
  unsigned thread_ = 0;
  bool check_blocks_ = true;
  std::vector<uint64_t> block_events_;  // of this launch
  std::vector<uint64_t> warp_time_;     // a warp's latest event
  // The order that __syncwarp has made since the last barrier: a lane's accesses before event known[me][lane]
  // precede mine.
  struct Lanes {
    uint64_t since = 0;  // the barrier; of another one: nothing ordered
    std::array<std::array<uint64_t, 32>, 32> known;
  };
  std::vector<Lanes> warps_;
};

// The checker of the block that runs on this host thread; null outside kernels and where accesses are not
// checked.
extern __thread BlockRaces* current_races __attribute__((tls_model("initial-exec")));

}  // namespace braid::emulated
