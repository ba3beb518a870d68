#include "passes/select_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "analysis/collectives_of.h"
#include "analysis/costs/nccl_tuner.h"
#include "ir/collective_table.h"
#include "ir/comm_buffer.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "ir/in_place_collectives.h"
#include "passes/kernel_choice.h"
#include "passes/make_blocking.h"

namespace braid::passes {
namespace {

using namespace ir;
using namespace analysis;

CommEngine engine_named(const std::string& name, const PassContext& context) {
  if (name.empty()) return context.engine.value_or(engine_of(context.costs->machine()));
  for (std::size_t k = 0; k < std::size(kEngines); ++k) {
    if (name == kEngines[k].name) return static_cast<CommEngine>(k);
  }
  user_error(errors::kBadKernelOption, {.node = std::string(SelectKernels::kName)},
             fmt::format("there is no engine '{}'", name), "engines are shared_memory and nccl");
}

// The smallest payload that CollectiveShape::bytes may stand for.
std::int64_t least_bytes(const Graph& graph, const CollectiveKernel& k) {
  std::int64_t bytes = 0;
  for (const TensorRef& ref : payload(k))
    bytes += bounds(numel(ref.sizes) * Expr(size_of(graph[ref.buffer].dtype))).min;
  return std::max<std::int64_t>(bytes, 0);
}

// Whether every kernel of the engine can work on the operands where they lie.
bool in_segment(const Graph& graph, const CollectiveKernel& k, CommEngine engine) {
  for (const auto* refs : {&k.inputs, &k.outputs}) {
    for (const TensorRef& ref : *refs) {
      const bool reachable = engine_row(engine).has_windows
                                 ? reachable_by_peers(graph, ref, k.group, refs == &k.inputs)
                                 : graph[root_storage(graph, ref.buffer)].kind == StorageKind::comm;
      if (!reachable) return false;
    }
  }
  return true;
}

class KernelChooser {
 public:
  KernelChooser(const SelectKernels& options, const Schedule& schedule, const PassContext& context)
      : options_(options),
        graph_(schedule.graph),
        may_block_(may_block(schedule)),
        context_(context),
        costs_(*context.costs),
        engine_(engine_named(options.engine, context)),
        priced_(engine_of(costs_.machine())) {}

  KernelChoice operator()(OpId start) {
    const Operation& op = graph_[start];
    const CollectiveKernel& k = *op.as<CollectiveKernel>();
    KernelChoice c;
    c.name = op.name;
    c.kind = k.kind;
    c.group = graph_[k.group].name;
    c.origins = op.origins;
    c.kernel = to_string(k.algorithm);
    c.blocking = k.blocking;
    price(start, k, c);
    decide(start, k, c);
    for (const KernelCandidate& candidate : c.candidates) {
      if (candidate.kernel == c.kernel) c.us = candidate.us;
    }
    if (!c.blocking && may_block_[start] && c.us < options_.blocking_below_us)
      c.blocking = c.made_blocking = true;
    return c;
  }

 private:
  double us(CollectiveShape shape, Algorithm kernel, std::int64_t bytes) const {
    // The engine's default is the library's own choice.
    shape.algorithm = kernel == Algorithm::library ? Algorithm::unasked : kernel;
    shape.bytes = bytes;
    return costs_.collective(shape).time.us();
  }

  void price(OpId start, const CollectiveKernel& k, KernelChoice& c) {
    CollectiveShape shape = costs_.shape(graph_, start);
    c.max_bytes = shape.bytes;
    c.min_bytes = std::min(least_bytes(graph_, k), c.max_bytes);
    const CollectiveCost now = costs_.collective(graph_, start);
    c.us = now.time.us();
    fixed_cost_ = !now.priced_by_size;
    if (fixed_cost_ || shape.ranks.size() < 2) return;
    // Kernels that the machine's model distinguishes, whether or not the target has them.
    const GroupTopology group = topology(costs_.machine(), shape.ranks, shape.siblings);
    for (const Algorithm kernel : row_of(k.kind).algorithms.list()) {
      if (kernel == Algorithm::automatic) continue;
      if (!engine_row(priced_).has_windows) {
        if (!engine_kernels(priced_, k.kind).contains(kernel)) continue;
      } else if (kernel != Algorithm::library && kernel != Algorithm::ring) {
        shape.algorithm = kernel;
        if (!symmetric_kernels_apply(costs_.machine().collectives, shape, group)) continue;
      }
      c.candidates.push_back({std::string(to_string(kernel)),
                              engine_kernels(engine_, k.kind).contains(kernel),
                              us(shape, kernel, c.max_bytes), us(shape, kernel, c.min_bytes)});
    }
  }

  void decide(OpId start, const CollectiveKernel& k, KernelChoice& c) const {
    if (k.algorithm != Algorithm::unasked) {
      const bool forced = context_.forced_kernels.contains(graph_[start].name);
      c.reason = forced ? KernelReason::forced : KernelReason::program;
      return;
    }
    if (context_.forced_kernels.contains(graph_[start].name)) {
      c.reason = KernelReason::forced;
      return;
    }
    if (graph_[k.group].size() < 2) {
      c.reason = KernelReason::alone;
    } else if (options_.policy == "engine") {
      c.reason = KernelReason::left;
    } else if (options_.policy == "inductor") {
      follow_inductor(k, c);
    } else if (const auto known = engine_kernels(engine_, k.kind).names(); known.size() < 2) {
      only_one(known, c);
    } else {
      cheapest(k, c);
    }
  }

