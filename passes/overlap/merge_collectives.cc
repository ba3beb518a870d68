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

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// The nodes of the schedule, with the starts, the waits and the releases of each bucket contracted into one:
// the first of them, which leads the others.
class Contracted {
 public:
  Contracted(const Problem& p, std::span<const Bucket> buckets)
      : p_(p), leader_(identity_order(p.size())), next_(leader_.size(), -1), position_(leader_) {
    std::vector<int> members;
    for (const Bucket& b : buckets) {
      for (int Collective::*part : {&Collective::start, &Collective::wait, &Collective::release}) {
        members.clear();
        for (int c : b.collectives) {
          if (const int node = p.collectives[at(c)].*part; node >= 0) members.push_back(node);
        }
        if (members.empty()) continue;
        std::sort(members.begin(), members.end());
        for (std::size_t k = 0; k < members.size(); ++k) {
          leader_[at(members[k])] = members.front();
          next_[at(members[k])] = k + 1 < members.size() ? members[k + 1] : -1;
        }
        if (part == &Collective::start) position_[at(members.front())] = members.back();
      }
    }
  }

  // Leaders in a topological order; empty if there is a circle. Nodes keep their places where they can: a
  // start counts as standing where its last member stood, a wait or release where its first one did.
  std::vector<int> order() const {
    std::vector<int> missing(leader_.size(), 0);
    for (int n = 0; n < p_.size(); ++n) {
      const int to = leader_[at(n)];
      for (int before : p_.predecessors(n)) missing[at(to)] += leader_[at(before)] != to ? 1 : 0;
    }
    using Key = std::pair<int, int>;
    std::vector<Key> ready;  // a heap, the smallest on top
    const auto push = [&](int n) {
      ready.emplace_back(position_[at(n)], n);
      std::push_heap(ready.begin(), ready.end(), std::greater<>());
    };
    std::size_t leaders = 0;
    for (int n = 0; n < p_.size(); ++n) {
      if (leader_[at(n)] != n) continue;
      ++leaders;
      if (missing[at(n)] == 0) push(n);
    }
    std::vector<int> out;
    out.reserve(leaders);
    while (!ready.empty()) {
      std::pop_heap(ready.begin(), ready.end(), std::greater<>());
      const int n = ready.back().second;
      ready.pop_back();
      out.push_back(n);
      for (int member = n; member >= 0; member = next_[at(member)]) {
        for (int after : p_.successors(member)) {
          const int to = leader_[at(after)];
          if (to != n && --missing[at(to)] == 0) push(to);
        }
      }
    }
    if (out.size() != leaders) out.clear();
    return out;
  }

 private:
  const Problem& p_;
  std::vector<int> leader_;    // of each node: itself, or the first of its bucket
  std::vector<int> next_;      // member of the same contracted node, -1: the last one
  std::vector<int> position_;  // of a leader: where it would like to stand
};

// One release stands for all: they have one each, or none has.
bool released_alike(const Problem& p, const Bucket& b) {
  return std::ranges::all_of(b.collectives, [&](int c) {
    return (p.collectives[at(c)].release >= 0) == (p.collectives[at(b.collectives[0])].release >= 0);
  });
}

