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

Assignment assign_offsets(std::span<const Block> blocks, std::int64_t alignment, std::int64_t exact_limit) {
  Assignment by_time = assign_by_time(blocks, alignment);
  if (static_cast<std::int64_t>(blocks.size()) > exact_limit) return by_time;
  Assignment by_size = assign_largest_first(blocks, alignment);
  return by_size.bytes <= by_time.bytes ? by_size : by_time;
}

}  // namespace braid::passes
