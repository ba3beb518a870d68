#include "runtime/emulated/block_races.h"

#include <algorithm>

namespace braid::emulated {

__thread BlockRaces* current_races __attribute__((tls_model("initial-exec"))) = nullptr;

namespace {
constexpr size_t kKeptPages = 8192;  // about 200 MiB
}

void BlockRaces::begin_launch(unsigned threads) {
  if (pages_.size() > kKeptPages) {
    pages_.clear();
    cache_ = {};
  }
  const size_t warps = (threads + 31) / 32;
  warp_time_.resize(warps);
  if (warps_.size() < warps) warps_.resize(warps);
  lists_used_ = 0;
  check_blocks_ = true;
  block_events_.clear();
  launch_begin_ = stamp(event_ + 1, 0);
}

void BlockRaces::begin_block() {
  barrier();
  block_begin_ = stamp(event_, 0);
  block_events_.push_back(event_);
}

void BlockRaces::barrier() {
  barrier_event_ = ++event_;
  std::fill(warp_time_.begin(), warp_time_.end(), event_);
  run_thread(thread_ < warp_time_.size() * 32 ? thread_ : 0);
}

void BlockRaces::warp_barrier(unsigned warp, unsigned mask) {
  Lanes& lanes = warps_[warp];
  if (lanes.since != barrier_event_) {
    lanes.since = barrier_event_;
    for (auto& known : lanes.known) known.fill(0);
  }
  ++event_;
  std::array<uint64_t, 32> joined{};
  for (unsigned lane = 0; lane < 32; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    for (unsigned i = 0; i < 32; ++i) joined[i] = std::max(joined[i], lanes.known[lane][i]);
  }
  for (unsigned lane = 0; lane < 32; ++lane)
    if ((mask >> lane & 1) != 0) joined[lane] = event_;
  for (unsigned lane = 0; lane < 32; ++lane)
    if ((mask >> lane & 1) != 0) lanes.known[lane] = joined;
  warp_time_[warp] = event_;
  run_thread(thread_);
}

bool BlockRaces::ordered(Stamp other) const {
  if (other < block_begin_) return !check_blocks_;
  if (event_of(other) < barrier_event_) return true;
  const unsigned thread = thread_of(other);
  if (thread == thread_) return true;
  if (thread / 32 != thread_ / 32) return false;
  const Lanes& lanes = warps_[thread / 32];
  return lanes.since == barrier_event_ && event_of(other) < lanes.known[thread_ % 32][thread % 32];
}

unsigned BlockRaces::block_of(Stamp s) const {
  const auto after = std::upper_bound(block_events_.begin(), block_events_.end(), event_of(s));
  return static_cast<unsigned>(after - block_events_.begin()) - 1;
}

void BlockRaces::conflict(Stamp other, AccessKind kind, uintptr_t address, AccessKind mine) {
  report_({address, {kind, block_of(other), thread_of(other)}, {mine, block_of(me_), thread_}});
}

template <class Function>
void BlockRaces::for_each_lane(const Cell& cell, const Function& function) {
  for (uint64_t rest = cell.more & 0xffffffffu; rest != 0; rest &= rest - 1)
    function(stamp(event_of(cell.read),
                   thread_of(cell.read) / 32 * 32 + static_cast<unsigned>(__builtin_ctzll(rest))));
}

BlockRaces::List& BlockRaces::list_of(Cell& cell, bool fresh) {
  if (!fresh && (cell.more & kList) != 0) {
    cell.read = me_ | kNobody;
    return lists_[cell.more & ~kList];
  }
  if (lists_used_ == lists_.size()) lists_.emplace_back();
  List& list = lists_[lists_used_];
  list.reads.clear();
  list.atomics.clear();
  if (!fresh) {
    if ((cell.more & kMask) != 0) {
      for_each_lane(cell, [&](Stamp s) { list.reads.push_back(s); });
    } else {
      list.reads.push_back(cell.read);
      if (cell.more != 0) list.reads.push_back(cell.more);
    }
  }
  cell.read = me_ | kNobody;  // only says that the list is of this launch
  cell.more = kList | lists_used_++;
  return list;
}

// Stamps that precede me are dropped: accesses that follow me follow them too. Beyond one stamp of another
// block, or two of different warps, no more are needed: any later access races with one of them or follows a
// barrier.
void BlockRaces::add(std::vector<Stamp>& stamps) const {
  std::erase_if(stamps, [&](Stamp s) { return ordered(s); });
  for (const Stamp s : stamps)
    if (s < block_begin_ || thread_of(s) / 32 != thread_of(stamps.front()) / 32) return;
  stamps.push_back(me_);
}

void BlockRaces::add_reader(Cell& cell, uintptr_t address) {
  if ((cell.more & kList) != 0) {
    List& list = list_of(cell, false);
    for (const Stamp s : list.atomics) follow(s, AccessKind::kAtomic, address, AccessKind::kRead);
    add(list.reads);
    return;
  }
  const auto start_with_me = [&] {
    cell.read = me_;
    cell.more = 0;
  };
  if (cell.read < block_begin_) {
    if (!check_blocks_) start_with_me();
    return;  // otherwise every later write races with it
  }
  if (event_of(cell.read) < barrier_event_) return start_with_me();
  if (cell.more != 0 && (cell.more & kMask) == 0) return;
  const unsigned reader = thread_of(cell.read);
  if (reader / 32 != thread_ / 32) {
    cell.more = me_;
    return;
  }
  const uint64_t mine = uint64_t{1} << thread_ % 32;
  if (event_of(cell.read) == event_of(me_)) {
    cell.more |= kMask | uint64_t{1} << reader % 32 | mine;
    return;
  }
  bool all_ordered = ordered(cell.read);
  if ((cell.more & kMask) != 0)
    for_each_lane(cell, [&](Stamp s) { all_ordered = all_ordered && ordered(s); });
  if (all_ordered) return start_with_me();
  add(list_of(cell, false).reads);
}

void BlockRaces::follow_readers(const Cell& cell, uintptr_t address, AccessKind mine) {
  if ((cell.more & kList) != 0) {
    const List& list = lists_[cell.more & ~kList];
    for (const Stamp s : list.reads) follow(s, AccessKind::kRead, address, mine);
    if (mine == AccessKind::kAtomic || mine == AccessKind::kAtomicStore) return;
    for (const Stamp s : list.atomics) follow(s, AccessKind::kAtomic, address, mine);
  } else if ((cell.more & kMask) != 0) {
    for_each_lane(cell, [&](Stamp s) { follow(s, AccessKind::kRead, address, mine); });
  } else {
    follow(cell.read, AccessKind::kRead, address, mine);
    if (cell.more != 0) follow(cell.more, AccessKind::kRead, address, mine);
  }
}

void BlockRaces::atomic(Cell& cell, uintptr_t address, Stamp oldest) {
  if (cell.write >= oldest) follow(cell.write, AccessKind::kWrite, address, AccessKind::kAtomic);
  const bool fresh = cell.read < oldest;
  if (!fresh) follow_readers(cell, address, AccessKind::kAtomic);
  add(list_of(cell, fresh).atomics);
}

BlockRaces::Page& BlockRaces::page_of(uintptr_t number) {
  auto& page = pages_[number];
  if (!page) {
    page = std::make_unique<Page>();
    page->number = number;
    page->cells.resize(kPageBytes / 4);
  }
  return *(cache_[number % kCached] = page.get());
}

void BlockRaces::split(Page& page) {
  std::vector<Cell> bytes(kPageBytes);
  for (size_t i = 0; i < kPageBytes; ++i) {
    bytes[i] = page.cells[i / 4];
    if (i % 4 == 0 || (bytes[i].more & kList) == 0) continue;
    const size_t list = bytes[i].more & ~kList;
    if (list >= lists_used_) continue;  // of an earlier launch
    if (lists_used_ == lists_.size()) lists_.emplace_back();
    lists_[lists_used_] = lists_[list];
    bytes[i].more = kList | lists_used_++;
  }
  page.cells = std::move(bytes);
  page.bytes = true;
}

void BlockRaces::access_slowly(uintptr_t address, size_t size, AccessKind kind, Stamp oldest) {
  const uintptr_t end = address + size;
  while (address < end) {
    Page& page = page_of(address / kPageBytes);
    const uintptr_t stop = std::min(end, (page.number + 1) * kPageBytes);
    if (!page.bytes && ((address | stop) & 3) != 0) split(page);
    access_page(page, address, stop - address, kind, oldest);
    address = stop;
  }
}

}  // namespace braid::emulated