  void only_one(std::span<const std::string_view> known, KernelChoice& c) const {
    c.reason = KernelReason::only_one;
    c.detail = known.empty() ? "a transfer" : std::string(known[0]);
  }

  // torch/_inductor/comm_lowering.py: sums only, up to a threshold; everything else is the library's.
  void follow_inductor(const CollectiveKernel& k, KernelChoice& c) const {
    const Algorithms known = engine_kernels(engine_, k.kind);
    if (k.kind != CollectiveKind::all_reduce) return only_one(known.names(), c);
    const bool sum = k.reduce == ReduceKind::sum;
    const bool at_most = sum && c.max_bytes <= options_.threshold_bytes;
    const bool at_least = sum && c.min_bytes <= options_.threshold_bytes;
    if (at_most != at_least) {
      c.reason = KernelReason::size_dependent;
      c.detail = fmt::format("one_shot up to {} bytes only", options_.threshold_bytes);
      return;
    }
    const Algorithm wanted = at_most ? Algorithm::one_shot : Algorithm::library;
    if (at_most && engine_row(engine_).has_windows && !in_segment(graph_, k, engine_)) {
      c.reason = KernelReason::outside;
      return;
    }
    c.reason = KernelReason::rule;
    c.detail = !sum      ? fmt::format("{} is not a sum", to_string(k.reduce))
               : at_most ? fmt::format("a sum of at most {} bytes", options_.threshold_bytes)
                         : fmt::format("more than {} bytes", options_.threshold_bytes);
    if (known.contains(wanted)) c.kernel = to_string(wanted);
  }

  void cheapest(const CollectiveKernel& k, KernelChoice& c) const {
    if (fixed_cost_) {
      c.reason = KernelReason::fixed_cost;
      return;
    }
    if (priced_ != engine_) {
      c.reason = KernelReason::foreign_costs;
      c.detail = fmt::format("machine {} prices {}, the target runs on {}", costs_.machine().name,
                             to_string(priced_), to_string(engine_));
      return;
    }
    if (!in_segment(graph_, k, engine_)) {
      c.reason = KernelReason::outside;
      return;
    }
    const KernelCandidate *best = nullptr, *best_at_least = nullptr, *second = nullptr;
    for (const KernelCandidate& x : c.candidates) {
      if (!x.executable) continue;
      if (!best || x.us < best->us) {
        second = best;
        best = &x;
      } else if (!second || x.us < second->us) {
        second = &x;
      }
      if (!best_at_least || x.us_at_least < best_at_least->us_at_least) best_at_least = &x;
    }
    if (!second) {
      c.reason = KernelReason::only_one;
      c.detail = best ? best->kernel + " is the only one with a price" : "no kernel has a price";
    } else if (best->us == second->us && best->us_at_least == second->us_at_least) {
      c.reason = KernelReason::equal;
    } else if (best->us_at_least > best_at_least->us_at_least) {
      c.reason = KernelReason::size_dependent;
      c.detail = fmt::format("{} at {} bytes, {} at {}", best_at_least->kernel, c.min_bytes, best->kernel,
                             c.max_bytes);
    } else {
      c.reason = KernelReason::cheapest;
      c.kernel = best->kernel;
      c.detail = fmt::format("{} would take {:.3f} us", second->kernel, second->us);
    }
  }

  const SelectKernels& options_;
  const Graph& graph_;
  const IdVector<OpId, bool> may_block_;
  const PassContext& context_;
  const CostModel& costs_;
  CommEngine engine_, priced_;
  bool fixed_cost_ = false;
};

}  // namespace

std::vector<KernelChoice> SelectKernels::choose(const Schedule& schedule, const PassContext& context) const {
  if (policy != "cost" && policy != "inductor" && policy != "engine") {
    user_error(errors::kBadKernelOption, {.node = std::string(kName)},
               fmt::format("there is no policy '{}'", policy), "policies are cost, inductor and engine");
  }
  KernelChooser chooser(*this, schedule, context);
  std::vector<KernelChoice> out;
  for (OpId start : collectives_of(schedule)) out.push_back(chooser(start));
  return out;
}

bool SelectKernels::run(Schedule& schedule, PassContext& context) {
  const std::vector<OpId> starts = collectives_of(schedule);
  std::vector<KernelChoice> choices = choose(schedule, context);
  bool changed = false;
  std::vector<OpId> blocking;
  using Places = std::map<StorageId, StorageId>;
  const Places in_place = schedule.plan ? shared_places(schedule) : Places{};
  for (std::size_t i = 0; i < starts.size(); ++i) {
    auto& kernel = *schedule.graph[starts[i]].as<CollectiveKernel>();
    const Algorithm chosen = *algorithm_named(choices[i].kernel);
    changed |= kernel.algorithm != chosen;
    kernel.algorithm = chosen;
    if (choices[i].made_blocking) blocking.push_back(starts[i]);
  }
  // A kernel that reads peers' operands while it writes results cannot have both in one place.
  if (!in_place.empty() && shared_places(schedule) != in_place) schedule.plan.reset();
  changed |= make_blocking(schedule, blocking);
  context.kernel_choices = std::move(choices);
  return changed;
}

}  // namespace braid::passes
