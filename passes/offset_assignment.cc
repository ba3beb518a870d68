#include "passes/offset_assignment.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "ir/error.h"

namespace braid::passes {

std::int64_t checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) {
    ir::user_error(546, {}, "the program needs more memory than 64 bits can count",
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
    // Grow; a hole at the end is used for the beginning.
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
    bool birth;  // deaths of the step before come first
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

Assignment assign_lowest_first(std::span<const Block> blocks, std::int64_t alignment) {
  Assignment out;
  out.offsets.assign(blocks.size(), 0);
  struct Candidate {
    std::size_t block;
    std::int64_t bytes;
    double area;
  };
  std::vector<Candidate> waiting;  // the greatest area first
  int begin = std::numeric_limits<int>::max(), end = 0;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const std::int64_t bytes = round_up(blocks[b].bytes, alignment);
    if (bytes == 0) continue;
    const double steps = static_cast<double>(blocks[b].last - blocks[b].first) + 1;
    waiting.push_back({b, bytes, steps * static_cast<double>(bytes)});
    begin = std::min(begin, blocks[b].first);
    end = std::max(end, blocks[b].last + 1);
  }
  std::stable_sort(waiting.begin(), waiting.end(),
                   [](const Candidate& a, const Candidate& b) { return a.area > b.area; });
  struct Stretch {  // steps [begin, end) are taken up to `height`
    int begin, end;
    std::int64_t height;
  };
  std::vector<Stretch> line = {{begin, end, 0}};
  while (!waiting.empty()) {
    const auto low = std::min_element(line.begin(), line.end(),
                                      [](const Stretch& a, const Stretch& b) { return a.height < b.height; });
    const Stretch s = *low;
    const auto fits = std::find_if(waiting.begin(), waiting.end(), [&](const Candidate& c) {
      return blocks[c.block].first >= s.begin && blocks[c.block].last < s.end;
    });
    if (fits == waiting.end()) {
      // A block that fits nowhere else fits when the stretch has met its neighbours.
      constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
      const std::int64_t left = low == line.begin() ? kNone : std::prev(low)->height;
      const std::int64_t right = std::next(low) == line.end() ? kNone : std::next(low)->height;
      low->height = std::min(left, right);
      if (right == low->height) {
        low->end = std::next(low)->end;
        line.erase(std::next(low));
      }
      if (left == low->height) {
        std::prev(low)->end = low->end;
        line.erase(low);
      }
      continue;
    }
    const Block& b = blocks[fits->block];
    out.offsets[fits->block] = s.height;
    const std::int64_t top = checked_add(s.height, fits->bytes);
    out.bytes = std::max(out.bytes, top);
    std::vector<Stretch> parts;
    if (s.begin < b.first) parts.push_back({s.begin, b.first, s.height});
    parts.push_back({b.first, b.last + 1, top});
    if (b.last + 1 < s.end) parts.push_back({b.last + 1, s.end, s.height});
    *low = parts[0];
    line.insert(std::next(low), parts.begin() + 1, parts.end());
    waiting.erase(fits);
  }
  return out;
}

Assignment assign_offsets(std::span<const Block> blocks, std::int64_t alignment, std::int64_t exact_limit,
                          bool lowest_first) {
  Assignment by_time = assign_by_time(blocks, alignment);
  if (static_cast<std::int64_t>(blocks.size()) > exact_limit) return by_time;
  Assignment by_size = assign_largest_first(blocks, alignment);
  Assignment best = by_size.bytes <= by_time.bytes ? std::move(by_size) : std::move(by_time);
  if (!lowest_first || best.bytes <= most_alive(blocks, alignment)) return best;
  Assignment lowest = assign_lowest_first(blocks, alignment);
  return lowest.bytes < best.bytes ? lowest : best;
}

}  // namespace braid::passes
