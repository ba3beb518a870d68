#include "analysis/problem.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "ir/error.h"

namespace braid::analysis {
namespace {

using namespace ir;

class Maker {
 public:
  Maker(const Schedule& schedule, const CostModel& costs)
      : schedule_(schedule),
        graph_(schedule.graph),
        costs_(costs),
        kernels_(costs, graph_),
        collective_of_(graph_.ops.size(), -1) {}

  Problem make_fixed() {
    const int n = add_nodes();
    for (int node = 0; node < n; ++node) {
      if (node > 0) p_.preds.push_back(node - 1);
      if (node + 1 < n) p_.succs.push_back(node + 1);
      p_.first_pred.push_back(static_cast<int>(p_.preds.size()));
      p_.first_succ.push_back(static_cast<int>(p_.succs.size()));
    }
    return std::move(p_);
  }

  Problem make(const Dependencies& deps) {
    const int n = add_nodes();
    for (int node = 0; node < n; ++node) {
      append(deps.predecessors(node), p_.preds, p_.first_pred);
      append(deps.successors(node), p_.succs, p_.first_succ);
    }
    return std::move(p_);
  }

 private:
  const Schedule& schedule_;
  const Graph& graph_;
  const CostModel& costs_;
  const KernelCosts kernels_;
  std::vector<int> collective_of_;  // by OpId of the start
  std::map<std::vector<int>, int> channels_;
  std::vector<char> in_parts_;  // by storage, and one more; empty until somebody asks
  Problem p_;

  int add_nodes() {
    const int n = static_cast<int>(schedule_.nodes.size());
    for (int node = 0; node < n; ++node) {
      add_steps(schedule_.nodes[static_cast<std::size_t>(node)], node);
      p_.first_step.push_back(static_cast<int>(p_.steps.size()));
    }
    p_.channels = static_cast<int>(channels_.size());
    return n;
  }

  void add_steps(const ScheduleNode& node, int index) {
    if (node.kind == ScheduleNode::Kind::grouped) {
      for (const ScheduleNode& member : node.members) add_steps(member, index);
    } else {
      add_step(node, ops_of(node).front(), index);
    }
  }

  void add_step(const ScheduleNode& schedule_node, OpId first, int node) {
    const Operation& op = graph_[first];
    // A wait first works, then blocks; what it does itself overlaps with what is in flight.
    if (op.as<CollectiveKernel>() || op.as<WaitKernel>() || op.as<ReleaseKernel>()) {
      Step overhead;
      overhead.work = costs_.call_overhead(graph_, first);
      if (overhead.work.ps > 0) p_.steps.push_back(overhead);
    }
    Step step;
    if (const auto* start = op.as<CollectiveKernel>()) {
      step = {Step::Kind::start, start->blocking, add_collective(first, *start, node)};
    } else if (const auto* wait = op.as<WaitKernel>()) {
      step = {Step::Kind::wait, false, collective_of(wait->start)};
      collective(step).wait = node;
    } else if (const auto* release = op.as<ReleaseKernel>()) {
      step = {Step::Kind::release, false, collective_of(release->start)};
      collective(step).release = node;
    } else {
      const KernelCost cost = kernels_(schedule_node);
      internal_check(cost.time.ps >= 0 && cost.slowdown >= 1000, "kernel '{}' costs {} ps, slow-down {}",
                     op.name, cost.time.ps, cost.slowdown);
      step.work = cost.time;
      step.slowdown = cost.slowdown;
    }
    p_.steps.push_back(step);
  }

  Collective& collective(const Step& step) {
    return p_.collectives[static_cast<std::size_t>(step.collective)];
  }
  int collective_of(OpId start) const {
    const int c = collective_of_[static_cast<std::size_t>(start.index)];
    internal_check(c >= 0, "'{}' is waited for before it is started", graph_[start].name);
    return c;
  }

