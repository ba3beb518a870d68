#include "passes/overlap/merge_collectives.h"

#include <algorithm>
#include <functional>

#include "analysis/simulator.h"
#include "ir/collective_table.h"
#include "ir/error.h"
#include "passes/compact.h"

namespace braid::passes {
namespace {

using namespace ir;
using namespace analysis;

// The nodes of the schedule, with the starts, the waits and the releases of each bucket contracted into one
// node: the first of them, the leader.
class Contracted {
 public:
  Contracted(const Problem& p, std::span<const Bucket> buckets)
      : p_(p), leader_(p.nodes().begin(), p.nodes().end()), next_(p.nodes()), position_(leader_) {
    std::vector<NodeId> members;
    for (const Bucket& b : buckets) {
      for (NodeId Collective::*part : {&Collective::start, &Collective::wait, &Collective::release}) {
        members.clear();
        for (CollectiveId c : b.collectives) {
          if (const NodeId node = p.collectives[c].*part; node.valid()) members.push_back(node);
        }
        if (members.empty()) continue;
        std::sort(members.begin(), members.end());
        for (std::size_t k = 0; k < members.size(); ++k) {
          leader_[members[k]] = members.front();
          next_[members[k]] = k + 1 < members.size() ? members[k + 1] : NodeId{};
        }
        if (part == &Collective::start) position_[members.front()] = members.back();
      }
    }
  }

  // Returns the leaders in a topological order; empty if there is a cycle. Nodes keep their places if they
  // can: a start has the place of its last member, a wait or release that of its first one.
  std::vector<NodeId> order() const {
    IdVector<NodeId, int> missing(p_.nodes(), 0);
    for (NodeId n : p_.nodes()) {
      const NodeId to = leader_[n];
      for (NodeId before : p_.predecessors(n)) missing[to] += leader_[before] != to ? 1 : 0;
    }
    using Key = std::pair<NodeId, NodeId>;
    std::vector<Key> ready;  // a heap, the smallest on top
    const auto push = [&](NodeId n) {
      ready.emplace_back(position_[n], n);
      std::push_heap(ready.begin(), ready.end(), std::greater<>());
    };
    std::size_t leaders = 0;
    for (NodeId n : p_.nodes()) {
      if (leader_[n] != n) continue;
      ++leaders;
      if (missing[n] == 0) push(n);
    }
    std::vector<NodeId> out;
    out.reserve(leaders);
    while (!ready.empty()) {
      std::pop_heap(ready.begin(), ready.end(), std::greater<>());
      const NodeId n = ready.back().second;
      ready.pop_back();
      out.push_back(n);
      for (NodeId member = n; member.valid(); member = next_[member]) {
        for (NodeId after : p_.successors(member)) {
          const NodeId to = leader_[after];
          if (to != n && --missing[to] == 0) push(to);
        }
      }
    }
    if (out.size() != leaders) out.clear();
    return out;
  }