void append(std::vector<BufferId>& to, const std::vector<BufferId>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

// The operations of the others go into those of the first; what is left over has no node and is removed.
void merge_operations(Schedule& schedule, const Problem& p, const Bucket& bucket) {
  Graph& g = schedule.graph;
  const auto op_of = [&](int node) { return node >= 0 ? schedule.nodes[at(node)].op : OpId{}; };
  // The operation that the contracted node keeps is that of its first member in the schedule.
  const auto keeper = [&](int Collective::*part) {
    int first = -1;
    for (int c : bucket.collectives) {
      const int node = p.collectives[at(c)].*part;
      if (node >= 0 && (first < 0 || node < first)) first = node;
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
  for (int c : bucket.collectives) {
    const Operation& one = g[op_of(p.collectives[at(c)].start)];
    const auto& k = *one.as<CollectiveKernel>();
    kernel.inputs.insert(kernel.inputs.end(), k.inputs.begin(), k.inputs.end());
    kernel.outputs.insert(kernel.outputs.end(), k.outputs.begin(), k.outputs.end());
    append(merged.outputs, one.outputs);
    append(merged_wait.outputs, g[op_of(p.collectives[at(c)].wait)].outputs);
    for (const std::string& o : one.origins) {
      if (std::ranges::find(origins, o) == origins.end()) origins.push_back(o);
    }
  }
  merged.origins = std::move(origins);
  merged_wait.kernel = WaitKernel{start};
  for (BufferId b : merged.outputs) g[b].producer = start;
  for (BufferId b : merged_wait.outputs) g[b].producer = wait;
  for (int c : bucket.collectives) {
    for (int node : {p.collectives[at(c)].start, p.collectives[at(c)].wait}) g[op_of(node)].outputs.clear();
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

bool may_merge(const Schedule& schedule, const Problem& problem, int collective) {
  const Collective& c = problem.collectives[at(collective)];
  const auto& kernel = *schedule.graph[c.op].as<CollectiveKernel>();
  const auto alone = [&](int node) {
    return schedule.nodes[at(node)].kind == ScheduleNode::Kind::single && problem.steps_of(node).size() == 1;
  };
  return !kernel.blocking && !row_of(kernel.kind).point_to_point && c.cost.priced_by_size && c.wait >= 0 &&
         alone(c.start) && alone(c.wait) && (c.release < 0 || alone(c.release));
}

CollectiveCost merged_cost(const Schedule& schedule, const Problem& problem, const CostModel& costs,
                           const Bucket& bucket) {
  CollectiveShape shape;
  for (std::size_t k = 0; k < bucket.collectives.size(); ++k) {
    const CollectiveShape one =
        costs.shape(schedule.graph, problem.collectives[at(bucket.collectives[k])].op);
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
  std::vector<int> merged = identity_order(static_cast<int>(problem.collectives.size()));
  for (const Bucket& b : buckets) {
    if (!released_alike(problem, b)) return std::nullopt;
    for (int c : b.collectives) merged[at(c)] = b.collectives.front();
  }
  const std::vector<int> order = Contracted(problem, buckets).order();
  if (order.empty()) return std::nullopt;
  Problem after;  // the simulator does not ask for dependencies
  after.channels = problem.channels;
  after.fabrics = problem.fabrics;
  after.collectives = problem.collectives;
  for (std::size_t k = 0; k < buckets.size(); ++k)
    after.collectives[at(buckets[k].collectives.front())].cost = costs[k];
  after.first_step.reserve(order.size() + 1);
  after.steps.reserve(problem.steps.size());
  for (int n : order) {
    for (Step step : problem.steps_of(n)) {
      if (step.collective >= 0) step.collective = merged[at(step.collective)];
      after.steps.push_back(step);
    }
    after.first_step.push_back(static_cast<int>(after.steps.size()));
  }
  return simulate_makespan(after, identity_order(after.size()));
}

bool merge_collectives(Schedule& schedule, const Problem& problem, std::span<const Bucket> buckets) {
  if (buckets.empty()) return false;
  for (const Bucket& b : buckets) {
    internal_check(b.collectives.size() > 1, "a bucket of {} collectives", b.collectives.size());
    for (int c : b.collectives) {
      internal_check(may_merge(schedule, problem, c), "'{}' cannot be merged",
                     schedule.graph[problem.collectives[at(c)].op].name);
    }
    if (!released_alike(problem, b)) return false;
  }
  const std::vector<int> order = Contracted(problem, buckets).order();
  if (order.empty()) return false;
  for (const Bucket& b : buckets) merge_operations(schedule, problem, b);
  std::vector<ScheduleNode> nodes;
  nodes.reserve(order.size());
  for (int n : order) nodes.push_back(std::move(schedule.nodes[at(n)]));
  schedule.nodes = std::move(nodes);
  schedule.plan.reset();
  compact(schedule);
  return true;
}

}  // namespace braid::passes
