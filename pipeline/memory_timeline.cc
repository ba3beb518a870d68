#include "pipeline/memory_timeline.h"

#include <algorithm>
#include <span>

#include "analysis/offset_assignment.h"
#include "pipeline/transfers.h"

namespace braid::pipeline {
namespace {

using analysis::Time;

constexpr std::int64_t kAlignment = 256;
constexpr std::int64_t kExactPieces = 4096;  // up to this many, the largest are placed first
constexpr Time kNever{-1};

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

class Collector {
 public:
  Collector(const Schedule& s, const PipelineCosts& costs, const Simulation& simulation, std::size_t rank)
      : s_(s), costs_(costs), simulation_(simulation), rank_(rank) {}

  RankMemory run() {
    find_times();
    for (const CellTimes& cell : simulation_.cells[rank_]) {
      for (const Action a : members(s_.rows[rank_], cell.position)) take(a, cell);
    }
    for (std::int32_t stage = 0; stage < s_.stages(); ++stage) {
      if (s_.rank_of_stage[at(stage)] != static_cast<std::int32_t>(rank_)) continue;
      const StageCosts& c = costs_.stages[at(stage)];
      if (unsharded_[at(stage)] != kNever) {
        add(MemoryUse::parameters, stage, -1, c.parameter_bytes, unsharded_[at(stage)], simulation_.makespan);
      } else if (!sharded_[at(stage)]) {
        add(MemoryUse::parameters, stage, -1, c.parameter_bytes, {}, simulation_.makespan);
      }
      if (gradients_[at(stage)] != kNever)
        add(MemoryUse::gradients, stage, -1, c.gradient_bytes, gradients_[at(stage)], simulation_.makespan);
    }
    std::ranges::stable_sort(out_.pieces, {}, &MemoryPiece::begin);
    sum_up();
    place();
    return std::move(out_);
  }

 private:
  // When actions of this rank end that take or leave memory.
  void find_times() {
    const std::size_t n = dense_size(s_);
    input_end_.assign(n, kNever);
    weight_end_.assign(n, kNever);
    unsharded_.assign(s_.rank_of_stage.size(), kNever);
    sharded_.assign(s_.rank_of_stage.size(), false);
    gradients_.assign(s_.rank_of_stage.size(), kNever);
    forward_end_.assign(n, kNever);
    for (const CellTimes& cell : simulation_.cells[rank_]) {
      for (const Action a : members(s_.rows[rank_], cell.position)) {
        if (a.kind == ActionKind::forward) forward_end_[dense_id(s_, a)] = cell.end;
        if (a.kind == ActionKind::backward_input || a.kind == ActionKind::full_backward)
          input_end_[dense_id(s_, a)] = cell.end;
        if (a.kind == ActionKind::backward_weight || a.kind == ActionKind::full_backward)
          weight_end_[dense_id(s_, a)] = cell.end;
      }
    }
  }

  void take(Action a, const CellTimes& cell) {
    const Time whole = simulation_.makespan;
    const auto or_whole = [&](Time t) { return t == kNever ? whole : t; };
    switch (a.kind) {
      case ActionKind::forward: {
        const StageCosts& c = costs_.stages[at(a.stage)];
        const std::size_t id = dense_id(s_, a);
        // A program that goes forward only keeps nothing.
        const bool trains = input_end_[id] != kNever;
        const Time input = trains ? input_end_[id] : cell.end;
        const Time weight = trains ? std::max(input, or_whole(weight_end_[id])) : cell.end;
        add(MemoryUse::activations, a.stage, a.microbatch, c.activation_bytes - c.weight_bytes, cell.begin,
            input);
        add(MemoryUse::activations, a.stage, a.microbatch, c.weight_bytes, cell.begin, weight);
        break;
      }
      case ActionKind::backward_weight:
      case ActionKind::full_backward:
        if (gradients_[at(a.stage)] == kNever) gradients_[at(a.stage)] = cell.begin;
        break;
      case ActionKind::unshard:
        sharded_[at(a.stage)] = true;
        if (unsharded_[at(a.stage)] == kNever) unsharded_[at(a.stage)] = cell.begin;
        break;
      case ActionKind::reshard:
        if (unsharded_[at(a.stage)] != kNever) {
          add(MemoryUse::parameters, a.stage, -1, costs_.stages[at(a.stage)].parameter_bytes,
              unsharded_[at(a.stage)], cell.end);
          unsharded_[at(a.stage)] = kNever;
        }
        break;
      case ActionKind::recv_forward:
        add(MemoryUse::received, a.stage, a.microbatch, costs_.stages[at(a.stage) - 1].forward_bytes,
            cell.begin, or_whole(forward_end_[dense_id(s_, a)]));
        break;
      case ActionKind::recv_backward:
        add(MemoryUse::received, a.stage, a.microbatch, costs_.stages[at(a.stage) + 1].backward_bytes,
            cell.begin, or_whole(input_end_[dense_id(s_, a)]));
        break;
      default:
        break;
    }
  }

