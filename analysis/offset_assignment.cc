#include "analysis/offset_assignment.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid::analysis {

std::int64_t checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) {
    ir::user_error(errors::kMemoryTooLarge, {}, "the program needs more memory than 64 bits can count",
                   "lower the upper bounds of the dynamic dimensions");
  }
  return sum;
}

std::int64_t round_up(std::int64_t bytes, std::int64_t alignment) {
  return checked_add(bytes, alignment - 1) / alignment * alignment;
}

Assignment assign_largest_first(std::span<const Block> blocks, std::int64_t alignment) {
  std::vector<std::size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (blocks[a].bytes != blocks[b].bytes) return blocks[a].bytes > blocks[b].bytes;
    return blocks[a].last - blocks[a].first > blocks[b].last - blocks[b].first;
  });
  Assignment out;
  out.offsets.assign(blocks.size(), 0);
  std::vector<std::size_t> placed;  // by offset
  for (std::size_t b : order) {
    const std::int64_t bytes = round_up(blocks[b].bytes, alignment);
    if (bytes == 0) continue;
    std::int64_t best = -1, best_gap = std::numeric_limits<std::int64_t>::max(), end = 0;
    for (std::size_t other : placed) {
      if (blocks[other].last < blocks[b].first || blocks[b].last < blocks[other].first) continue;
      const std::int64_t gap = out.offsets[other] - end;
      if (gap >= bytes && gap < best_gap) {
        best = end;
        best_gap = gap;
      }
      end = std::max(end, out.offsets[other] + round_up(blocks[other].bytes, alignment));
    }
    out.offsets[b] = best >= 0 ? best : end;
    out.bytes = std::max(out.bytes, checked_add(out.offsets[b], bytes));
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), b,
                         [&](std::size_t x, std::size_t y) { return out.offsets[x] < out.offsets[y]; }),
        b);
  }
  return out;
}

namespace {

class FreeList {
 public:
  std::int64_t allocate(std::int64_t bytes) {
    auto fit = by_size_.lower_bound({bytes, 0});
    if (fit != by_size_.end()) {
      const auto [size, offset] = *fit;
      remove(offset, size);
      if (size > bytes) insert(offset + bytes, size - bytes);
      return offset;
    }
    // Grow; a hole at the end becomes the beginning of the block.
    std::int64_t offset = end_;
    if (!by_offset_.empty() && by_offset_.rbegin()->first + by_offset_.rbegin()->second == end_) {
      offset = by_offset_.rbegin()->first;
      remove(offset, end_ - offset);
    }
    end_ = checked_add(offset, bytes);
    return offset;
  }

  void free(std::int64_t offset, std::int64_t bytes) {
    auto next = by_offset_.lower_bound(offset);
    if (next != by_offset_.end() && next->first == offset + bytes) {
      const std::int64_t more = next->second;
      remove(next->first, more);
      bytes += more;
    }
    next = by_offset_.lower_bound(offset);
    if (next != by_offset_.begin()) {
      const auto [before, size] = *std::prev(next);
      if (before + size == offset) {
        remove(before, size);
        offset = before;
        bytes += size;
      }
    }
    insert(offset, bytes);
  }

  std::int64_t end() const { return end_; }

 private:
  std::set<std::pair<std::int64_t, std::int64_t>> by_size_;  // (bytes, offset)
  std::map<std::int64_t, std::int64_t> by_offset_;
  std::int64_t end_ = 0;

  void insert(std::int64_t offset, std::int64_t bytes) {
    by_size_.insert({bytes, offset});
    by_offset_[offset] = bytes;
  }
  void remove(std::int64_t offset, std::int64_t bytes) {
    by_size_.erase({bytes, offset});
    by_offset_.erase(offset);
  }
};

}  // namespace

