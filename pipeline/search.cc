#include "pipeline/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "ir/error.h"
#include "ir/error_numbers.h"
#include "pipeline/list_schedules.h"
#include "pipeline/search_costs.h"
#include "pipeline/widening_beam.h"

namespace braid::pipeline {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

// Whether the orders contain exactly the problem's actions, each on the rank of its stage.
bool suits(const SearchProblem& p, const PipelineSchedule& schedule, const Orders& orders) {
  if (schedule.rank_of_stage != p.rank_of_stage || count_of(orders) != p.ranks) return false;
  const PerStage<int> none(p.stages.ids());
  PerStage<int> done[] = {none, none, none};
  for (const int r : orders.ids())
    for (const Move move : orders[r]) {
      if (move.stage < 0 || move.stage >= p.stage_count() || p.rank_of_stage[move.stage] != r) return false;
      ++done[move.kind][move.stage];
    }
  return std::all_of(done, done + p.kinds(), [&](const PerStage<int>& kind) {
    return std::ranges::all_of(kind, [&](int count) { return count == p.microbatches; });
  });
}

KnownOutcome judge(const SearchProblem& p, const NamedSchedule& known, Orders& orders) {
  KnownOutcome out{known.name, KnownOutcome::Status::unsuited, {}};
  orders = from_rows(p, known.schedule);
  if (!suits(p, known.schedule, orders)) return out;
  const Evaluation e = evaluate(p, orders);
  out.status = e.status == Evaluation::Status::ok      ? KnownOutcome::Status::fits
               : e.status == Evaluation::Status::stuck ? KnownOutcome::Status::stuck
                                                       : KnownOutcome::Status::over_cap;
  out.makespan = e.makespan;
  return out;
}

std::string_view word(KnownOutcome::Status status) {
  switch (status) {
    case KnownOutcome::Status::fits:
      return "fits";
    case KnownOutcome::Status::over_cap:
      return "over the cap";
    case KnownOutcome::Status::stuck:
      return "stuck";
    default:
      return "for another problem";
  }
}

}  // namespace

std::int64_t default_node_budget(const SearchProblem& p) {
  const std::int64_t actions = std::max<std::int64_t>(p.actions(), 1);
  return std::max<std::int64_t>(100'000'000 / actions, 2 * actions);
}

std::int64_t default_simulations(const SearchProblem& p) {
  return 100'000 / std::max<std::int64_t>(p.actions(), 1);
}

namespace {

BeamOptions beam_options(const SearchProblem& p, const SearchResult& out, const SearchOptions& options) {
  BeamOptions beam;
  beam.node_budget = out.node_budget;
  beam.max_bytes = options.max_bytes;
  beam.root_bound = out.lower_bound.ps;
  // The first, narrow pass must reach the end of the schedule; it takes up to kinds * width states per
  // layer.
  beam.first_width =
      std::clamp<std::int64_t>(out.node_budget / (8 * std::max<std::int64_t>(p.actions(), 1)), 1, 16);
  return beam;
}

[[noreturn]] void found_nothing(const BeamResult& found, std::int64_t node_budget) {
  if (found.complete)
    ir::user_error(errors::kCapsTooSmall, {}, "no order of the actions satisfies the byte caps",
                   "raise the caps of ranks that own several stages, or move stages");
  ir::user_error(errors::kSearchBudget, {},
                 fmt::format("the budget of {} states was spent before a schedule was found", node_budget),
                 "raise the budget or the byte caps");
}

}  // namespace

