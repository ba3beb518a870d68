// Makes two sweeps over the ranks per step, as the older simulator did: later ranks see what a sweep has
// executed, and the second sweep retries the ranks whose step was a bubble.
#include "pipeline/step_rules.h"
#include "pipeline/step_table.h"

namespace braid::pipeline {
namespace {

class Peeking {
 public:
  explicit Peeking(const PipelineSchedule& s) : s_(s), rules_(s), next_(s.rows.ids()) {
    for (const Row& row : s.rows) table_.step_of.emplace_back(row.size(), -1);
    for (const int r : next_.ids()) skip_idle(r);
  }

  StepTable run() && {
    PerRank<char> bubble(next_.ids());
    for (bool moved = true; moved;) {
      moved = false;
      bool open = false;
      for (const int r : next_.ids()) {
        bubble[r] = 0;
        if (finished(r)) continue;
        open = true;
        bubble[r] = !execute(r);
        moved = moved || !bubble[r];
      }
      for (const int r : next_.ids())
        if (bubble[r] && execute(r)) moved = true;
      if (open) ++table_.steps;
    }
    for (const int r : next_.ids())
      if (!finished(r)) table_.waiting.push_back({r, next_[r]});
    return std::move(table_);
  }

 private:
  bool finished(int r) const { return next_[r] == s_.rows[r].size(); }
  void skip_idle(int r) {
    while (!finished(r) && s_.rows[r][next_[r]].kind == ActionKind::idle) ++next_[r];
  }

  bool ready(Action a) const {
    if (!is_recv(a.kind)) return rules_.ready(a);
    const Action send = counterpart(a);
    if (rules_.has(send, 0, bit(send.kind))) return true;
    const int peer = peer_of(s_, a);
    if (finished(peer)) return false;
    for (const Action n : members(s_.rows[peer], next_[peer]))
      if (n == send) return true;
    return false;
  }

  bool execute(int r) {
    const Row& row = s_.rows[r];
    const std::size_t p = next_[r];
    for (const Action a : members(row, p))
      if (!ready(a)) return false;
    for (const Action a : members(row, p)) rules_.record(a);
    for (; next_[r] < p + cell_size(row, p); ++next_[r]) table_.step_of[r][next_[r]] = table_.steps;
    skip_idle(r);
    return true;
  }

  const PipelineSchedule& s_;
  StepRules rules_;
  PerRank<std::size_t> next_;  // position in the row
  StepTable table_;
};

}  // namespace

StepTable step_table_peek(const PipelineSchedule& schedule) { return Peeking(schedule).run(); }

}  // namespace braid::pipeline
