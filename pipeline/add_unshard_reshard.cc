#include "pipeline/add_unshard_reshard.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid::pipeline {
namespace {

constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

// The stages of one rank by the entry at which they compute next.
class NextUses {
 public:
  NextUses(const Row& row, PerStage<std::size_t>& scratch) : next_(row.size(), kNever) {
    cell_.reserve(row.size());
    for (std::size_t p = 0; p < row.size(); p += cell_size(row, p)) cell_.resize(p + cell_size(row, p), p);
    for (std::size_t i = row.size(); i-- > 0;)
      if (is_compute(row[i].kind)) next_[i] = std::exchange(scratch[row[i].stage], i);
    for (const Action a : row) {
      if (!is_compute(a.kind) || scratch[a.stage] == kNever) continue;
      order_.push_back({a.stage, std::exchange(scratch[a.stage], kNever)});
    }
  }

  struct Use {
    std::int32_t stage;
    std::size_t at;  // entry of the row
  };
  const std::vector<Use>& order() const { return order_; }

  // The first `count` stages, and those that compute in the same cell as the last of them.
  std::size_t window(int count) const {
    auto n = std::min(order_.size(), static_cast<std::size_t>(count));
    while (n > 0 && n < order_.size() && cell_of(n) == cell_of(n - 1)) ++n;
    return n;
  }

  // Passes the entry at the front. Returns whether the order of the stages changed.
  bool advance() {
    const Use front = {order_.front().stage, next_[order_.front().at]};
    if (front.at != kNever && (order_.size() == 1 || order_[1].at > front.at)) {
      order_.front() = front;
      return cell_[front.at] != front.at;  // in a container, the window may grow by the second stage
    }
    std::size_t i = 1;
    for (; i < order_.size() && order_[i].at < front.at; ++i) order_[i - 1] = order_[i];
    if (front.at == kNever) {
      order_.pop_back();
    } else {
      order_[i - 1] = front;
    }
    return true;
  }

 private:
  std::size_t cell_of(std::size_t i) const { return cell_[order_[i].at]; }

  std::vector<std::size_t> next_;  // the next entry that computes on the same stage
  std::vector<std::size_t> cell_;  // the first entry of the entry's cell
  std::vector<Use> order_;
};

int lookahead_of(const UnshardOptions& options, int rank) {
  switch (options.lookahead) {
    case UnshardOptions::Lookahead::full:
      return options.residency;
    case UnshardOptions::Lookahead::automatic:
      return std::min(rank + 2, options.residency);
    case UnshardOptions::Lookahead::per_rank:
      return std::min(options.per_rank[rank], options.residency);
  }
  return options.residency;
}

Row with_residency(const Row& row, int residency, int lookahead, PerStage<std::size_t>& scratch) {
  NextUses uses(row, scratch);
  std::vector<std::int32_t> resident;  // ascending
  Row out;
  out.reserve(row.size() + 4 * uses.order().size());
  const auto update = [&] {
    const auto wanted = uses.window(residency);
    const auto gathered = uses.window(lookahead);
    std::erase_if(resident, [&](std::int32_t stage) {
      for (std::size_t i = 0; i < wanted; ++i)
        if (uses.order()[i].stage == stage) return false;
      out.push_back({ActionKind::reshard, stage, -1});
      return true;
    });
    for (std::size_t i = 0; i < gathered; ++i) {
      const auto stage = uses.order()[i].stage;
      const auto at = std::ranges::lower_bound(resident, stage);
      if (at != resident.end() && *at == stage) continue;
      out.push_back({ActionKind::unshard, stage, -1});
      resident.insert(at, stage);
    }
  };
  // The window is the same for consecutive cells that do not change the order of the stages.
  bool changed = true;
  for (std::size_t p = 0; p < row.size(); p += cell_size(row, p)) {
    if (row[p].kind == ActionKind::idle) continue;
    if (changed) update();
    changed = is_container(row[p].kind);  // its members widen the window
    append(out, entries(row, p));
    for (const Action a : members(row, p))
      if (is_compute(a.kind)) changed = uses.advance() || changed;
  }
  for (const auto stage : resident) out.push_back({ActionKind::reshard, stage, -1});
  return out;
}

}  // namespace

PipelineSchedule add_unshard_reshard(const PipelineSchedule& schedule, const UnshardOptions& options) {
  if (options.residency < 1)
    ir::user_error(errors::kBadLoweringOption, {},
                   fmt::format("residency must be at least 1 stage, got {}", options.residency),
                   "a rank must hold the parameters of at least one stage");
  if (options.lookahead == UnshardOptions::Lookahead::per_rank) {
    if (options.per_rank.size() != schedule.rows.size())
      ir::user_error(errors::kBadLoweringOption, {},
                     fmt::format("got look-aheads for {} ranks, expected {}", options.per_rank.size(),
                                 schedule.ranks()));
    for (const int n : options.per_rank)
      if (n < 1)
        ir::user_error(errors::kBadLoweringOption, {},
                       fmt::format("look-ahead must be at least 1 stage, got {}", n));
  }
  PerStage<std::size_t> scratch(schedule.rank_of_stage.ids(), kNever);
  return with_rows(schedule, [&](int rank, const Row& row) {
    return with_residency(row, options.residency, lookahead_of(options, rank), scratch);
  });
}

}  // namespace braid::pipeline