  void add(MemoryUse use, std::int32_t stage, std::int32_t microbatch, std::int64_t bytes, Time begin,
           Time end) {
    if (bytes > 0 && begin < end) out_.pieces.push_back({use, stage, microbatch, bytes, begin, end, 0});
  }

  void sum_up() {
    struct Change {
      Time time;
      std::int64_t bytes;
      MemoryUse use;
    };
    std::vector<Change> changes;
    for (const MemoryPiece& p : out_.pieces) {
      changes.push_back({p.begin, p.bytes, p.use});
      changes.push_back({p.end, -p.bytes, p.use});
    }
    std::ranges::stable_sort(changes, {}, &Change::time);
    std::int64_t live = 0, by_use[4] = {};
    for (std::size_t k = 0; k < changes.size();) {
      const Time time = changes[k].time;
      for (; k < changes.size() && changes[k].time == time; ++k) {
        live = changes[k].bytes > 0 ? analysis::checked_add(live, changes[k].bytes) : live + changes[k].bytes;
        by_use[static_cast<std::size_t>(changes[k].use)] += changes[k].bytes;
      }
      if (out_.live.empty() ? live != 0 : out_.live.back().bytes != live) out_.live.push_back({time, live});
      if (live > out_.peak) {
        out_.peak = live;
        out_.peak_at = time;
        std::ranges::copy(by_use, out_.at_peak);
      }
    }
  }

  // Lifetimes as steps between the times at which something begins or ends.
  void place() {
    std::vector<Time> times;
    for (const MemoryPiece& p : out_.pieces) {
      times.push_back(p.begin);
      times.push_back(p.end);
    }
    std::ranges::sort(times);
    times.erase(std::unique(times.begin(), times.end()), times.end());
    const auto step = [&](Time t) {
      return static_cast<int>(std::ranges::lower_bound(times, t) - times.begin());
    };
    std::vector<analysis::Block> blocks;
    for (const MemoryPiece& p : out_.pieces) blocks.push_back({p.bytes, step(p.begin), step(p.end) - 1});
    const analysis::Assignment placed = analysis::assign_offsets(blocks, kAlignment, kExactPieces);
    for (std::size_t k = 0; k < out_.pieces.size(); ++k) out_.pieces[k].offset = placed.offsets[k];
    out_.arena_bytes = placed.bytes;
  }

  const Schedule& s_;
  const PipelineCosts& costs_;
  const Simulation& simulation_;
  std::size_t rank_;
  std::vector<Time> forward_end_, input_end_, weight_end_;  // by (stage, micro-batch)
  std::vector<Time> unsharded_, gradients_;                 // by stage: since when
  std::vector<bool> sharded_;
  RankMemory out_;
};

}  // namespace

std::string_view to_string(MemoryUse use) {
  static constexpr std::string_view kNames[] = {"parameters", "gradients", "activations", "received"};
  return kNames[static_cast<std::size_t>(use)];
}

std::vector<RankMemory> memory_timeline(const Schedule& schedule, const PipelineCosts& costs,
                                        const Simulation& simulation) {
  std::vector<RankMemory> all;
  for (std::size_t r = 0; r < schedule.rows.size(); ++r)
    all.push_back(Collector(schedule, costs, simulation, r).run());
  return all;
}

}  // namespace braid::pipeline