  int add_collective(OpId op, const CollectiveKernel& kernel, int node) {
    const int index = static_cast<int>(p_.collectives.size());
    collective_of_[static_cast<std::size_t>(op.index)] = index;
    Collective c;
    c.op = op;
    c.start = node;
    c.channel = channels_.try_emplace(channel_of(kernel), static_cast<int>(channels_.size())).first->second;
    c.cost = costs_.collective(graph_, op);
    // The links of a paced machine belong to the communicators.
    if (costs_.machine().collectives.model == CollectiveModelKind::paced_link) c.cost.fabric = c.channel;
    internal_check(c.cost.time.ps >= 0 && c.cost.slowdown >= 1000 && c.cost.fabric >= 0,
                   "collective '{}' costs {} ps, slow-down {}, fabric {}", graph_[op].name, c.cost.time.ps,
                   c.cost.slowdown, c.cost.fabric);
    c.smallest_floor = smallest_floor(kernel, c.cost);
    p_.fabrics = std::max(p_.fabrics, c.cost.fabric + 1);
    p_.collectives.push_back(std::move(c));
    return index;
  }

  // Could pieces of it run at times of their own? Where all that comes before writes the whole tensor, and
  // all that comes after reads the whole, they might as well be one. Another collective may itself be cut.
  bool may_be_cut(const CollectiveKernel& kernel) {
    if (kernel.kind != CollectiveKind::all_reduce && kernel.kind != CollectiveKind::broadcast) return false;
    if (kernel.blocking) return false;
    if (in_parts_.empty()) find_parts();
    for (const auto* refs : {&kernel.inputs, &kernel.outputs}) {
      for (const TensorRef& r : *refs) {
        const StorageId s = root_storage(graph_, r.buffer);
        if (s.valid() && in_parts_[static_cast<std::size_t>(s.index)] != 0) return true;
      }
    }
    return false;
  }

  // Storages of which somebody touches a part, or which several collectives touch.
  void find_parts() {
    in_parts_.assign(graph_.storages.size() + 1, 0);
    std::vector<std::int32_t> collective(graph_.storages.size(), -1);  // the one that touched it
    const auto mark = [&](BufferId b) {
      const StorageId s = root_storage(graph_, b);
      if (s.valid()) in_parts_[static_cast<std::size_t>(s.index)] = 1;
    };
    const auto look = [&](const TensorRef& r) {
      if (!(r.sizes == graph_[r.buffer].sizes) && !(numel(r.sizes) == numel(graph_[r.buffer].sizes)))
        mark(r.buffer);
    };
    for (std::size_t k = 0; k < graph_.buffers.size(); ++k) {
      const Buffer& b = graph_.buffers[k];
      if (const auto* v = std::get_if<NonOwningLayout>(&b.layout);
          v != nullptr && !(numel(b.sizes) == numel(graph_[v->base].sizes))) {
        mark({static_cast<std::int32_t>(k)});
      }
    }
    for (std::size_t k = 0; k < graph_.ops.size(); ++k) {
      const Operation& op = graph_.ops[k];
      if (const auto* gemm = op.as<Gemm>()) {
        for (const TensorRef* r : {&gemm->a, &gemm->b, &gemm->out}) look(*r);
      } else if (const auto* e = op.as<ExternKernel>()) {
        for (const auto* refs : {&e->reads, &e->writes}) std::ranges::for_each(*refs, look);
      } else if (const auto* c = op.as<CollectiveKernel>()) {
        for (const auto* refs : {&c->inputs, &c->outputs}) {
          for (const TensorRef& r : *refs) {
            look(r);
            const StorageId s = root_storage(graph_, r.buffer);
            if (!s.valid()) continue;
            std::int32_t& first = collective[static_cast<std::size_t>(s.index)];
            if (first >= 0 && first != static_cast<std::int32_t>(k)) mark(r.buffer);
            first = static_cast<std::int32_t>(k);
          }
        }
      }
    }
  }

  Time smallest_floor(const CollectiveKernel& kernel, const CollectiveCost& cost) {
    if (!cost.priced_by_size) return cost.floor;
    if (may_be_cut(kernel)) return {};
    if (kernel.inputs.size() < 2) return cost.floor;
    std::int64_t smallest = INT64_MAX, all = 0;
    for (const TensorRef& t : kernel.inputs) {
      const std::int64_t bytes = costs_.value(numel(t.sizes)) * size_of(graph_[t.buffer].dtype);
      smallest = std::min(smallest, bytes);
      all += bytes;
    }
    if (all <= 0) return {};
    return {static_cast<std::int64_t>(static_cast<__int128>(cost.floor.ps) * smallest / all)};
  }

