#include "passes/overlap/merge_collectives.h"

#include <algorithm>
#include <functional>
#include <queue>

#include "ir/error.h"
#include "passes/compact.h"

namespace braid::passes {
namespace {

using namespace ir;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// The nodes of the schedule, with the starts, the waits and the releases of each bucket contracted into one.
class Contracted {
 public:
  Contracted(const Problem& p, std::span<const Bucket> buckets) : p_(p) {
    leader_.resize(at(p.size()));
    for (int n = 0; n < p.size(); ++n) leader_[at(n)] = n;
    for (const Bucket& b : buckets) {
      for (int Collective::*part : {&Collective::start, &Collective::wait, &Collective::release}) {
        int first = -1;
        for (int c : b.collectives) {
          const int node = p.collectives[at(c)].*part;
          if (node >= 0 && (first < 0 || node < first)) first = node;
        }
        for (int c : b.collectives) {
          if (const int node = p.collectives[at(c)].*part; node >= 0) leader_[at(node)] = first;
        }
      }
    }
  }

  // Leaders in a topological order; empty if there is a circle. Nodes keep their places where they can: a
  // start counts as standing where its last member stood, a wait or release where its first one did.
  std::vector<int> order() const {
    std::vector<int> position(at(p_.size())), missing(at(p_.size()), 0);
    for (int n = 0; n < p_.size(); ++n) {
      const int l = leader_[at(n)];
      if (l == n || p_.started_by(n) >= 0) position[at(l)] = n;
    }
    std::vector<std::vector<int>> after(at(p_.size()));
    for (int n = 0; n < p_.size(); ++n) {
      for (int before : p_.predecessors(n)) {
        const int from = leader_[at(before)], to = leader_[at(n)];
        if (from == to) continue;
        after[at(from)].push_back(to);
        ++missing[at(to)];
      }
    }
    using Key = std::pair<int, int>;
    std::priority_queue<Key, std::vector<Key>, std::greater<>> ready;
    int leaders = 0;
    for (int n = 0; n < p_.size(); ++n) {
      if (leader_[at(n)] != n) continue;
      ++leaders;
      if (missing[at(n)] == 0) ready.emplace(position[at(n)], n);
    }
    std::vector<int> out;
    while (!ready.empty()) {
      const int n = ready.top().second;
      ready.pop();
      out.push_back(n);
      for (int to : after[at(n)]) {
        if (--missing[at(to)] == 0) ready.emplace(position[at(to)], to);
      }
    }
    if (static_cast<int>(out.size()) != leaders) out.clear();
    return out;
  }

 private:
  const Problem& p_;
  std::vector<int> leader_;
};

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
  return !kernel.blocking && kernel.kind != CollectiveKind::send && kernel.kind != CollectiveKind::recv &&
         c.cost.priced_by_size && c.wait >= 0 && alone(c.start) && alone(c.wait) &&
         (c.release < 0 || alone(c.release));
}

bool merge_collectives(Schedule& schedule, const Problem& problem, std::span<const Bucket> buckets) {
  if (buckets.empty()) return false;
  for (const Bucket& b : buckets) {
    internal_check(b.collectives.size() > 1, "a bucket of {} collectives", b.collectives.size());
    const bool released = problem.collectives[at(b.collectives[0])].release >= 0;
    for (int c : b.collectives) {
      internal_check(may_merge(schedule, problem, c), "'{}' cannot be merged",
                     schedule.graph[problem.collectives[at(c)].op].name);
      // One release stands for all: they have one each, or none has.
      if ((problem.collectives[at(c)].release >= 0) != released) return false;
    }
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