Assignment assign_by_time(std::span<const Block> blocks, std::int64_t alignment) {
  struct Event {
    int step;
    bool birth;  // deaths of the previous step come first
    std::int64_t bytes;
    std::size_t block;
  };
  std::vector<Event> events;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const std::int64_t bytes = round_up(blocks[b].bytes, alignment);
    if (bytes == 0) continue;
    events.push_back({blocks[b].first, true, bytes, b});
    events.push_back({blocks[b].last + 1, false, bytes, b});
  }
  std::sort(events.begin(), events.end(), [](const Event& x, const Event& y) {
    if (x.step != y.step) return x.step < y.step;
    if (x.birth != y.birth) return !x.birth;
    if (x.bytes != y.bytes) return x.bytes > y.bytes;
    return x.block < y.block;
  });
  Assignment out;
  out.offsets.assign(blocks.size(), 0);
  FreeList memory;
  for (const Event& e : events) {
    if (e.birth) {
      out.offsets[e.block] = memory.allocate(e.bytes);
    } else {
      memory.free(out.offsets[e.block], e.bytes);
    }
  }
  out.bytes = memory.end();
  return out;
}

std::int64_t most_alive(std::span<const Block> blocks, std::int64_t alignment) {
  std::vector<std::pair<int, std::int64_t>> changes;
  for (const Block& b : blocks) {
    const std::int64_t bytes = round_up(b.bytes, alignment);
    changes.emplace_back(b.first, bytes);
    changes.emplace_back(b.last + 1, -bytes);
  }
  std::sort(changes.begin(), changes.end());  // deaths first
  std::int64_t now = 0, most = 0;
  for (const auto& [step, bytes] : changes) most = std::max(most, now = checked_add(now, bytes));
  return most;
}

namespace {

// By block: the blocks alive at the same time.
std::vector<std::vector<std::size_t>> neighbours_of(std::span<const Block> blocks) {
  std::vector<std::size_t> by_birth(blocks.size());
  std::iota(by_birth.begin(), by_birth.end(), std::size_t{0});
  std::stable_sort(by_birth.begin(), by_birth.end(),
                   [&](std::size_t a, std::size_t b) { return blocks[a].first < blocks[b].first; });
  std::vector<std::vector<std::size_t>> out(blocks.size());
  std::vector<std::size_t> alive;
  for (std::size_t b : by_birth) {
    std::erase_if(alive, [&](std::size_t a) { return blocks[a].last < blocks[b].first; });
    for (std::size_t a : alive) {
      out[a].push_back(b);
      out[b].push_back(a);
    }
    alive.push_back(b);
  }
  return out;
}

// Places the blocks one after another, each as low as possible. Suits many blocks of which few are alive at
// the same time.
Assignment assign_lowest(const std::vector<std::vector<std::size_t>>& neighbours,
                         const std::vector<std::int64_t>& bytes, std::span<const std::size_t> order) {
  Assignment out;
  out.offsets.assign(bytes.size(), -1);
  std::vector<std::pair<std::int64_t, std::int64_t>> taken;
  for (std::size_t b : order) {
    taken.clear();
    for (std::size_t n : neighbours[b]) {
      if (out.offsets[n] >= 0) taken.emplace_back(out.offsets[n], out.offsets[n] + bytes[n]);
    }
    std::sort(taken.begin(), taken.end());
    std::int64_t lowest = 0;
    for (const auto& [from, to] : taken) {
      if (from - lowest >= bytes[b]) break;
      lowest = std::max(lowest, to);
    }
    out.offsets[b] = lowest;
    out.bytes = std::max(out.bytes, checked_add(lowest, bytes[b]));
  }
  return out;
}

// The same, for blocks of which many are alive at the same time: looks at all placed blocks, from the lowest
// one on.
Assignment assign_lowest(std::span<const Block> blocks, const std::vector<std::int64_t>& bytes,
                         std::span<const std::size_t> order) {
  struct Placed {
    std::int64_t from, to;
    int first, last;
  };
  Assignment out;
  out.offsets.assign(bytes.size(), -1);
  std::vector<Placed> placed;  // by offset
  placed.reserve(order.size());
  for (std::size_t b : order) {
    const auto [ignored, first, last] = blocks[b];
    std::int64_t lowest = 0;
    for (const Placed& p : placed) {
      // All that follow lie as high, whether they are alive at the same time or not.
      if (p.from - lowest >= bytes[b]) break;
      const bool together = (p.first <= last) & (first <= p.last);  // as often as not: not worth a branch
      lowest = std::max(lowest, together ? p.to : 0);
    }
    out.offsets[b] = lowest;
    const std::int64_t end = checked_add(lowest, bytes[b]);
    out.bytes = std::max(out.bytes, end);
    const auto place = std::upper_bound(placed.begin(), placed.end(), lowest,
                                        [](std::int64_t offset, const Placed& p) { return offset < p.from; });
    placed.insert(place, {lowest, end, first, last});
  }
  return out;
}

// A number in [0.5, 1.5) that depends only on the arguments.
double jitter(std::size_t block, int round) {
  std::uint64_t x = (std::uint64_t{block} << 20) + static_cast<std::uint64_t>(round) + 1;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return 0.5 + static_cast<double>((x ^ (x >> 31)) >> 11) * 0x1p-53;
}

}  // namespace

