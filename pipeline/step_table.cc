#include "pipeline/step_table.h"

#include <algorithm>

#include "pipeline/step_rules.h"

namespace braid::pipeline {
namespace {

using enum ActionKind;

class Steps {
 public:
  explicit Steps(const Schedule& s)
      : s_(s), rules_(s), sent_(2 * dense_size(s), -1), received_(sent_), ranks_(s.rows.size()) {
    table_.step_of.reserve(s.rows.size());
    for (const Row& row : s.rows) table_.step_of.emplace_back(row.size(), -1);
  }

  StepTable run() && {
    for (std::size_t r = 0; r < s_.rows.size(); ++r) {
      todo_.push_back(r);
      while (!todo_.empty()) {
        const std::size_t rank = todo_.back();
        todo_.pop_back();
        advance(rank);
      }
    }
    for (std::size_t r = 0; r < s_.rows.size(); ++r) {
      table_.steps = std::max(table_.steps, ranks_[r].last + 1);
      if (ranks_[r].position < s_.rows[r].size())
        table_.waiting.push_back({static_cast<int>(r), ranks_[r].position});
    }
    if (table_.deadlock()) ++table_.steps;
    return std::move(table_);
  }

 private:
  static constexpr std::size_t kNothing = ~std::size_t{0};

  struct Rank {
    std::size_t position = 0;
    std::int32_t last = -1;              // the step of the cell before
    std::size_t awaits = kNothing;       // the message of a RECV
    std::size_t awaits_recv = kNothing;  // the message of a WAIT_SEND
    bool posted = false;                 // the SENDs of the batch at `position` have left
  };

  // A message has the number of its SEND.
  std::size_t message(Action send) const { return 2 * dense_id(s_, send) + (send.kind == send_backward); }

  void advance(std::size_t r) {
    Rank& rank = ranks_[r];
    rank.awaits = rank.awaits_recv = kNothing;
    const Row& row = s_.rows[r];
    while (rank.position < row.size()) {
      const Action a = row[rank.position];
      if (is_container(a.kind)) {
        if (!container(r)) return;
        continue;
      }
      if (a.kind != idle) {
        std::int32_t step = rank.last + 1;
        if (is_recv(a.kind)) {
          const std::size_t m = message(counterpart(a));
          if (sent_[m] < 0) {
            rank.awaits = m;
            return;
          }
          step = std::max(step, sent_[m]);
          receive(m, a, step);
        } else if (is_wait_send(a.kind)) {
          const std::size_t m = message(send_of(a));
          if (sent_[m] < 0) return;  // its SEND stands behind it
          if (received_[m] < 0) {
            rank.awaits_recv = m;
            return;
          }
          step = std::max(step, received_[m]);
        } else if (!rules_.ready(a)) {
          return;  // it needs what stands behind it
        }
        if (is_send(a.kind)) send(a, step);
        rules_.record(a);
        table_.step_of[r][rank.position] = step;
        rank.last = step;
      }
      ++rank.position;
    }
  }

  bool container(std::size_t r) {
    Rank& rank = ranks_[r];
    const Row& row = s_.rows[r];
    const auto inside = members(row, rank.position);
    std::int32_t step = rank.last + 1;
    if (!rank.posted) {
      for (const Action a : inside)
        if (!is_recv(a.kind) && !rules_.ready(a)) return false;
      for (const Action a : inside)
        if (is_send(a.kind)) send(a, step);
      rank.posted = true;
    }
    for (const Action a : inside) {
      if (!is_recv(a.kind)) continue;
      const std::size_t m = message(counterpart(a));
      if (sent_[m] < 0) {
        rank.awaits = m;
        return false;
      }
      step = std::max(step, sent_[m]);
    }
    for (const Action a : inside) {
      rules_.record(a);
      if (is_recv(a.kind)) receive(message(counterpart(a)), a, step);
    }
    rank.posted = false;
    const std::size_t end = rank.position + inside.size() + 1;
    for (; rank.position < end; ++rank.position) table_.step_of[r][rank.position] = step;
    rank.last = step;
    return true;
  }

  void send(Action a, std::int32_t step) {
    const std::size_t m = message(a);
    sent_[m] = step;
    const auto peer = static_cast<std::size_t>(peer_of(s_, a));
    if (ranks_[peer].awaits != m) return;
    ranks_[peer].awaits = kNothing;
    todo_.push_back(peer);
  }

  void receive(std::size_t m, Action recv, std::int32_t step) {
    received_[m] = step;
    const auto peer = static_cast<std::size_t>(peer_of(s_, recv));
    if (ranks_[peer].awaits_recv != m) return;
    ranks_[peer].awaits_recv = kNothing;
    todo_.push_back(peer);
  }

  const Schedule& s_;
  StepRules rules_;
  std::vector<std::int32_t> sent_, received_;  // per message: the step of its SEND, of its RECV
  std::vector<Rank> ranks_;
  std::vector<std::size_t> todo_;
  StepTable table_;
};

}  // namespace

StepTable step_table(const Schedule& schedule, const StepTableOptions& options) {
  return options.peek ? step_table_peek(schedule) : Steps(schedule).run();
}

}  // namespace braid::pipeline
