#include "pipeline/step_table.h"

#include <algorithm>

#include "pipeline/step_rules.h"

namespace braid::pipeline {
namespace {

using enum ActionKind;

class Steps {
 public:
  explicit Steps(const PipelineSchedule& s)
      : s_(s), rules_(s), sent_(messages(s), -1), received_(sent_), ranks_(s.rows.ids()) {
    table_.step_of.reserve(s.rows.size());
    for (const Row& row : s.rows) table_.step_of.emplace_back(row.size(), -1);
  }

  StepTable run() && {
    for (const int r : s_.rows.ids()) {
      todo_.push_back(r);
      while (!todo_.empty()) {
        const int rank = todo_.back();
        todo_.pop_back();
        advance(rank);
      }
    }
    for (const int r : s_.rows.ids()) {
      table_.steps = std::max(table_.steps, ranks_[r].last + 1);
      if (ranks_[r].position < s_.rows[r].size()) table_.waiting.push_back({r, ranks_[r].position});
    }
    if (table_.deadlock()) ++table_.steps;
    return std::move(table_);
  }

 private:
  struct Rank {
    std::size_t position = 0;
    std::int32_t last = -1;  // the step of the cell before
    MessageId awaits;        // the message of a RECV
    MessageId awaits_recv;   // the message of a WAIT_SEND
    bool posted = false;     // the SENDs of the batch at `position` have left
  };

  void advance(int r) {
    Rank& rank = ranks_[r];
    rank.awaits = rank.awaits_recv = {};
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
          const MessageId m = message_of(s_, counterpart(a));
          if (sent_[m] < 0) {
            rank.awaits = m;
            return;
          }
          step = std::max(step, sent_[m]);
          receive(m, a, step);
        } else if (is_wait_send(a.kind)) {
          const MessageId m = message_of(s_, send_of(a));
          if (sent_[m] < 0) return;  // its SEND comes later in the row
          if (received_[m] < 0) {
            rank.awaits_recv = m;
            return;
          }
          step = std::max(step, received_[m]);
        } else if (!rules_.ready(a)) {
          return;  // it needs something later in the row
        }
        if (is_send(a.kind)) send(a, step);
        rules_.record(a);
        table_.step_of[r][rank.position] = step;
        rank.last = step;
      }
      ++rank.position;
    }
  }

  bool container(int r) {
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
      const MessageId m = message_of(s_, counterpart(a));
      if (sent_[m] < 0) {
        rank.awaits = m;
        return false;
      }
      step = std::max(step, sent_[m]);
    }
    for (const Action a : inside) {
      rules_.record(a);
      if (is_recv(a.kind)) receive(message_of(s_, counterpart(a)), a, step);
    }
    rank.posted = false;
    const std::size_t end = rank.position + inside.size() + 1;
    for (; rank.position < end; ++rank.position) table_.step_of[r][rank.position] = step;
    rank.last = step;
    return true;
  }

  void send(Action a, std::int32_t step) {
    const MessageId m = message_of(s_, a);
    sent_[m] = step;
    const int peer = peer_of(s_, a);
    if (ranks_[peer].awaits != m) return;
    ranks_[peer].awaits = {};
    todo_.push_back(peer);
  }

  void receive(MessageId m, Action recv, std::int32_t step) {
    received_[m] = step;
    const int peer = peer_of(s_, recv);
    if (ranks_[peer].awaits_recv != m) return;
    ranks_[peer].awaits_recv = {};
    todo_.push_back(peer);
  }

  const PipelineSchedule& s_;
  StepRules rules_;
  IdVector<MessageId, std::int32_t> sent_, received_;  // the step of the SEND, of the RECV; -1: none so far
  PerRank<Rank> ranks_;
  std::vector<int> todo_;  // ranks
  StepTable table_;
};

}  // namespace

StepTable step_table(const PipelineSchedule& schedule, const StepTableOptions& options) {
  return options.peek ? step_table_peek(schedule) : Steps(schedule).run();
}

}  // namespace braid::pipeline