Assignment assign_troubled_first(std::span<const Block> blocks, std::int64_t alignment, int rounds) {
  const std::int64_t bound = most_alive(blocks, alignment);
  const std::vector<std::vector<std::size_t>> neighbours = neighbours_of(blocks);
  const std::size_t count = blocks.size();
  std::size_t pairs = 0;
  for (const std::vector<std::size_t>& own : neighbours) pairs += own.size();
  // Finding and sorting a neighbour takes as long as looking at so many blocks.
  constexpr std::size_t kAsLong = 16;
  const bool crowded = count * count <= kAsLong * pairs;
  std::vector<std::int64_t> bytes;
  for (const Block& b : blocks) bytes.push_back(round_up(b.bytes, alignment));
  Assignment best;
  best.bytes = std::numeric_limits<std::int64_t>::max();
  for (const bool by_area : {false, true}) {
    const auto weight = [&](std::size_t b) {
      const double steps = static_cast<double>(blocks[b].last - blocks[b].first) + 1;
      return by_area ? steps * static_cast<double>(bytes[b]) : steps;
    };
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return weight(a) > weight(b); });
    std::vector<double> turn(count);  // lower values come first
    for (std::size_t k = 0; k < count; ++k) turn[order[k]] = static_cast<double>(k);
    for (int round = 0; round < rounds && best.bytes > bound; ++round) {
      Assignment now =
          crowded ? assign_lowest(blocks, bytes, order) : assign_lowest(neighbours, bytes, order);
      // Each moves forward by about a tenth of the order, so that they do not all end up in front.
      for (std::size_t b = 0; b < count; ++b) {
        if (now.offsets[b] + bytes[b] > bound) turn[b] -= 0.1 * static_cast<double>(count) * jitter(b, round);
      }
      if (now.bytes < best.bytes) best = std::move(now);
      std::stable_sort(order.begin(), order.end(),
                       [&](std::size_t a, std::size_t b) { return turn[a] < turn[b]; });
    }
  }
  return best;
}

Assignment assign_offsets(std::span<const Block> blocks, std::int64_t alignment, std::int64_t exact_limit,
                          bool thorough) {
  Assignment by_time = assign_by_time(blocks, alignment);
  if (static_cast<std::int64_t>(blocks.size()) > exact_limit) return by_time;
  Assignment by_size = assign_largest_first(blocks, alignment);
  Assignment best = by_size.bytes <= by_time.bytes ? std::move(by_size) : std::move(by_time);
  if (!thorough || best.bytes <= most_alive(blocks, alignment)) return best;
  constexpr int kRounds = 40;
  Assignment again = assign_troubled_first(blocks, alignment, kRounds);
  return again.bytes < best.bytes ? again : best;
}

}  // namespace braid::analysis
