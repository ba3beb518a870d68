#include "runtime/emulated/checker.h"

#include <algorithm>
#include <utility>

#include "runtime/emulated/options.h"
#include "runtime/emulated/planned_memory.h"

namespace braid::emulated {

LogicalThread Checker::add_thread(std::string text) {
  std::lock_guard lock(mutex_);
  threads_.push_back({std::move(text), 0});
  return static_cast<LogicalThread>(threads_.size() - 1);
}

void Checker::rename_thread(LogicalThread thread, std::string text) {
  std::lock_guard lock(mutex_);
  threads_[static_cast<size_t>(thread)].text = std::move(text);
}

Checker::Operation Checker::begin(LogicalThread thread, VectorClock& clock, std::string name,
                                  std::string label) {
  std::lock_guard lock(mutex_);
  const uint32_t count = ++threads_[static_cast<size_t>(thread)].count;
  clock.set(thread, count);
  return {{thread, count}, std::move(name), std::move(label), clock};
}

std::string Checker::describe(const std::string& name, const std::string& label, LogicalThread thread) const {
  std::string text = name;
  if (!label.empty()) text += " [" + label + "]";
  return text + " on " + threads_[static_cast<size_t>(thread)].text;
}

Checker::Accesses Checker::by_allocation(std::vector<AccessRange> ranges) {
  Accesses out{std::move(ranges), {}};
  for (size_t k = 0; k < out.ranges.size(); ++k) {
    const AccessRange& range = out.ranges[k];
    if (out.parts.empty() || out.parts.back().allocation != range.allocation)
      out.parts.push_back({range.allocation, k, k, range.begin, range.end});
    out.parts.back().last = k + 1;
    out.parts.back().end = range.end;
  }
  return out;
}

void Checker::report(const Finished& operation, const char* access, const Finished& other,
                     const char* other_access, int allocation, size_t begin, size_t end) {
  OperationId first = other.id, second = operation.id;
  std::string first_text =
      std::string(other_access) + " by " + describe(other.name, other.label, other.id.thread);
  std::string second_text =
      std::string(access) + " by " + describe(operation.name, operation.label, operation.id.thread);
  // The order of finishing is random; the text must not be.
  if (second_text < first_text) {
    std::swap(first, second);
    std::swap(first_text, second_text);
  }
  const std::string where = device_memory().at(allocation).describe();
  finding_list().add_race(first_text + " / " + second_text + " / " + where,
                          "nothing orders the " + first_text + " and the " + second_text +
                              "; both touch bytes [" + std::to_string(begin) + ", " + std::to_string(end) +
                              ") of " + where,
                          first, second, static_cast<uint32_t>(allocation), begin, end);
}

// The first bytes that both touch.
bool Checker::report_overlap(const Finished& operation, const Accesses& accesses, const char* access,
                             const Finished& other, const Accesses& other_accesses,
                             const char* other_access) {
  const std::vector<Part>&mine = accesses.parts, &theirs = other_accesses.parts;
  for (size_t p = 0, q = 0; p < mine.size() && q < theirs.size();) {
    if (mine[p].allocation != theirs[q].allocation) {
      ++(mine[p].allocation < theirs[q].allocation ? p : q);
      continue;
    }
    const size_t from = std::max(mine[p].begin, theirs[q].begin), to = std::min(mine[p].end, theirs[q].end);
    // In order of both their begins and their ends.
    const auto first_beyond = [&](const Accesses& all, const Part& part) {
      return std::upper_bound(all.ranges.begin() + static_cast<std::ptrdiff_t>(part.first),
                              all.ranges.begin() + static_cast<std::ptrdiff_t>(part.last), from,
                              [](size_t at, const AccessRange& range) { return at < range.end; });
    };
    if (from < to) {
      auto a = first_beyond(accesses, mine[p]), b = first_beyond(other_accesses, theirs[q]);
      const auto a_end = accesses.ranges.begin() + static_cast<std::ptrdiff_t>(mine[p].last),
                 b_end = other_accesses.ranges.begin() + static_cast<std::ptrdiff_t>(theirs[q].last);
      while (a != a_end && b != b_end && a->begin < to && b->begin < to) {
        const size_t begin = std::max(a->begin, b->begin), end = std::min(a->end, b->end);
        if (begin < end) {
          report(operation, access, other, other_access, mine[p].allocation, begin, end);
          return true;
        }
        ++(a->end < b->end ? a : b);
      }
    }
    ++p, ++q;
  }
  return false;
}

void Checker::compare(const Finished& operation, const Finished& other) {
  const auto check = [&](const Accesses& mine, const char* my_access, const Accesses& theirs,
                         const char* their_access) {
    return report_overlap(operation, mine, my_access, other, theirs, their_access);
  };
  const Finished &m = operation, &o = other;
  check(m.writes, "write", o.writes, "write") || check(m.writes, "write", o.reads, "read") ||
      check(m.writes, "write", o.atomics, "atomic access");
  check(m.reads, "read", o.writes, "write") || check(m.reads, "read", o.atomics, "atomic access");
  check(m.atomics, "atomic access", o.writes, "write") || check(m.atomics, "atomic access", o.reads, "read");
}

void Checker::finish(const Operation& operation, AccessRanges ranges) {
  if (!options().check_accesses) return;
  std::lock_guard lock(mutex_);
  const std::string who = describe(operation.name, operation.label, operation.id.thread);
  if (const DeclaredStep* step = running_step()) step->check(who, operation.id, ranges);
  for (const AccessRange& range : ranges.uninitialized) {
    const Allocation allocation = device_memory().at(range.allocation);
    finding_list().add_uninitialized(
        who + " / " + allocation.describe(),
        who + " reads bytes [" + std::to_string(range.begin) + ", " + std::to_string(range.end) + ") of " +
            allocation.describe() + ", which were never written",
        operation.id, static_cast<uint32_t>(range.allocation), range.begin, range.end);
  }
  if (ranges.empty()) return;
  Finished& mine = finished_.emplace_back();
  mine.id = operation.id;
  mine.name = operation.name;
  mine.label = operation.label;
  mine.reads = by_allocation(std::move(ranges.reads));
  mine.writes = by_allocation(std::move(ranges.writes));
  mine.atomics = by_allocation(std::move(ranges.atomics));
  ++compared_;
  for (const Accesses* accesses : {&mine.reads, &mine.writes, &mine.atomics}) {
    for (const Part& part : accesses->parts) {
      History& history = by_allocation_[part.allocation];
      for (const auto& [other, operations] : history) {
        if (other == mine.id.thread) continue;
        const uint32_t covered = operation.clock[other];
        for (auto it = operations.rbegin(); it != operations.rend() && (*it)->id.clock > covered; ++it)
          if (std::exchange((*it)->compared, compared_) != compared_) compare(mine, **it);
      }
      std::vector<Finished*>& own = history[mine.id.thread];
      if (own.empty() || own.back() != &mine) own.push_back(&mine);
    }
  }
}

void Checker::forget() {
  std::lock_guard lock(mutex_);
  by_allocation_.clear();
  finished_.clear();
}

Checker& checker() {
  static Checker* instance = new Checker;
  return *instance;
}

}  // namespace braid::emulated
