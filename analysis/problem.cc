#include "analysis/problem.h"

#include <algorithm>
#include <map>

#include "ir/collective_table.h"
#include "ir/error.h"
#include "ir/kernel_parts.h"

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
        collective_of_(graph_.ops.size()) {}

  Problem make_fixed() {
    add_nodes();
    for (const NodeId node : p_.nodes()) {
      if (node.index > 0) p_.preds.add(node - 1);
      if (node.index + 1 < p_.size()) p_.succs.add(node + 1);
      p_.preds.close();
      p_.succs.close();
    }
    return std::move(p_);
  }

  Problem make(const Dependencies& deps) {
    add_nodes();
    for (const NodeId node : p_.nodes()) {
      append(deps.predecessors(node.index), p_.preds);
      append(deps.successors(node.index), p_.succs);
    }
    return std::move(p_);
  }

 private:
  const Schedule& schedule_;
  const Graph& graph_;
  const CostModel& costs_;
  const KernelCosts kernels_;
  IdVector<OpId, CollectiveId> collective_of_;  // of the start
  std::map<std::vector<int>, ChannelId> channels_;
  IdVector<StorageId, char> in_parts_;  // and one more, so that empty means not computed yet
  Problem p_;

  void add_nodes() {
    for (const ScheduleNode& node : schedule_.nodes) {
      add_steps(node, NodeId{p_.size()});
      p_.first_step.push_back(p_.steps.end_id());
    }
    p_.channels = count_of(channels_);
  }

  void add_steps(const ScheduleNode& node, NodeId index) {
    if (node.kind == ScheduleNode::Kind::grouped) {
      for (const ScheduleNode& member : node.members) add_steps(member, index);
    } else {
      add_step(node, ops_of(node).front(), index);
    }
  }

  void add_step(const ScheduleNode& schedule_node, OpId first, NodeId node) {
    const Operation& op = graph_[first];
    // A wait works first, then blocks; its own work overlaps with what is in flight.
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

  Collective& collective(const Step& step) { return p_.collectives[step.collective]; }
  CollectiveId collective_of(OpId start) const {
    const CollectiveId c = collective_of_[start];
    internal_check(c.valid(), "'{}' is waited for before it is started", graph_[start].name);
    return c;
  }

  CollectiveId add_collective(OpId op, const CollectiveKernel& kernel, NodeId node) {
    const CollectiveId index = p_.collectives.end_id();
    collective_of_[op] = index;
    Collective c;
    c.op = op;
    c.start = node;
    c.channel = channels_.try_emplace(channel_of(kernel), ChannelId{count_of(channels_)}).first->second;
    c.cost = costs_.collective(graph_, op);
    // On a paced machine each communicator has its own link.
    if (costs_.machine().collectives.model == CollectiveModelKind::paced_link)
      c.cost.fabric = c.channel.index;
    internal_check(c.cost.time.ps >= 0 && c.cost.slowdown >= 1000 && c.cost.fabric >= 0,
                   "collective '{}' costs {} ps, slow-down {}, fabric {}", graph_[op].name, c.cost.time.ps,
                   c.cost.slowdown, c.cost.fabric);
    c.smallest_floor = smallest_floor(kernel, c.cost);
    p_.fabrics = std::max(p_.fabrics, c.cost.fabric + 1);
    p_.collectives.push_back(std::move(c));
    return index;
  }

  // Whether pieces of it could run at different times. If everything before it writes the whole tensor and
  // everything after it reads the whole, cutting gains nothing. Another collective may itself be cut.
  bool may_be_cut(const CollectiveKernel& kernel) {
    if (!row_of(kernel.kind).elementwise() || kernel.blocking) return false;
    if (in_parts_.empty()) find_parts();
    for (const auto* refs : {&kernel.inputs, &kernel.outputs}) {
      for (const TensorRef& r : *refs) {
        const StorageId s = root_storage(graph_, r.buffer);
        if (s.valid() && in_parts_[s] != 0) return true;
      }
    }
    return false;
  }

  // Storages of which some operation touches a part, or which several collectives touch.
  void find_parts() {
    in_parts_.assign(graph_.storages.size() + 1, 0);
    IdVector<StorageId, OpId> collective(graph_.storages.size());  // the one that touched it
    const auto mark = [&](BufferId b) {
      const StorageId s = root_storage(graph_, b);
      if (s.valid()) in_parts_[s] = 1;
    };
    const auto look = [&](const TensorRef& r) {
      if (!(r.sizes == graph_[r.buffer].sizes) && !(numel(r.sizes) == numel(graph_[r.buffer].sizes)))
        mark(r.buffer);
    };
    for (const BufferId id : first_ids<BufferId>(count_of(graph_.buffers))) {
      const Buffer& b = graph_[id];
      if (const auto* v = std::get_if<NonOwningLayout>(&b.layout);
          v != nullptr && !(numel(b.sizes) == numel(graph_[v->base].sizes))) {
        mark(id);
      }
    }
    for (const OpId id : collective_of_.ids()) {
      const Operation& op = graph_[id];
      for_each_operand(op.kernel, [&](const TensorRef& r, bool) {
        look(r);
        const StorageId s = root_storage(graph_, r.buffer);
        if (op.as<CollectiveKernel>() == nullptr || !s.valid()) return;
        if (collective[s].valid() && collective[s] != id) mark(r.buffer);
        collective[s] = id;
      });
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
    const bool edge = schedule_.channels == ChannelPolicy::edge;
    const bool by_pair = edge || schedule_.channels == ChannelPolicy::pair;
    if (!by_pair || !row_of(kernel.kind).point_to_point) return {kernel.group.index};
    return {kernel.group.index, kernel.root, edge && kernel.kind == CollectiveKind::recv ? 1 : 0};
  }

  static void append(std::span<const Dependency> from, IdLists<NodeId, NodeId>& to) {
    NodeId last;
    for (const Dependency& d : from) {
      // Ordered by node, so repetitions are adjacent.
      if (d.node != last.index) to.add(last = NodeId{d.node});
    }
    to.close();
  }
};

}  // namespace