SearchResult search(const SearchProblem& p, std::span<const NamedSchedule> known,
                    const SearchOptions& options) {
  check(p);
  SearchResult out;
  out.node_budget = options.node_budget > 0 ? options.node_budget : default_node_budget(p);
  out.orders.assign(first_ids<int>(p.ranks), {});
  std::int64_t incumbent = p.actions() == 0 ? 0 : kNever;
  std::vector<ChannelCandidate> candidates(1);  // the first is the result's
  for (const NamedSchedule& schedule : known) {
    Orders orders;
    out.known.push_back(judge(p, schedule, orders));
    const KnownOutcome& outcome = out.known.back();
    if (outcome.status != KnownOutcome::Status::fits) continue;
    candidates.push_back({outcome.name, orders, in_problem_kinds(p, schedule.schedule)});
    if (outcome.makespan.ps >= incumbent) continue;
    incumbent = outcome.makespan.ps;
    out.orders = std::move(orders);
    out.best_known = count_of(out.known) - 1;
  }
  const SearchInstance instance(p);
  out.root_bounds = LowerBounds(instance).root();
  out.lower_bound = out.root_bounds.best();
  if (incumbent > out.lower_bound.ps) {
    if (std::optional<ListSchedule> greedy = best_list_schedule(instance); greedy) {
      candidates.push_back({"greedy", greedy->orders, {}});
      if (greedy->makespan < incumbent) {
        incumbent = greedy->makespan;
        out.orders = std::move(greedy->orders);
      }
    }
  }
  if (incumbent > out.lower_bound.ps) {
    BeamResult found = widening_beam(instance, incumbent, beam_options(p, out, options));
    out.nodes = found.nodes;
    out.width = found.width;
    if (found.improved) out.orders = std::move(found.orders);
    incumbent = found.makespan;
    if (incumbent == kNever) found_nothing(found, out.node_budget);
    out.lower_bound.ps = found.lower_bound;
  }
  out.makespan.ps = incumbent;
  out.lower_bound = std::min(out.lower_bound, out.makespan);
  out.proven_optimal = out.lower_bound == out.makespan;
  out.compute = to_schedule(p, out.orders);
  candidates[0] = {"search", out.orders, {}};
  out.channels = options.channels;
  const PipelineCosts costs = options.costs != nullptr ? *options.costs : simulation_costs(p);
  out.executable =
      choose_for_channels(p, costs, options.channels, candidates, out.lower_bound,
                          options.simulations < 0 ? default_simulations(p) : options.simulations);
  out.executable_source = ir::at(candidates, out.executable.candidate).name;
  return out;
}

std::string to_text(const SearchResult& r) {
  std::string text = fmt::format(
      "makespan {:.3f} us, {}\n", r.makespan.us(),
      r.proven_optimal ? "proven optimal" : fmt::format("at most {:.2f} % above the optimum", 100 * r.gap()));
  text += fmt::format("lower bound {:.3f} us (rank work {:.3f}, critical path {:.3f}, one machine {:.3f})\n",
                      r.lower_bound.us(), r.root_bounds.rank_work.us(), r.root_bounds.critical_path.us(),
                      r.root_bounds.one_machine.us());
  text += fmt::format("states {} of {}, width {}\n", r.nodes, r.node_budget, r.width);
  text += fmt::format(
      "channels {}: {:.3f} us, {:.2f} % above the model, from {}{}, {} messages proved to pass\n",
      to_string(r.channels), r.executable.simulated.us(),
      r.makespan.ps == 0
          ? 0
          : 100 * (static_cast<double>(r.executable.simulated.ps) / static_cast<double>(r.makespan.ps) - 1),
      r.executable_source,
      r.executable.improvements == 0 ? ""
                                     : fmt::format(", improved by {} exchanges", r.executable.improvements),
      r.executable.certificate.order.size());
  for (int j = 0; j < count_of(r.known); ++j) {
    const KnownOutcome& k = ir::at(r.known, j);
    text += k.status == KnownOutcome::Status::fits ? fmt::format("{}: {:.3f} us{}\n", k.name, k.makespan.us(),
                                                                 j == r.best_known ? ", the best known" : "")
                                                   : fmt::format("{}: {}\n", k.name, word(k.status));
  }
  return text;
}

}  // namespace braid::pipeline