  std::vector<int> channel_of(const CollectiveKernel& kernel) const {
    const bool send = kernel.kind == CollectiveKind::send, recv = kernel.kind == CollectiveKind::recv;
    const bool by_pair =
        schedule_.channels == ChannelPolicy::pair || schedule_.channels == ChannelPolicy::edge;
    if (!by_pair || !(send || recv)) return {kernel.group.index};
    const bool edge = schedule_.channels == ChannelPolicy::edge;
    return {kernel.group.index, kernel.root, edge && recv ? 1 : 0};
  }

  static void append(std::span<const Dependency> from, std::vector<int>& to, std::vector<int>& first) {
    for (const Dependency& d : from) {
      // Ordered by node: what repeats stands side by side.
      if (static_cast<int>(to.size()) == first.back() || to.back() != d.node) to.push_back(d.node);
    }
    first.push_back(static_cast<int>(to.size()));
  }
};

}  // namespace

Time Problem::compute_time(int n) const {
  Time sum;
  for (const Step& s : steps_of(n)) sum += s.work;
  return sum;
}

int Problem::started_by(int n) const {
  for (const Step& s : steps_of(n)) {
    if (s.kind == Step::Kind::start) return s.collective;
  }
  return -1;
}

int Problem::waited_by(int n) const {
  for (const Step& s : steps_of(n)) {
    if (s.kind == Step::Kind::wait) return s.collective;
  }
  return -1;
}

Problem make_problem(const Schedule& schedule, const CostModel& costs, const ProblemOptions& options) {
  return make_problem(schedule, find_dependencies(schedule, {.channel_order = options.channel_order}), costs);
}

Problem make_problem(const Schedule& schedule, const Dependencies& deps, const CostModel& costs) {
  return Maker(schedule, costs).make(deps);
}

Problem make_fixed_problem(const Schedule& schedule, const CostModel& costs) {
  return Maker(schedule, costs).make_fixed();
}

Problem permuted(const Problem& p, std::span<const int> order) {
  const auto at = [](int index) { return static_cast<std::size_t>(index); };
  internal_check(static_cast<int>(order.size()) == p.size(), "an order of {} nodes for {}", order.size(),
                 p.size());
  std::vector<int> position(order.size(), -1);
  for (std::size_t k = 0; k < order.size(); ++k) position[at(order[k])] = static_cast<int>(k);
  Problem out;
  out.channels = p.channels;
  out.fabrics = p.fabrics;
  std::vector<int> collective(p.collectives.size(), -1);
  const auto append = [&](std::span<const int> from, std::vector<int>& to, std::vector<int>& first) {
    for (int n : from) to.push_back(position[at(n)]);
    std::sort(to.begin() + first.back(), to.end());
    first.push_back(static_cast<int>(to.size()));
  };
  for (int n : order) {
    for (Step step : p.steps_of(n)) {
      if (step.kind == Step::Kind::start) {
        Collective c = p.collectives[at(step.collective)];
        for (int* node : {&c.start, &c.wait, &c.release}) {
          if (*node >= 0) *node = position[at(*node)];
        }
        collective[at(step.collective)] = static_cast<int>(out.collectives.size());
        out.collectives.push_back(std::move(c));
      }
      if (step.collective >= 0) step.collective = collective[at(step.collective)];
      out.steps.push_back(step);
    }
    out.first_step.push_back(static_cast<int>(out.steps.size()));
    append(p.predecessors(n), out.preds, out.first_pred);
    append(p.successors(n), out.succs, out.first_succ);
  }
  return out;
}

std::vector<int> identity_order(int nodes) {
  std::vector<int> order(static_cast<std::size_t>(nodes));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

bool apply_order(Schedule& schedule, std::span<const int> order) {
  internal_check(order.size() == schedule.nodes.size(), "an order of {} nodes for {}", order.size(),
                 schedule.nodes.size());
  if (std::is_sorted(order.begin(), order.end())) return false;
  std::vector<ScheduleNode> nodes;
  nodes.reserve(order.size());
  std::vector<bool> taken(order.size(), false);
  for (int n : order) {
    internal_check(n >= 0 && n < static_cast<int>(taken.size()) && !taken[static_cast<std::size_t>(n)],
                   "the order is no permutation of the nodes");
    taken[static_cast<std::size_t>(n)] = true;
    nodes.push_back(std::move(schedule.nodes[static_cast<std::size_t>(n)]));
  }
  schedule.nodes = std::move(nodes);
  schedule.plan.reset();
  return true;
}

}  // namespace braid::analysis
