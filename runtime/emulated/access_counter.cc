#include "runtime/emulated/access_counter.h"

#include <algorithm>
#include <bit>
#include <tuple>

namespace braid::emulated {

__thread AccessCounter* current_counter __attribute__((tls_model("initial-exec"))) = nullptr;

namespace {

constexpr size_t kWidest = 16;  // of an access of a thread
constexpr uintptr_t kBanks = 32, kBankBytes = 4;
constexpr size_t kFirstTable = 256;

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
  SiteTotals totals{1, lanes.size(), 0, 0, 0};
  for (const LaneAccess& lane : lanes) totals.bytes += lane.size;
  uint64_t distinct = 0;
  uintptr_t counted = 0;  // sectors below it are
  for (const LaneAccess& range : joined(lanes)) {
    const uintptr_t first = std::max(range.address / kSectorBytes, counted);
    const uintptr_t end = (range.address + range.size - 1) / kSectorBytes + 1;
    if (end > first) totals.units += end - first;
    counted = std::max(counted, end);
    distinct += range.size;
  }
  totals.least = divided_up(distinct, kSectorBytes);
  return totals;
}

// Lanes go together as long as they move 128 bytes: all 32 of up to 4 bytes each, 16 of 8 bytes, 8 of 16.
SiteTotals wavefronts_of(const std::vector<LaneAccess>& lanes, const std::vector<int>& lane_numbers) {
  SiteTotals totals{1, lanes.size(), 0, 0, 0};
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

AccessCounter::AccessCounter(dim3 block) : block_threads_(block.x * block.y * block.z), table_(kFirstTable) {
  warps_.resize((block_threads_ + kLaneCount - 1) / kLaneCount);
}

size_t AccessCounter::site_of(const SiteKey& key) {
  const auto slot_of = [&](const SiteKey& k) {
    const uint64_t mixed = (k.code * 8 + k.kind * 2u + (k.shared ? 1 : 0)) * 0x9e3779b97f4a7c15u;
    return mixed >> 32 & (table_.size() - 1);
  };
  size_t slot = slot_of(key);
  for (; table_[slot] != 0; slot = (slot + 1) & (table_.size() - 1))
    if (sites_[table_[slot] - 1] == key) return table_[slot] - 1;
  sites_.push_back(key);
  totals_.emplace_back();
  table_[slot] = static_cast<uint32_t>(sites_.size());
  if (sites_.size() * 2 > table_.size()) {
    table_.assign(table_.size() * 2, 0);
    for (size_t i = 0; i < sites_.size(); ++i) {
      slot = slot_of(sites_[i]);
      while (table_[slot] != 0) slot = (slot + 1) & (table_.size() - 1);
      table_[slot] = static_cast<uint32_t>(i + 1);
    }
  }
  return sites_.size() - 1;
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

void AccessCounter::packs(uintptr_t begin, uintptr_t end, size_t bytes) {
  if (bytes > kWidest) return;
  for (Packed& packed : packed_) {
    if (packed.begin != begin || packed.end != end) continue;
    packed.bytes = std::max(packed.bytes, bytes);
    return;
  }
  packed_.push_back({begin, end, bytes, std::vector<OpenPack>(block_threads_)});
}

bool AccessCounter::takes_packs(uintptr_t address, size_t bytes) const {
  return std::any_of(packed_.begin(), packed_.end(), [&](const Packed& packed) {
    return address - packed.begin < packed.end - packed.begin && packed.bytes >= bytes;
  });
}

// `place`: the address by which arrays of packs are known.
void AccessCounter::access(const SiteKey& key, uintptr_t address, size_t size, uintptr_t place) {
  for (; size > kWidest; address += kWidest, place += kWidest, size -= kWidest)
    access(key, address, kWidest, place);
  Packed* packed = nullptr;
  for (Packed& candidate : packed_)
    if (place - candidate.begin < candidate.end - candidate.begin) packed = &candidate;
  if (packed != nullptr && joins_pack(*packed, key, address, size, place)) return;
  const size_t index = site_of(key);
  SiteOfWarp& site = of_warp(index);
  if (packed != nullptr) begin_pack(*packed, index, size, place);
  if (!key.shared) {
    if (key.kind == 0)
      count_load(site);
    else
      warps_[thread_ / kLaneCount].batch_is_open[thread_ % kLaneCount] = false;
  }
  site.any = true;
  Lane& lane = site.lanes[thread_ % kLaneCount];
  if (lane.kept.size() < kMostKept)
    lane.kept.push_back({address, static_cast<uint32_t>(size)});
  else
    ++lane.beyond;
}

bool AccessCounter::joins_pack(Packed& packed, const SiteKey& key, uintptr_t address, size_t size,
                               uintptr_t place) {
  OpenPack& open = packed.open[thread_];
  const uintptr_t offset = place % packed.bytes;
  if (open.at != place - offset || open.site.kind != key.kind || offset + size > packed.bytes) return false;
  const uint32_t bytes = ((1u << size) - 1) << offset;
  if ((open.done & bytes) != 0) return false;
  Lane& lane = of_warp(site_of(open.site)).lanes[thread_ % kLaneCount];
  if (open.index >= lane.kept.size()) return false;  // counted already, or not kept
  LaneAccess& before = lane.kept[open.index];
  const uintptr_t begin = std::min(before.address, address);
  before.size = static_cast<uint32_t>(std::max(before.address + before.size, address + size) - begin);
  before.address = begin;
  open.done |= bytes;
  return true;
}

void AccessCounter::begin_pack(Packed& packed, size_t site, size_t size, uintptr_t place) {
  const uintptr_t offset = place % packed.bytes;
  const Lane& lane = of_warp(site).lanes[thread_ % kLaneCount];
  OpenPack& open = packed.open[thread_];
  open = {1, sites_[site], lane.kept.size(), 0};
  if (offset + size > packed.bytes || size == packed.bytes) return;  // whole, or in none
  open.at = place - offset;
  open.done = ((1u << size) - 1) << offset;
}

// Reads of a thread that may be in flight together: none of them at an instruction where one of the others was, no write,
// barrier or warp operation between.
void AccessCounter::count_load(SiteOfWarp& site) {
  Warp& warp = warps_[thread_ / kLaneCount];
  const unsigned lane = thread_ % kLaneCount;
  if (!warp.batch_is_open[lane] || site.lanes[lane].batch == warp.batch[lane]) {
    ++warp.batch[lane];
    ++load_batches_;
    warp.batch_is_open[lane] = true;
  }
  site.lanes[lane].batch = warp.batch[lane];
}

void AccessCounter::arrive() {
  const unsigned index = thread_ / kLaneCount;
  Warp& warp = warps_[index];
  warp.batch_is_open[thread_ % kLaneCount] = false;
  const unsigned lanes = std::min<unsigned>(kLaneCount, block_threads_ - index * kLaneCount);
  if (++warp.arrived < lanes) return;
  warp.arrived = 0;
  close(index, 0xffffffffu);
}

void AccessCounter::warp_operation(unsigned lane_mask) {
  const unsigned index = thread_ / kLaneCount;
  for (unsigned lane = 0; lane < kLaneCount; ++lane)
    if ((lane_mask >> lane & 1) != 0) warps_[index].batch_is_open[lane] = false;
  close(index, lane_mask);
}

void AccessCounter::close(unsigned warp, unsigned lane_mask) {
  for (size_t site = 0; site < warps_[warp].sites.size(); ++site)
    close(site, warps_[warp].sites[site], lane_mask);
  for (Packed& packed : packed_) {
    for (unsigned lane = 0; lane < kLaneCount; ++lane) {
      const unsigned thread = warp * kLaneCount + lane;
      if ((lane_mask >> lane & 1) != 0 && thread < block_threads_) packed.open[thread] = {};
    }
  }
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
    scaled(totals.accesses), scaled(totals.bytes), scaled(totals.units), scaled(totals.least);
    totals.lanes = lanes_before + beyond;
  }
  totals_[index].add(totals);
}

void AccessCounter::finish() {
  for (unsigned warp = 0; warp < warps_.size(); ++warp) close(warp, 0xffffffffu);
}

void AccessCounter::touched(const AccessRanges& ranges) {
  reads_.insert(reads_.end(), ranges.reads.begin(), ranges.reads.end());
  for (const std::vector<AccessRange>* list : {&ranges.writes, &ranges.atomics})
    writes_.insert(writes_.end(), list->begin(), list->end());
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
