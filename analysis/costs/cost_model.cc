#include "analysis/costs/cost_model.h"

#include <algorithm>
#include <mutex>

#include "analysis/costs/collective_model.h"
#include "analysis/costs/cost_file.h"
#include "ir/collective_table.h"
#include "ir/comm_buffer.h"
#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid::analysis {

CostModel::CostModel(Machine machine, CostOptions options)
    : machine_(std::move(machine)), options_(std::move(options)) {
  if (!options_.cost_file.empty()) entries_ = read_cost_file(options_.cost_file);
}

std::int64_t CostModel::value(const ir::Expr& e) const {
  if (e.is_constant()) return e.constant();
  ir::Expr chosen = e;
  if (!options_.dims.empty()) {
    chosen = ir::substitute(e, [&](ir::Expr symbol) -> std::optional<ir::Expr> {
      if (!symbol.is_symbol(ir::SymbolKind::dim)) return std::nullopt;
      const auto found = options_.dims.find(symbol.dim_name());
      return found == options_.dims.end() ? std::nullopt : std::optional<ir::Expr>(found->second);
    });
  }
  const std::int64_t most = ir::bounds(chosen).max;
  if (most >= ir::kUnbounded) {
    ir::user_error(errors::kNoUpperBound, {},
                   fmt::format("the size {} has no upper bound, so nothing can be priced", ir::to_string(e)),
                   "give its dimensions an upper bound or a value");
  }
  return std::max<std::int64_t>(most, 0);
}

std::optional<double> CostModel::explicit_ns(const ir::Graph& graph, ir::OpId op) const {
  const auto checked = [&](double ns, const char* by) {
    if (!(ns >= 0 && ns <= kMaxNs)) {
      ir::user_error(errors::kBadTime, {.node = graph[op].name},
                     fmt::format("{} says that it takes {} ns", by, ns), "a time is 0 to 1e15 ns");
    }
    return ns;
  };
  if (options_.function) {
    if (const auto ns = options_.function(graph, op)) return checked(*ns, "the cost function");
  }
  if (const auto found = entries_.find(graph[op].name); found != entries_.end()) return found->second;
  if (const auto& cost = graph[op].cost; cost && cost->ns >= 0) return checked(cost->ns, "its cost");
  return std::nullopt;
}

KernelCost CostModel::kernel(const ir::Graph& graph, std::span<const ir::OpId> ops) const {
  return KernelCosts(*this, graph)(ops);
}

CollectiveShape CostModel::shape(const ir::Graph& graph, ir::OpId start) const {
  const auto* kernel = graph[start].as<ir::CollectiveKernel>();
  ir::internal_check(kernel != nullptr, "'{}' is not a collective", graph[start].name);
  const SlowestPart part = slowest_part(machine_, graph[kernel->group].parts);
  CollectiveShape shape{
      .kind = kernel->kind, .reduce = kernel->reduce, .ranks = *part.ranks, .siblings = part.siblings};
  if (kernel->algorithm != ir::Algorithm::automatic) shape.algorithm = kernel->algorithm;
  // The whole segment is one symmetric window if anything in it must be (docs/cuda.md).
  shape.symmetric = true;
  for (const auto* operands : {&kernel->inputs, &kernel->outputs}) {
    for (const ir::TensorRef& ref : *operands)
      shape.symmetric &= ir::reachable_by_peers(graph, ref, kernel->group, operands == &kernel->inputs);
  }
  const auto& refs = payload(*kernel);
  for (const ir::TensorRef& ref : refs) {
    shape.bytes += value(ir::numel(ref.sizes) * ir::Expr(ir::size_of(graph[ref.buffer].dtype)));
  }
  if (!refs.empty()) shape.dtype = graph[refs.front().buffer].dtype;
  return shape;
}

CollectiveCost CostModel::collective(const ir::Graph& graph, ir::OpId start) const {
  const CollectiveShape s = shape(graph, start);
  if (const auto ns = explicit_ns(graph, start)) {
    CollectiveCost cost;
    cost.time = cost.latency = cost.floor = Time::from_ns(*ns);
    cost.slowdown = machine_.collectives.slowdown;
    // An explicit time may be given for a group that the machine could not hold.
    cost.fabric = machine_.collectives.network && topology(machine_, s.ranks).nodes > 1 ? 1 : 0;
    cost.priced_by_size = false;
    return cost;
  }
  return collective(s);
}