Time Problem::compute_time(NodeId n) const {
  Time sum;
  for (const Step& s : steps_of(n)) sum += s.work;
  return sum;
}

CollectiveId Problem::started_by(NodeId n) const {
  for (const Step& s : steps_of(n)) {
    if (s.kind == Step::Kind::start) return s.collective;
  }
  return {};
}

CollectiveId Problem::waited_by(NodeId n) const {
  for (const Step& s : steps_of(n)) {
    if (s.kind == Step::Kind::wait) return s.collective;
  }
  return {};
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

Problem permuted(const Problem& p, OrderView order) {
  internal_check(order.end_id().index == p.size(), "got an order of {} nodes for {}", order.size(), p.size());
  const IdVector<NodeId, Position> position = positions_of(order);
  const auto moved = [&](NodeId n) { return NodeId{position[n].index}; };
  Problem out;
  out.channels = p.channels;
  out.fabrics = p.fabrics;
  IdVector<CollectiveId, CollectiveId> collective(p.collectives.ids());
  std::vector<NodeId> list;
  const auto append = [&](std::span<const NodeId> from, IdLists<NodeId, NodeId>& to) {
    list.clear();
    for (NodeId n : from) list.push_back(moved(n));
    std::ranges::sort(list);
    to.push_back(list);
  };
  for (NodeId n : order) {
    for (Step step : p.steps_of(n)) {
      if (step.kind == Step::Kind::start) {
        Collective c = p.collectives[step.collective];
        for (NodeId* node : {&c.start, &c.wait, &c.release}) {
          if (node->valid()) *node = moved(*node);
        }
        collective[step.collective] = out.collectives.end_id();
        out.collectives.push_back(std::move(c));
      }
      if (step.collective.valid()) step.collective = collective[step.collective];
      out.steps.push_back(step);
    }
    out.first_step.push_back(out.steps.end_id());
    append(p.predecessors(n), out.preds);
    append(p.successors(n), out.succs);
  }
  return out;
}

Order identity_order(IdRange<NodeId> nodes) { return Order(nodes.begin(), nodes.end()); }

IdVector<NodeId, Position> positions_of(OrderView order) {
  IdVector<NodeId, Position> out(order.size());
  for (const Position p : order.ids()) out[order[p]] = p;
  return out;
}

bool apply_order(Schedule& schedule, OrderView order) {
  internal_check(order.size() == schedule.nodes.size(), "got an order of {} nodes for {}", order.size(),
                 schedule.nodes.size());
  if (std::is_sorted(order.begin(), order.end())) return false;
  std::vector<ScheduleNode> nodes;
  nodes.reserve(order.size());
  IdVector<NodeId, char> taken(order.size(), 0);
  for (NodeId n : order) {
    internal_check(n.valid() && n < taken.end_id() && taken[n] == 0,
                   "the order is not a permutation of the nodes");
    taken[n] = 1;
    nodes.push_back(std::move(at(schedule.nodes, n)));
  }
  schedule.nodes = std::move(nodes);
  schedule.plan.reset();
  return true;
}

}  // namespace braid::analysis
