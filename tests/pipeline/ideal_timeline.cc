#include "tests/pipeline/ideal_timeline.h"

#include <algorithm>
#include <utility>

namespace braid::test {
namespace {

using namespace pipeline;

std::int64_t units(ActionKind kind) {
  if (kind == ActionKind::full_backward) return 2;
  return is_compute(kind) ? 1 : 0;
}

class Clock {
 public:
  explicit Clock(const PipelineSchedule& schedule)
      : s_(schedule),
        ends_(2 * static_cast<std::size_t>(s_.stages()) * static_cast<std::size_t>(s_.microbatches), -1),
        at_(schedule.rows.size()),
        now_(schedule.rows.size()),
        held_(schedule.rows.size()),
        needs_(schedule.rows.size(), kNothing) {}

  IdealTimeline run() {
    timeline_.ranks.resize(s_.rows.size());
    for (std::size_t r = s_.rows.size(); r-- > 0;) {
      timeline_.ranks[r].begin.assign(s_.rows[r].size(), -1);
      ready_.push_back(r);
    }
    while (!ready_.empty()) {
      const std::size_t rank = ready_.back();
      ready_.pop_back();
      advance(rank);
    }
    for (std::size_t r = 0; r < s_.rows.size(); ++r) {
      timeline_.makespan = std::max(timeline_.makespan, timeline_.ranks[r].last);
      timeline_.stuck = timeline_.stuck || at_[r] < s_.rows[r].size();
    }
    return std::move(timeline_);
  }

 private:
  static constexpr std::size_t kNothing = static_cast<std::size_t>(-1);

  std::size_t index(bool backward, std::int32_t stage, std::int32_t microbatch) const {
    return (static_cast<std::size_t>(stage) * static_cast<std::size_t>(s_.microbatches) +
            static_cast<std::size_t>(microbatch)) *
               2 +
           (backward ? 1 : 0);
  }

  // The forward (or I, or B) that has to end before this one begins.
  std::size_t dependency(Action a) const {
    if (a.kind == ActionKind::forward)
      return a.stage == 0 ? kNothing : index(false, a.stage - 1, a.microbatch);
    if (a.kind == ActionKind::backward_weight) return index(true, a.stage, a.microbatch);
    return a.stage + 1 == s_.stages() ? index(false, a.stage, a.microbatch)
                                      : index(true, a.stage + 1, a.microbatch);
  }

  // The rank, from where it stands to where it has to wait.
  void advance(std::size_t r) {
    const Row& row = s_.rows[r];
    needs_[r] = kNothing;
    for (; at_[r] < row.size(); at_[r] += cell_size(row, at_[r])) {
      const std::span<const Action> all = members(row, at_[r]);
      std::int64_t begin = now_[r];
      for (const Action a : all) {
        if (!is_compute(a.kind)) continue;
        const std::size_t needed = dependency(a);
        if (needed == kNothing) continue;
        if (ends_[needed] < 0) {
          needs_[r] = needed;
          return;
        }
        begin = std::max(begin, ends_[needed]);
      }
      for (const Action& a : all) {
        if (is_compute(a.kind)) begin = execute(r, a, static_cast<std::size_t>(&a - row.data()), begin);
      }
    }
  }

  std::int64_t execute(std::size_t r, Action a, std::size_t entry, std::int64_t begin) {
    IdealTimeline::Rank& rank = timeline_.ranks[r];
    const std::int64_t end = begin + units(a.kind);
    rank.begin[entry] = begin;
    if (rank.work == 0) rank.first = begin;
    rank.work += end - begin;
    rank.last = now_[r] = end;
    if (a.kind == ActionKind::forward) {
      rank.peak_activations = std::max(rank.peak_activations, ++held_[r]);
      finish(index(false, a.stage, a.microbatch), end, a.stage + 1);
    } else {
      if (a.kind != ActionKind::backward_input) --held_[r];
      if (a.kind != ActionKind::backward_weight) finish(index(true, a.stage, a.microbatch), end, a.stage - 1);
    }
    return end;
  }

  void finish(std::size_t what, std::int64_t end, std::int32_t neighbour) {
    ends_[what] = end;
    if (neighbour < 0 || neighbour >= s_.stages()) return;
    const auto rank = static_cast<std::size_t>(s_.rank_of_stage[neighbour]);
    if (needs_[rank] != what) return;
    needs_[rank] = kNothing;
    ready_.push_back(rank);
  }

  const PipelineSchedule& s_;
  std::vector<std::int64_t> ends_;  // of each forward and each I or B, -1: not yet
  std::vector<std::size_t> at_;     // per rank: the entry it stands at
  std::vector<std::int64_t> now_, held_;
  std::vector<std::size_t> needs_;  // per rank: what it waits for
  std::vector<std::size_t> ready_;
  IdealTimeline timeline_;
};

}  // namespace

IdealTimeline ideal_timeline(const PipelineSchedule& schedule) { return Clock(schedule).run(); }

}  // namespace braid::test