Time CostModel::call_overhead(const ir::Graph& graph, ir::OpId op) const {
  if (entries_.empty()) return {};
  const bool start = graph[op].as<ir::CollectiveKernel>() != nullptr;
  const auto found = entries_.find(start ? graph[op].name + ".issue" : graph[op].name);
  return found == entries_.end() ? Time{} : Time::from_ns(found->second);
}

CollectiveCost CostModel::collective(const CollectiveShape& shape) const {
  const CollectiveEstimate e = estimate_collective(machine_, shape);
  CollectiveCost cost;
  const auto time = [](double us) { return Time::from_ns(std::min(us * 1e3, kMaxNs)); };
  cost.time = time(e.us);
  cost.latency = time(e.latency_us);
  cost.floor = std::min(time(e.floor_us), cost.time);
  cost.slowdown = machine_.collectives.slowdown;
  cost.fabric = topology(machine_, shape.ranks).nodes > 1 ? 1 : 0;
  cost.algorithm = e.algorithm;
  return cost;
}

KernelCosts::KernelCosts(const CostModel& model, const ir::Graph& graph) : model_(model), graph_(graph) {}

KernelCost KernelCosts::operator()(std::span<const ir::OpId> ops) const {
  Permille slowdown = 1000;
  const double time = ns(ops, slowdown);
  return {Time::from_ns(std::min(time, kMaxNs)), slowdown};
}

KernelCost KernelCosts::operator()(const ir::ScheduleNode& node) const {
  KernelCost cost = (*this)(ir::ops_of(node));
  if (node.kind == ir::ScheduleNode::Kind::fused) {
    const auto found = model_.entries_.find(node.name);
    if (found != model_.entries_.end()) cost.time = Time::from_ns(found->second);
  }
  return cost;
}

// Members with a time of their own count with it; the others count together as one kernel of the machine.
double KernelCosts::ns(std::span<const ir::OpId> ops, Permille& slowdown) const {
  std::vector<ir::OpId> sorted(ops.begin(), ops.end());
  std::sort(sorted.begin(), sorted.end());
  const auto inside = [&](ir::BufferId b) {
    if (sorted.size() <= 1) return false;
    if (!users_) users_.emplace(graph_);
    return users_->only_inside(ir::root_storage(graph_, b), sorted);
  };
  const SizeOf size = [&](const ir::Expr& e) { return model_.value(e); };
  const Machine& machine = model_.machine_;
  double total = 0;
  std::optional<Roofline> work;
  for (ir::OpId id : ops) {
    const ir::Operation& op = graph_[id];
    const bool communicates =
        op.as<ir::CollectiveKernel>() || op.as<ir::WaitKernel>() || op.as<ir::ReleaseKernel>();
    if (communicates) continue;
    if (const auto* region = op.as<ir::RegionKernel>(); region && !model_.explicit_ns(graph_, id)) {
      double most = 0;
      for (const ir::Region& r : region->regions) {
        double sum = 0;
        for (ir::OpId inner : r.ops) sum += ns(std::span(&inner, 1), slowdown);
        most = std::max(most, sum);
      }
      total +=
          most *
          (region->kind == ir::RegionKind::repeat ? static_cast<double>(model_.value(region->trips)) : 1);
      continue;
    }
    KernelWork w = kernel_work(graph_, op, size, inside);
    slowdown = std::max(slowdown, machine[w.kernel_class].slowdown);
    if (const auto explicit_ns = model_.explicit_ns(graph_, id)) {
      total += *explicit_ns;
      continue;
    }
    if (op.cost && (op.cost->flops >= 0 || op.cost->bytes >= 0)) {
      w.flops = std::max(op.cost->flops, 0.0);
      w.bytes = std::max(op.cost->bytes, 0.0);
    }
    if (!work) work.emplace();
    *work += roofline(machine, w);
  }
  if (work) total += 1e3 * (machine.launch_us + work->us());
  return total;
}

std::shared_ptr<const CostModel> cost_model_for(const std::string& machine) {
  // Files may change while the process lives.
  if (machine.ends_with(".json")) return std::make_shared<const CostModel>(load_machine(machine));
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<const CostModel>> models;
  const std::lock_guard lock(mutex);
  auto& model = models[machine];
  if (!model) {
    try {
      model = std::make_shared<const CostModel>(load_machine(machine.empty() ? kDefaultMachine : machine));
    } catch (...) {
      models.erase(machine);
      throw;
    }
  }
  return model;
}

}  // namespace braid::analysis
