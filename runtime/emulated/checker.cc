#include "runtime/emulated/checker.h"

#include <algorithm>
#include <utility>

#include "runtime/emulated/options.h"
#include "runtime/emulated/planned_memory.h"

namespace braid::emulated {

LogicalThread Checker::add_thread(std::string text) {
  std::lock_guard lock(mutex_);
  threads_.push_back({std::move(text), 0, {}});
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

bool Checker::report_overlap(const Operation& operation, const std::vector<AccessRange>& ranges,
                             const char* access, LogicalThread other_thread, const Finished& other,
                             const std::vector<AccessRange>& other_ranges, const char* other_access) {
  for (auto a = ranges.begin(), b = other_ranges.begin(); a != ranges.end() && b != other_ranges.end();) {
    const size_t begin = std::max(a->begin, b->begin), end = std::min(a->end, b->end);
    if (a->allocation == b->allocation && begin < end) {
      OperationId first{other_thread, other.clock}, second = operation.id;
      std::string first_text =
          std::string(other_access) + " by " + describe(other.name, other.label, other_thread);
      std::string second_text =
          std::string(access) + " by " + describe(operation.name, operation.label, operation.id.thread);
      // The order of finishing is random; the text must not be.
      if (second_text < first_text) {
        std::swap(first, second);
        std::swap(first_text, second_text);
      }
      const Allocation allocation = device_memory().at(a->allocation);
      const std::string key = first_text + " / " + second_text + " / " + allocation.describe();
      finding_list().add_race(key,
                              "nothing orders the " + first_text + " and the " + second_text +
                                  "; both touch bytes [" + std::to_string(begin) + ", " +
                                  std::to_string(end) + ") of " + allocation.describe(),
                              first, second, static_cast<uint32_t>(a->allocation), begin, end);
      return true;
    }
    if (std::pair(a->allocation, a->end) < std::pair(b->allocation, b->end))
      ++a;
    else
      ++b;
  }
  return false;
}

void Checker::compare(const Operation& operation, const AccessRanges& ranges, LogicalThread other_thread,
                      const Finished& other) {
  const auto check = [&](const std::vector<AccessRange>& mine, const char* my_access,
                         const std::vector<AccessRange>& theirs, const char* their_access) {
    return report_overlap(operation, mine, my_access, other_thread, other, theirs, their_access);
  };
  const AccessRanges& o = other.ranges;
  check(ranges.writes, "write", o.writes, "write") || check(ranges.writes, "write", o.reads, "read") ||
      check(ranges.writes, "write", o.atomics, "atomic access");
  check(ranges.reads, "read", o.writes, "write") || check(ranges.reads, "read", o.atomics, "atomic access");
  check(ranges.atomics, "atomic access", o.writes, "write") ||
      check(ranges.atomics, "atomic access", o.reads, "read");
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
  ranges.uninitialized.clear();
  if (ranges.empty()) return;
  for (size_t i = 0; i < threads_.size(); ++i) {
    const LogicalThread other = static_cast<LogicalThread>(i);
    if (other == operation.id.thread) continue;
    const uint32_t covered = operation.clock[other];
    const auto& finished = threads_[i].finished;
    for (auto it = finished.rbegin(); it != finished.rend() && it->clock > covered; ++it)
      compare(operation, ranges, other, *it);
  }
  threads_[static_cast<size_t>(operation.id.thread)].finished.push_back(
      {operation.id.clock, operation.name, operation.label, std::move(ranges)});
}

void Checker::forget() {
  std::lock_guard lock(mutex_);
  for (Thread& thread : threads_) thread.finished.clear();
}

Checker& checker() {
  static Checker* instance = new Checker;
  return *instance;
}

}  // namespace braid::emulated
