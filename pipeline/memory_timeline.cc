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
constexpr Time kNoTime{-1};

class TimelineCollector {
 public:
  TimelineCollector(const PipelineSchedule& s, const PipelineCosts& costs, const Simulation& simulation,
                    int rank)
      : s_(s), costs_(costs), simulation_(simulation), rank_(rank) {}

  RankMemory run() {
    find_times();
    for (const CellTimes& cell : simulation_.cells[rank_]) {
      for (const Action a : members(s_.rows[rank_], cell.position)) take(a, cell);
    }
    for (const int stage : s_.rank_of_stage.ids()) {
      if (s_.rank_of_stage[stage] != rank_) continue;
      const StageCosts& c = costs_.stages[stage];
      if (unsharded_[stage] != kNoTime) {
        add(MemoryUse::parameters, stage, -1, c.parameter_bytes, unsharded_[stage], simulation_.makespan);
      } else if (!sharded_[stage]) {
        add(MemoryUse::parameters, stage, -1, c.parameter_bytes, {}, simulation_.makespan);
      }
      if (gradients_[stage] != kNoTime)
        add(MemoryUse::gradients, stage, -1, c.gradient_bytes, gradients_[stage], simulation_.makespan);
    }
    std::ranges::stable_sort(out_.pieces, {}, &MemoryPiece::begin);
    sum_up();
    assign_offsets();
    return std::move(out_);
  }

 private:
  // Records when the actions of this rank that take or free memory end.
  void find_times() {
    for (auto* ends : {&forward_end_, &input_end_, &weight_end_})
      ends->assign(stage_microbatches(s_), kNoTime);
    for (auto* begins : {&unsharded_, &gradients_}) begins->assign(s_.rank_of_stage.ids(), kNoTime);
    sharded_.assign(s_.rank_of_stage.ids(), false);
    for (const CellTimes& cell : simulation_.cells[rank_]) {
      for (const Action a : members(s_.rows[rank_], cell.position)) {
        if (a.kind == ActionKind::forward) forward_end_[stage_microbatch(s_, a)] = cell.end;
        if (gives_input_gradient(a.kind)) input_end_[stage_microbatch(s_, a)] = cell.end;
        if (gives_weight_gradient(a.kind)) weight_end_[stage_microbatch(s_, a)] = cell.end;
      }
    }
  }

  void take(Action a, const CellTimes& cell) {
    const Time whole = simulation_.makespan;
    const auto or_whole = [&](Time t) { return t == kNoTime ? whole : t; };
    switch (a.kind) {
      case ActionKind::forward: {
        const StageCosts& c = costs_.stages[a.stage];
        const StageMicrobatch id = stage_microbatch(s_, a);
        // A forward-only schedule keeps no activations.
        const bool trains = input_end_[id] != kNoTime;
        const Time input = trains ? input_end_[id] : cell.end;
        const Time weight = trains ? std::max(input, or_whole(weight_end_[id])) : cell.end;
        add(MemoryUse::activations, a.stage, a.microbatch, c.activation_bytes - c.weight_bytes, cell.begin,
            input);
        add(MemoryUse::activations, a.stage, a.microbatch, c.weight_bytes, cell.begin, weight);
        break;
      }
      case ActionKind::backward_weight:
      case ActionKind::full_backward:
        if (gradients_[a.stage] == kNoTime) gradients_[a.stage] = cell.begin;
        break;
      case ActionKind::unshard:
        sharded_[a.stage] = true;
        if (unsharded_[a.stage] == kNoTime) unsharded_[a.stage] = cell.begin;
        break;
      case ActionKind::reshard:
        if (unsharded_[a.stage] != kNoTime) {
          add(MemoryUse::parameters, a.stage, -1, costs_.stages[a.stage].parameter_bytes, unsharded_[a.stage],
              cell.end);
          unsharded_[a.stage] = kNoTime;
        }
        break;
      case ActionKind::recv_forward:
        add(MemoryUse::received, a.stage, a.microbatch, costs_.stages[a.stage - 1].forward_bytes, cell.begin,
            or_whole(forward_end_[stage_microbatch(s_, a)]));
        break;
      case ActionKind::recv_backward:
        add(MemoryUse::received, a.stage, a.microbatch, costs_.stages[a.stage + 1].backward_bytes, cell.begin,
            or_whole(input_end_[stage_microbatch(s_, a)]));
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

  // A step of a lifetime is the interval between two successive times at which a piece begins or ends.
  void assign_offsets() {
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

  const PipelineSchedule& s_;
  const PipelineCosts& costs_;
  const Simulation& simulation_;
  const int rank_;
  IdVector<StageMicrobatch, Time> forward_end_, input_end_, weight_end_;
  PerStage<Time> unsharded_, gradients_;  // since when
  PerStage<bool> sharded_;
  RankMemory out_;
};

}  // namespace

std::string_view to_string(MemoryUse use) {
  static constexpr std::string_view kNames[] = {"parameters", "gradients", "activations", "received"};
  return kNames[static_cast<std::size_t>(use)];
}

PerRank<RankMemory> memory_timeline(const PipelineSchedule& schedule, const PipelineCosts& costs,
                                    const Simulation& simulation) {
  PerRank<RankMemory> all;
  for (const int r : schedule.rows.ids())
    all.push_back(TimelineCollector(schedule, costs, simulation, r).run());
  return all;
}

}  // namespace braid::pipeline