 private:
  const Problem& p_;
  IdVector<NodeId, NodeId> leader_;    // of each node: itself, or the first of its bucket
  IdVector<NodeId, NodeId> next_;      // the next member of the same contracted node, if any
  IdVector<NodeId, NodeId> position_;  // of a leader: its preferred position
};

// Whether one release can stand for all: each has one, or none has.
bool released_alike(const Problem& p, const Bucket& b) {
  return std::ranges::all_of(b.collectives, [&](CollectiveId c) {
    return p.collectives[c].release.valid() == p.collectives[b.collectives[0]].release.valid();
  });
}

void append(std::vector<BufferId>& to, const std::vector<BufferId>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

// Merges the operations of the others into those of the first; the rest has no node and is removed.
void merge_operations(Schedule& schedule, const Problem& p, const Bucket& bucket) {
  Graph& g = schedule.graph;
  const auto op_of = [&](NodeId node) { return node.valid() ? at(schedule.nodes, node).op : OpId{}; };
  // The contracted node keeps the operation of its first member in the schedule.
  const auto keeper = [&](NodeId Collective::*part) {
    NodeId first;
    for (CollectiveId c : bucket.collectives) {
      const NodeId node = p.collectives[c].*part;
      if (node.valid() && (!first.valid() || node < first)) first = node;
    }
    return op_of(first);
  };
  const OpId start = keeper(&Collective::start), wait = keeper(&Collective::wait),
             release = keeper(&Collective::release);
  Operation merged = g[start], merged_wait = g[wait];
  auto& kernel = *merged.as<CollectiveKernel>();
  kernel.inputs.clear();
  kernel.outputs.clear();
  merged.outputs.clear();
  merged_wait.outputs.clear();
  std::vector<std::string> origins;
  for (CollectiveId c : bucket.collectives) {
    const Operation& one = g[op_of(p.collectives[c].start)];
    const auto& k = *one.as<CollectiveKernel>();
    kernel.inputs.insert(kernel.inputs.end(), k.inputs.begin(), k.inputs.end());
    kernel.outputs.insert(kernel.outputs.end(), k.outputs.begin(), k.outputs.end());
    append(merged.outputs, one.outputs);
    append(merged_wait.outputs, g[op_of(p.collectives[c].wait)].outputs);
    for (const std::string& o : one.origins) {
      if (std::ranges::find(origins, o) == origins.end()) origins.push_back(o);
    }
  }
  merged.origins = std::move(origins);
  merged_wait.kernel = WaitKernel{start};
  for (BufferId b : merged.outputs) g[b].producer = start;
  for (BufferId b : merged_wait.outputs) g[b].producer = wait;
  for (CollectiveId c : bucket.collectives) {
    for (NodeId node : {p.collectives[c].start, p.collectives[c].wait}) g[op_of(node)].outputs.clear();
  }
  g[start] = std::move(merged);
  g[wait] = std::move(merged_wait);
  if (release.valid()) g[release].kernel = ReleaseKernel{start};
}

}  // namespace

MergeKey merge_key(const Graph& graph, OpId start, bool mixed_dtypes) {
  const auto& k = *graph[start].as<CollectiveKernel>();
  const DType dtype = mixed_dtypes || k.inputs.empty() ? DType::f32 : graph[k.inputs.front().buffer].dtype;
  return {k.kind, k.group, k.reduce, k.root, dtype, k.algorithm};
}

bool may_merge(const Schedule& schedule, const Problem& problem, CollectiveId collective) {
  const Collective& c = problem.collectives[collective];
  const auto& kernel = *schedule.graph[c.op].as<CollectiveKernel>();
  const auto alone = [&](NodeId node) {
    return at(schedule.nodes, node).kind == ScheduleNode::Kind::single && problem.steps_of(node).size() == 1;
  };
  return !kernel.blocking && !row_of(kernel.kind).point_to_point && c.cost.priced_by_size && c.wait.valid() &&
         alone(c.start) && alone(c.wait) && (!c.release.valid() || alone(c.release));
}

CollectiveCost merged_cost(const Schedule& schedule, const Problem& problem, const CostModel& costs,
                           const Bucket& bucket) {
  CollectiveShape shape;
  for (std::size_t k = 0; k < bucket.collectives.size(); ++k) {
    const CollectiveShape one = costs.shape(schedule.graph, problem.collectives[bucket.collectives[k]].op);
    if (k == 0) {
      shape = one;
    } else {
      shape.bytes += one.bytes;
      shape.symmetric &= one.symmetric;
    }
  }
  return costs.collective(shape);
}

std::optional<Time> merged_makespan(const Problem& problem, std::span<const Bucket> buckets,
                                    std::span<const CollectiveCost> costs) {
  const IdRange<CollectiveId> all = problem.collectives.ids();
  IdVector<CollectiveId, CollectiveId> merged(all.begin(), all.end());
  for (const Bucket& b : buckets) {
    if (!released_alike(problem, b)) return std::nullopt;
    for (CollectiveId c : b.collectives) merged[c] = b.collectives.front();
  }
  const std::vector<NodeId> order = Contracted(problem, buckets).order();
  if (order.empty()) return std::nullopt;
  Problem after;  // the simulator does not need dependencies
  after.channels = problem.channels;
  after.fabrics = problem.fabrics;
  after.collectives = problem.collectives;
  for (std::size_t k = 0; k < buckets.size(); ++k)
    after.collectives[buckets[k].collectives.front()].cost = costs[k];
  after.first_step.reserve(order.size() + 1);
  after.steps.reserve(problem.steps.size());
  for (NodeId n : order) {
    for (Step step : problem.steps_of(n)) {
      if (step.collective.valid()) step.collective = merged[step.collective];
      after.steps.push_back(step);
    }
    after.first_step.push_back(after.steps.end_id());
  }
  return simulate_makespan(after, identity_order(after.nodes()));
}

bool merge_collectives(Schedule& schedule, const Problem& problem, std::span<const Bucket> buckets) {
  if (buckets.empty()) return false;
  for (const Bucket& b : buckets) {
    internal_check(b.collectives.size() > 1, "a bucket has {} collectives, expected at least two",
                   b.collectives.size());
    for (CollectiveId c : b.collectives) {
      internal_check(may_merge(schedule, problem, c), "'{}' cannot be merged",
                     schedule.graph[problem.collectives[c].op].name);
    }
    if (!released_alike(problem, b)) return false;
  }
  const std::vector<NodeId> order = Contracted(problem, buckets).order();
  if (order.empty()) return false;
  for (const Bucket& b : buckets) merge_operations(schedule, problem, b);
  std::vector<ScheduleNode> nodes;
  nodes.reserve(order.size());
  for (NodeId n : order) nodes.push_back(std::move(at(schedule.nodes, n)));
  schedule.nodes = std::move(nodes);
  schedule.plan.reset();
  compact(schedule);
  return true;
}

}  // namespace braid::passes
