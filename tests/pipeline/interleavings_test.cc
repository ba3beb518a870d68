// The deadlock proof against every interleaving: small random lowered schedules, executed in all possible
// ways. The proof follows a single execution and relies on an argument why one suffices; here nothing is
// relied on: every reachable state of ranks and queues is visited.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "pipeline/csv.h"
#include "pipeline/deadlock_proof.h"
#include "pipeline/text.h"
#include "pipeline/transfers.h"
#include "tests/pipeline/random_schedule.h"

namespace braid::pipeline {
namespace {

// The position of each rank, and which transfers are through. The content of the queues follows from these.
struct State {
  std::vector<std::size_t> position;
  std::vector<char> through;  // by number of the transfer
  friend auto operator<=>(const State&, const State&) = default;
};

class Interleavings {
 public:
  Interleavings(const PipelineSchedule& s, QueuePolicy policy) : s_(s), policy_(policy) {
    for (int r = 0; r < s.ranks(); ++r) {
      each_cell(s.rows[r], [&](std::size_t, std::size_t position, std::span<const Action> actions) {
        for (const Action a : actions) {
          if (!is_send(a.kind) && !is_recv(a.kind)) continue;
          number_[key(a)] = static_cast<int>(transfers_.size());
          transfers_.push_back({a, r, position, queue_name(r, a)});
        }
      });
    }
  }

  bool can_get_stuck() {
    State begin{std::vector<std::size_t>(s_.rows.size(), 0), std::vector<char>(transfers_.size(), 0)};
    std::set<State> seen{begin};
    std::vector<State> open{begin};
    while (!open.empty()) {
      const State state = std::move(open.back());
      open.pop_back();
      const std::vector<State> next = moves(state);
      if (next.empty() && !ended(state)) return true;
      for (const State& n : next) {
        if (seen.insert(n).second) open.push_back(n);
      }
    }
    states = seen.size();
    return false;
  }

  std::size_t states = 0;

 private:
  struct Transfer {
    Action action;
    int rank;
    std::size_t position;  // of its cell
    std::string queue;
  };

  static std::string key(Action a) { return to_string(a); }
  int number(Action a) const { return number_.at(key(a)); }

  std::string queue_name(int rank, Action a) const {
    const int peer = peer_of(s_, a);
    switch (policy_.kind) {
      case QueuePolicy::Kind::rank:
        return std::to_string(rank);
      case QueuePolicy::Kind::pair:
        return std::to_string(rank) + " with " + std::to_string(peer);
      case QueuePolicy::Kind::edge:
        return std::to_string(rank) + (is_send(a.kind) ? " to " : " from ") + std::to_string(peer);
    }
    return {};
  }

  bool posted(const State& state, const Transfer& t) const { return t.position < state.position[t.rank]; }

  // All that stands in its queue before its cell is through.
  bool in_front(const State& state, const Transfer& t) const {
    for (std::size_t i = 0; i < transfers_.size(); ++i) {
      const Transfer& other = transfers_[i];
      if (other.queue == t.queue && other.position < t.position && state.through[i] == 0) return false;
    }
    return true;
  }

  // All transfers that were posted into its queue together with it are through as well.
  bool complete(const State& state, Action transfer) const {
    const Transfer& t = transfers_[number(transfer)];
    for (std::size_t i = 0; i < transfers_.size(); ++i) {
      const Transfer& other = transfers_[i];
      if (other.queue == t.queue && other.position == t.position && state.through[i] == 0) return false;
    }
    return true;
  }

  // Returns whether a SEND into a buffer may leave: messages of a connection leave in their order, also out
  // of one batch.
  bool may_leave(const State& state, const Transfer& send) const {
    int under_way = 0;
    for (std::size_t i = 0; i < transfers_.size(); ++i) {
      const Transfer& other = transfers_[i];
      if (!is_send(other.action.kind) || other.rank != send.rank) continue;
      if (peer_of(s_, other.action) != peer_of(s_, send.action)) continue;
      if (state.through[i] == 0) {
        if (&other < &send) return false;
        continue;
      }
      under_way += state.through[number(counterpart(other.action))] == 0;
    }
    return under_way < policy_.buffered;
  }

  std::vector<State> moves(const State& state) const {
    std::vector<State> result;
    for (std::size_t r = 0; r < s_.rows.size(); ++r) {
      const Row& row = s_.rows[r];
      const std::size_t p = state.position[r];
      if (p >= row.size()) continue;
      bool ready = true;
      for (const Action a : members(row, p)) {
        const Action t = awaited_transfer(s_, a);
        ready &= t.kind == ActionKind::idle || complete(state, t);
      }
      if (!ready) continue;
      result.push_back(state);
      result.back().position[r] += cell_size(row, p);
    }
    for (std::size_t i = 0; i < transfers_.size(); ++i) {
      const Transfer& t = transfers_[i];
      if (state.through[i] != 0 || !posted(state, t) || !in_front(state, t)) continue;
      const int other = number(counterpart(t.action));
      const Transfer& o = transfers_[other];
      if (policy_.buffered == 0) {
        if (is_recv(t.action.kind) || !posted(state, o) || !in_front(state, o)) continue;
        result.push_back(state);
        result.back().through[i] = result.back().through[other] = 1;
      } else if (is_send(t.action.kind) ? may_leave(state, t) : state.through[other] != 0) {
        result.push_back(state);
        result.back().through[i] = 1;
      }
    }
    return result;
  }

  bool ended(const State& state) const {
    for (std::size_t r = 0; r < s_.rows.size(); ++r) {
      if (state.position[r] < s_.rows[r].size()) return false;
    }
    return std::ranges::all_of(state.through, [](char through) { return through != 0; });
  }

  const PipelineSchedule& s_;
  QueuePolicy policy_;
  std::vector<Transfer> transfers_;
  std::map<std::string, int> number_;
};

TEST(Interleavings, TheProofSaysSafeExactlyWhenNoneGetsStuck) {
  test::RandomScheduleOptions options;
  options.max_ranks = 3;
  options.max_stages_per_rank = 2;
  options.max_microbatches = 2;
  options.batches = true;
  std::map<std::string, int> safe, stuck;
  std::size_t most = 0;
  for (std::uint32_t seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    options.swaps = static_cast<int>(seed % 6);
    options.waits = seed % 4 == 3;
    const PipelineSchedule schedule = test::random_lowered(random, options, /*keep_valid=*/true);
    if (schedule.stages() * schedule.microbatches > 8) continue;  // states grow with 2^transfers
    for (const char* name : {"rank", "pair", "edge", "rank:1", "pair:1", "edge:1", "edge:2"}) {
      const QueuePolicy policy = parse_queue_policy(name);
      const Proof proof = prove_deadlock_free(schedule, policy);
      if (std::holds_alternative<ChannelMismatch>(proof)) continue;
      Interleavings all(schedule, policy);
      const bool can_get_stuck = all.can_get_stuck();
      EXPECT_EQ(is_safe(proof), !can_get_stuck) << "seed " << seed << ", channels " << name << '\n'
                                                << print(schedule) << to_text(schedule, proof);
      ++(can_get_stuck ? stuck : safe)[name];
      most = std::max(most, all.states);
    }
  }
  for (const char* name : {"rank", "pair", "edge", "edge:1"}) {
    EXPECT_GT(safe[name], 10) << name;
    EXPECT_GT(stuck[name], 2) << name;
  }
  std::cout << "up to " << most << " states; safe on one queue per rank " << safe["rank"] << ", stuck "
            << stuck["rank"] << '\n';
}

}  // namespace
}  // namespace braid::pipeline
