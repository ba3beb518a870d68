#include "runtime/emulated/access_counter.h"

#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

namespace braid::emulated {

__thread AccessCounter* current_counter __attribute__((tls_model("initial-exec"))) = nullptr;

namespace {

constexpr size_t kWidest = 16;  // of an access of a thread
constexpr uintptr_t kBanks = 32, kBankBytes = 4;

uint8_t kind_of(AccessKind kind) {
  return kind == AccessKind::kRead ? 0 : kind == AccessKind::kWrite ? 1 : 2;
}

uint64_t divided_up(uint64_t value, uint64_t by) { return (value + by - 1) / by; }

// Without overlaps, in ascending order.
std::vector<LaneAccess> joined(std::vector<LaneAccess> lanes) {
  const auto before = [](const LaneAccess& a, const LaneAccess& b) { return a.address < b.address; };
  if (!std::is_sorted(lanes.begin(), lanes.end(), before)) std::sort(lanes.begin(), lanes.end(), before);
  size_t last = 0;
  for (size_t i = 1; i < lanes.size(); ++i) {
    const uintptr_t end = lanes[last].address + lanes[last].size;
    if (lanes[i].address <= end)
      lanes[last].size =
          static_cast<uint32_t>(std::max(end, lanes[i].address + lanes[i].size) - lanes[last].address);
    else
      lanes[++last] = lanes[i];
  }
  lanes.resize(last + 1);
  return lanes;
}

}  // namespace

SiteTotals sectors_of(const std::vector<LaneAccess>& lanes) {
  SiteTotals totals{.accesses = 1, .lanes = lanes.size()};
  for (const LaneAccess& lane : lanes) totals.bytes += lane.size;
  uint64_t distinct = 0;
  uintptr_t sectors = 0, lines = 0;  // those below are counted
  const auto count = [](const LaneAccess& range, size_t unit, uintptr_t& below, uint64_t& units) {
    const uintptr_t first = std::max(range.address / unit, below);
    const uintptr_t end = (range.address + range.size - 1) / unit + 1;
    if (end > first) units += end - first;
    below = std::max(below, end);
  };
  for (const LaneAccess& range : joined(lanes)) {
    count(range, kSectorBytes, sectors, totals.units);
    count(range, kLineBytes, lines, totals.lines);
    distinct += range.size;
  }
  totals.least = divided_up(distinct, kSectorBytes);
  return totals;
}

// Lanes go together as long as they move 128 bytes: all 32 of up to 4 bytes each, 16 of 8 bytes, 8 of 16.
SiteTotals wavefronts_of(const std::vector<LaneAccess>& lanes, const std::vector<int>& lane_numbers) {
  SiteTotals totals{.accesses = 1, .lanes = lanes.size()};
  uint32_t widest = 1;
  for (const LaneAccess& lane : lanes) totals.bytes += lane.size, widest = std::max(widest, lane.size);
  const int together = widest <= 4 ? 32 : widest <= 8 ? 16 : 8;
  for (size_t i = 0; i < lanes.size();) {
    const int part = lane_numbers[i] / together;
    std::vector<uintptr_t> words;
    for (; i < lanes.size() && lane_numbers[i] / together == part; ++i) {
      const uintptr_t end = (lanes[i].address + lanes[i].size - 1) / kBankBytes;
      for (uintptr_t word = lanes[i].address / kBankBytes; word <= end; ++word) words.push_back(word);
    }
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    std::array<uint32_t, kBanks> of_bank{};
    for (const uintptr_t word : words) ++of_bank[word % kBanks];
    totals.units += *std::max_element(of_bank.begin(), of_bank.end());
    totals.least += divided_up(words.size(), kBanks);
  }
  return totals;
}

AccessCounter::AccessCounter(dim3 block) : block_threads_(block.x * block.y * block.z) {
  warps_.resize((block_threads_ + kLaneCount - 1) / kLaneCount);
  open_.resize(block_threads_);
}

void AccessCounter::begin_block() {
  ++blocks_;
  sectors_of_block_.clear();
}

size_t AccessCounter::site_of(const SiteKey& key) {
  const auto [found, added] = site_numbers_.emplace(key, sites_.size());
  if (added) {
    sites_.push_back(key);
    totals_.emplace_back();
  }
  return found->second;
}

AccessCounter::SiteOfWarp& AccessCounter::of_warp(size_t site) {
  std::vector<SiteOfWarp>& sites = warps_[thread_ / kLaneCount].sites;
  if (sites.size() <= site) sites.resize(sites_.size());
  return sites[site];
}

void AccessCounter::global(uintptr_t code, uintptr_t address, size_t size, AccessKind kind) {
  access({code, false, kind_of(kind)}, address, size, address);
}

void AccessCounter::shared(uintptr_t code, uintptr_t array, uintptr_t offset, size_t size, AccessKind kind) {
  access({code, true, kind_of(kind)}, offset, size, array + offset);
}

void AccessCounter::pack(uintptr_t address, size_t bytes, AccessKind kind) {
  if (bytes > kWidest) return;
  std::vector<OpenPack>& open = open_[thread_];
  if (open.size() == kMostOpen)
    open.erase(open.begin());  // parts of it that the program does not use were never accessed
  open.push_back({address, bytes, kind_of(kind)});
}

void AccessCounter::access(const SiteKey& key, uintptr_t address, size_t size, uintptr_t place) {
  for (; size > kWidest; address += kWidest, place += kWidest, size -= kWidest)
    access(key, address, kWidest, place);
  OpenPack* pack = pack_at(place, size, key.kind);
  const bool begun = pack != nullptr && pack->done != 0;
  if (pack != nullptr) pack->done |= ((1u << size) - 1) << (place - pack->address);
  if (begun) {
    join(*pack, address, size);
  } else {
    const size_t index = site_of(key);
    SiteOfWarp& site = of_warp(index);
    Lane& lane = site.lanes[thread_ % kLaneCount];
    if (pack != nullptr) pack->site = index, pack->position = lane.kept.size();
    site.any = true;
    if (lane.kept.size() < kMostKept)
      lane.kept.push_back({address, static_cast<uint32_t>(size)});
    else
      ++lane.beyond;
    if (!key.shared && key.kind == 0) warps_[thread_ / kLaneCount].has_read |= 1u << thread_ % kLaneCount;
  }
  if (pack != nullptr && pack->done == (1u << pack->bytes) - 1)
    open_[thread_].erase(open_[thread_].begin() + (pack - open_[thread_].data()));
}

AccessCounter::OpenPack* AccessCounter::pack_at(uintptr_t place, size_t size, uint8_t kind) {
  for (OpenPack& pack : open_[thread_]) {
    if (pack.kind != kind || place < pack.address || place + size > pack.address + pack.bytes) continue;
    const uint32_t part = ((1u << size) - 1) << (place - pack.address);
    if ((pack.done & part) == 0) return &pack;
  }
  return nullptr;
}

void AccessCounter::join(OpenPack& pack, uintptr_t address, size_t size) {
  std::vector<LaneAccess>& kept = of_warp(pack.site).lanes[thread_ % kLaneCount].kept;
  if (pack.position >= kept.size()) return;  // beyond those kept
  LaneAccess& whole = kept[pack.position];
  const uintptr_t end = std::max(whole.address + whole.size, address + size);
  whole.address = std::min(whole.address, address);
  whole.size = static_cast<uint32_t>(end - whole.address);
}

void AccessCounter::arrive() {
  const unsigned index = thread_ / kLaneCount;
  Warp& warp = warps_[index];
  const unsigned lanes = std::min<unsigned>(kLaneCount, block_threads_ - index * kLaneCount);
  if (++warp.arrived < lanes) return;
  warp.arrived = 0;
  close(index, 0xffffffffu);
}

void AccessCounter::warp_operation(unsigned lane_mask) { close(thread_ / kLaneCount, lane_mask); }

void AccessCounter::close(unsigned index, unsigned lane_mask) {
  Warp& warp = warps_[index];
  for (size_t site = 0; site < warp.sites.size(); ++site) close(site, warp.sites[site], lane_mask);
  read_intervals_ += static_cast<uint64_t>(std::popcount(warp.has_read & lane_mask));
  warp.has_read &= ~lane_mask;
  for (unsigned lane = 0; lane < kLaneCount; ++lane) {
    const unsigned thread = index * kLaneCount + lane;
    if ((lane_mask >> lane & 1) != 0 && thread < block_threads_) open_[thread].clear();
  }
}

// The first reads of sectors by their block.
void AccessCounter::add_to_block(const std::vector<LaneAccess>& lanes) {
  for (const LaneAccess& lane : lanes)
    for (uintptr_t sector = lane.address / kSectorBytes;
         sector <= (lane.address + lane.size - 1) / kSectorBytes; ++sector)
      if (sectors_of_block_.insert(sector).second) ++block_sectors_;
}

void AccessCounter::close(size_t index, SiteOfWarp& site, unsigned lane_mask) {
  if (!site.any) return;
  if (lane_mask == 0xffffffffu) site.any = false;
  SiteTotals totals;
  uint64_t beyond = 0;
  for (size_t k = 0;; ++k) {
    group_.clear();
    group_lanes_.clear();
    for (int lane = 0; lane < kLaneCount; ++lane) {
      const Lane& of_lane = site.lanes[static_cast<size_t>(lane)];
      if ((lane_mask >> lane & 1) == 0 || of_lane.kept.size() <= k) continue;
      group_.push_back(of_lane.kept[k]);
      group_lanes_.push_back(lane);
    }
    if (group_.empty()) break;
    totals.add(sites_[index].shared ? wavefronts_of(group_, group_lanes_) : sectors_of(group_));
    if (!sites_[index].shared && sites_[index].kind == 0) add_to_block(group_);
  }
  for (int lane = 0; lane < kLaneCount; ++lane) {
    if ((lane_mask >> lane & 1) == 0) continue;
    Lane& of_lane = site.lanes[static_cast<size_t>(lane)];
    beyond += std::exchange(of_lane.beyond, 0);
    of_lane.kept.clear();
  }
  if (beyond > 0) {
    const auto scaled = [&](uint64_t& value) {
      value = static_cast<uint64_t>(static_cast<double>(value) *
                                    (1 + static_cast<double>(beyond) / static_cast<double>(totals.lanes)));
    };
    const uint64_t lanes_before = totals.lanes;
    scaled(totals.accesses), scaled(totals.bytes), scaled(totals.units), scaled(totals.least),
        scaled(totals.lines);
    totals.lanes = lanes_before + beyond;
  }
  totals_[index].add(totals);
}

void AccessCounter::finish() {
  for (unsigned warp = 0; warp < warps_.size(); ++warp) close(warp, 0xffffffffu);
}

void AccessCounter::touched(const AccessRanges& ranges) {
  const auto add = [](std::vector<AccessRange>& all, const std::vector<AccessRange>& more) {
    for (const AccessRange& r : more)
      all.push_back({r.allocation, r.begin / kSectorBytes * kSectorBytes,
                     divided_up(r.end, kSectorBytes) * kSectorBytes});
  };
  add(reads_, ranges.reads);
  add(writes_, ranges.writes), add(writes_, ranges.atomics);
  if (reads_.size() + writes_.size() < merge_at_) return;
  bytes_of(reads_), bytes_of(writes_);
  merge_at_ = std::max<size_t>(merge_at_, 2 * (reads_.size() + writes_.size()));
}

// Joins ranges that overlap or touch.
uint64_t AccessCounter::bytes_of(std::vector<AccessRange>& ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const AccessRange& a, const AccessRange& b) {
    return std::tie(a.allocation, a.begin) < std::tie(b.allocation, b.begin);
  });
  std::vector<AccessRange> result;
  uint64_t bytes = 0;
  for (const AccessRange& range : ranges) {
    if (!result.empty() && result.back().allocation == range.allocation && range.begin <= result.back().end)
      result.back().end = std::max(result.back().end, range.end);
    else
      result.push_back(range);
  }
  for (const AccessRange& range : result) bytes += range.end - range.begin;
  ranges = std::move(result);
  return bytes;
}

}  // namespace braid::emulated
