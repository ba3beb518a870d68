#include "passes/fuse_vertical.h"

#include <algorithm>
#include <optional>

#include "ir/contraction.h"
#include "ir/error.h"
#include "ir/fused_loops.h"
#include "passes/fusion_graph.h"
#include "passes/reshape_loops.h"

namespace braid::passes {
namespace {

using namespace ir;

class VerticalFuser {
 public:
  VerticalFuser(Schedule& schedule, const FuseVertical& options, IdSpan<OpId, const int> region_of_op)
      : schedule_(schedule),
        graph_(schedule.graph),
        options_(options),
        clusters_(schedule, options.keep_overlap, region_of_op) {
    for (const ScheduleNode& node : schedule.nodes)
      fusible_.push_back(is_loops(schedule, node) && !has_contraction(node));
  }

  bool run() {
    bool changed = false;
    for (int consumer : clusters_.clusters()) {
      if (!fusible_[consumer]) continue;
      // The nearest producer first; the merged cluster may then merge with the next one.
      int cluster = clusters_.cluster_of(consumer);
      for (bool again = true; again;) {
        again = false;
        std::vector<int> producers = clusters_.producers(cluster);
        for (std::size_t k = producers.size(); k-- > 0;) {
          if (!fuse(producers[k], cluster)) continue;
          cluster = producers[k];
          changed = again = true;
          break;
        }
      }
    }
    if (!changed) return false;
    schedule_.nodes = clusters_.nodes(schedule_);
    schedule_.plan.reset();
    return true;
  }

 private:
  Schedule& schedule_;
  Graph& graph_;
  const FuseVertical& options_;
  FusionGraph clusters_;
  IdVector<int, bool> fusible_;

  bool has_contraction(const ScheduleNode& node) const {
    const std::vector<OpId> ops = ops_of(node);
    return std::any_of(ops.begin(), ops.end(), [&](OpId op) {
      const auto& loops = *graph_[op].as<Loops>();
      const Expr terms = numel(std::span(loops.sizes).subspan(loops.kept()));
      return bounds(terms).max > options_.most_terms && is_contraction(loops);
    });
  }

  bool fuse(int producer, int consumer) {
    if (!fusible_[producer]) return false;
    std::vector<OpId> ops = clusters_.ops(producer);
    const std::vector<OpId>& more = clusters_.ops(consumer);
    if (std::ssize(ops) + std::ssize(more) > options_.max_members) return false;
    const std::optional<double> position = clusters_.joint_position(producer, consumer);
    if (!position) return false;
    ops.insert(ops.end(), more.begin(), more.end());
    if (!make_common(clusters_.ops(producer), more, ops)) return false;
    clusters_.merge(producer, consumer, *position);
    return true;
  }

  // Points of the common outer space at its upper bound; nullopt if the loops should not be one node.
  std::optional<std::int64_t> outer_points(const std::vector<OpId>& ops) const {
    const std::optional<FusedLoops> fused = analyse_fused(graph_, ops);
    if (!fused) return std::nullopt;
    const std::int64_t points = bounds(numel(fused->outer)).max;
    const std::size_t outer = fused->outer.size();
    double most_inner = 1;
    for (const FusedLoops::Member& m : fused->members) {
      const auto& loops = *graph_[m.op].as<Loops>();
      most_inner = std::max(most_inner, cheap_iterations(loops.body, std::span(loops.sizes).subspan(outer)));
    }
    if (points < options_.min_outer && most_inner > static_cast<double>(options_.small_inner))
      return std::nullopt;
    if (!rows_are_short(ops, outer)) return std::nullopt;
    return points;
  }

  bool rows_are_short(const std::vector<OpId>& ops, std::size_t outer) const {
    return std::all_of(ops.begin(), ops.end(), [&](OpId op) {
      const Bounds row = bounds(row_elements(graph_, op, outer));
      return row.max <= options_.max_row_bytes / size_of(graph_[graph_[op].outputs[0]].dtype);
    });
  }

  // Takes the loops as they are, or rewrites both sides over the finest common factorisation of their outer
  // spaces if that leaves more points in common.
  bool make_common(const std::vector<OpId>& first, const std::vector<OpId>& second,
                   const std::vector<OpId>& all) {
    const std::optional<std::int64_t> as_is = outer_points(all);
    const auto a = analyse_fused(graph_, first), b = analyse_fused(graph_, second);
    if (!a || !b) return false;
    const auto [factors_a, factors_b] = common_factors(a->outer, b->outer);
    const auto is_split = [](const std::vector<Expr>& f) { return f.size() != 1; };
    if (std::none_of(factors_a.begin(), factors_a.end(), is_split) &&
        std::none_of(factors_b.begin(), factors_b.end(), is_split)) {
      return as_is.has_value();
    }
    std::vector<Loops> before;
    for (OpId op : all) before.push_back(*graph_[op].as<Loops>());
    for (OpId op : first)
      *graph_[op].as<Loops>() = split_dims(*graph_[op].as<Loops>(), factors_a, *graph_.pool);
    for (OpId op : second)
      *graph_[op].as<Loops>() = split_dims(*graph_[op].as<Loops>(), factors_b, *graph_.pool);
    const std::optional<std::int64_t> split = outer_points(all);
    if (split && (!as_is || *split > *as_is)) return true;
    for (std::size_t k = 0; k < all.size(); ++k) *graph_[all[k]].as<Loops>() = std::move(before[k]);
    return as_is.has_value();
  }
};

}  // namespace

bool FuseVertical::run(Schedule& schedule, IdSpan<OpId, const int> region_of_op) {
  return VerticalFuser(schedule, *this, region_of_op).run();
}

}  // namespace braid::passes
