#include "pipeline/add_unshard_reshard.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "ir/error.h"
#include "pipeline/errors.h"

namespace braid::pipeline {
namespace {

constexpr std::int32_t kNever = std::numeric_limits<std::int32_t>::max();

// The stages of one rank by the entry at which they compute next.
class NextUses {
 public:
  NextUses(const Row& row, std::vector<std::int32_t>& scratch)
      : next_(row.size(), kNever), cell_(row.size()) {
    for (std::size_t p = 0; p < row.size(); p += cell_size(row, p))
      for (std::size_t i = p; i < p + cell_size(row, p); ++i) cell_[i] = static_cast<std::int32_t>(p);
    for (std::size_t i = row.size(); i-- > 0;) {
      if (!is_compute(row[i].kind)) continue;
      std::int32_t& first = scratch[static_cast<std::size_t>(row[i].stage)];
      next_[i] = first;
      first = static_cast<std::int32_t>(i);
    }
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (!is_compute(row[i].kind)) continue;
      std::int32_t& first = scratch[static_cast<std::size_t>(row[i].stage)];
      if (first == kNever) continue;
      order_.push_back({row[i].stage, first});
      first = kNever;
    }
  }

  struct Use {
    std::int32_t stage;
    std::int32_t at;  // entry of the row
  };
  const std::vector<Use>& order() const { return order_; }

  // The first `count` stages, and those that compute in the same cell as the last of them.
  std::size_t window(int count) const {
    auto n = std::min(order_.size(), static_cast<std::size_t>(count));
    while (n > 0 && n < order_.size() && cell_of(n) == cell_of(n - 1)) ++n;
    return n;
  }

  // The entry at the front is done. Whether the order of the stages changed.
  bool advance() {
    const Use front = {order_.front().stage, next_[static_cast<std::size_t>(order_.front().at)]};
    if (front.at != kNever && (order_.size() == 1 || order_[1].at > front.at)) {
      order_.front() = front;
      // In a container it may take the second along.
      return cell_[static_cast<std::size_t>(front.at)] != front.at;
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
  std::int32_t cell_of(std::size_t i) const { return cell_[static_cast<std::size_t>(order_[i].at)]; }

  std::vector<std::int32_t> next_;  // the next entry that computes on the same stage
  std::vector<std::int32_t> cell_;  // the first entry of the entry's cell
  std::vector<Use> order_;
};

int lookahead_of(const UnshardOptions& options, int rank) {
  switch (options.lookahead) {
    case UnshardOptions::Lookahead::full:
      return options.residency;
    case UnshardOptions::Lookahead::automatic:
      return std::min(rank + 2, options.residency);
    case UnshardOptions::Lookahead::per_rank:
      return std::min(options.per_rank[static_cast<std::size_t>(rank)], options.residency);
  }
  return options.residency;
}

Row with_residency(const Row& row, int residency, int lookahead, std::vector<std::int32_t>& scratch) {
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
  // Between two cells that change nothing in the order of the stages the window stays.
  bool changed = true;
  for (std::size_t p = 0; p < row.size();) {
    const auto n = cell_size(row, p);
    if (row[p].kind == ActionKind::idle) {
      ++p;
      continue;
    }
    if (changed) update();
    changed = is_container(row[p].kind);  // they widen the window by what lies in one cell
    for (std::size_t i = p; i < p + n; ++i) {
      out.push_back(row[i]);
      if (is_compute(row[i].kind)) changed = uses.advance() || changed;
    }
    p += n;
  }
  for (const auto stage : resident) out.push_back({ActionKind::reshard, stage, -1});
  return out;
}

}  // namespace

Schedule add_unshard_reshard(const Schedule& schedule, const UnshardOptions& options) {
  if (options.residency < 1)
    ir::user_error(kBadLoweringOption, {},
                   fmt::format("residency must be at least 1 stage, got {}", options.residency),
                   "a rank must hold the parameters of at least one stage");
  if (options.lookahead == UnshardOptions::Lookahead::per_rank) {
    if (options.per_rank.size() != schedule.rows.size())
      ir::user_error(kBadLoweringOption, {},
                     fmt::format("got look-aheads for {} ranks, expected {}", options.per_rank.size(),
                                 schedule.ranks()));
    for (const int n : options.per_rank)
      if (n < 1)
        ir::user_error(kBadLoweringOption, {}, fmt::format("look-ahead must be at least 1 stage, got {}", n));
  }
  Schedule out{schedule.rank_of_stage, {}, schedule.microbatches};
  out.rows.reserve(schedule.rows.size());
  std::vector<std::int32_t> scratch(schedule.rank_of_stage.size(), kNever);
  for (int rank = 0; rank < schedule.ranks(); ++rank)
    out.rows.push_back(with_residency(schedule.rows[static_cast<std::size_t>(rank)], options.residency,
                                      lookahead_of(options, rank), scratch));
  return out;
}

}  // namespace braid::pipeline
