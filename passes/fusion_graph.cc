#include "passes/fusion_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ir/error.h"

namespace braid::passes {
namespace {

using namespace ir;

std::size_t u(int k) { return static_cast<std::size_t>(k); }

}  // namespace

bool is_loops(const Schedule& schedule, const ScheduleNode& node) {
  if (node.kind == ScheduleNode::Kind::grouped) return false;
  const std::vector<OpId> ops = ops_of(node);
  return std::all_of(ops.begin(), ops.end(), [&](OpId op) {
    return schedule.graph[op].as<Loops>() != nullptr && schedule.graph[op].outputs.size() == 1;
  });
}

FusionGraph::FusionGraph(const Schedule& schedule, bool keep_overlap, std::span<const int> region_of_op)
    : dependencies_(find_dependencies(schedule)), keep_overlap_(keep_overlap) {
  const std::size_t n = schedule.nodes.size();
  cluster_.resize(n);
  std::iota(cluster_.begin(), cluster_.end(), 0);
  position_.assign(cluster_.begin(), cluster_.end());
  ops_.resize(n);
  merged_.assign(n, false);
  region_.assign(n, 0);
  in_.resize(n);
  out_.resize(n);
  for (std::size_t k = 0; k < n; ++k) {
    ops_[k] = ops_of(schedule.nodes[k]);
    if (!region_of_op.empty() && !ops_[k].empty()) region_[k] = region_of_op[u(ops_[k].front().index)];
    const auto add = [](std::vector<Neighbour>& to, const Dependency& d) {
      const bool data = d.hazard == Hazard::read_after_write;
      if (!to.empty() && to.back().node == d.node) {
        to.back().data |= data;
      } else {
        to.push_back({d.node, data});
      }
    };
    for (const Dependency& d : dependencies_.predecessors(static_cast<int>(k))) add(in_[k], d);
    for (const Dependency& d : dependencies_.successors(static_cast<int>(k))) add(out_[k], d);
    for (OpId op : ops_[k]) {
      if (schedule.graph[op].as<WaitKernel>() != nullptr) waits_.push_back(static_cast<double>(k));
    }
  }
}

int FusionGraph::cluster_of(int node) const {
  while (cluster_[u(node)] != node) node = cluster_[u(node)];
  return node;
}

std::vector<int> FusionGraph::clusters() const {
  std::vector<int> out;
  for (int k = 0; k < size(); ++k) {
    if (cluster_[u(k)] == k) out.push_back(k);
  }
  std::stable_sort(out.begin(), out.end(), [&](int a, int b) { return position_[u(a)] < position_[u(b)]; });
  return out;
}

std::vector<int> FusionGraph::neighbours(const std::vector<std::vector<Neighbour>>& table, int cluster,
                                         bool only_data) const {
  std::vector<int> out;
  for (const Neighbour& n : table[u(cluster)]) {
    if (only_data && !n.data) continue;
    const int c = cluster_of(n.node);
    if (c != cluster) out.push_back(c);
  }
  std::sort(out.begin(), out.end(), [&](int a, int b) {
    return position_[u(a)] != position_[u(b)] ? position_[u(a)] < position_[u(b)] : a < b;
  });
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::vector<int> FusionGraph::predecessors(int cluster) const { return neighbours(in_, cluster, false); }
std::vector<int> FusionGraph::successors(int cluster) const { return neighbours(out_, cluster, false); }
std::vector<int> FusionGraph::producers(int cluster) const { return neighbours(in_, cluster, true); }

bool FusionGraph::depends_directly(int later, int earlier) const {
  return std::any_of(in_[u(later)].begin(), in_[u(later)].end(),
                     [&](const Neighbour& n) { return cluster_of(n.node) == earlier; });
}

std::optional<double> FusionGraph::joint_position(int first, int second) const {
  if (region_[u(first)] != region_[u(second)]) return std::nullopt;
  const double from = position_[u(first)], to = position_[u(second)];
  // Everything that the second follows, and everything that follows the first.
  double after = -1, before = static_cast<double>(size());
  for (const Neighbour& n : in_[u(second)]) {
    const int c = cluster_of(n.node);
    if (c != first && c != second) after = std::max(after, position_[u(c)]);
  }
  for (const Neighbour& n : out_[u(first)]) {
    const int c = cluster_of(n.node);
    if (c != first && c != second) before = std::min(before, position_[u(c)]);
  }
  if (after < from) return from;  // the second moves up
  if (!(after < before)) return std::nullopt;
  double position = to;  // the first moves down
  if (!(position < before)) {
    position = after + (std::min(before, after + 1) - after) / 2;
    if (!(after < position && position < before))
      return std::nullopt;  // out of doubles; does not happen in practice
  } else if (after + 0.5 < to) {
    position = after + (std::min({before, to, after + 1}) - after) / 2;
    if (!(after < position && position < before)) position = to;
  }
  if (keep_overlap_) {
    const auto wait = std::upper_bound(waits_.begin(), waits_.end(), from);
    if (wait != waits_.end() && *wait < position) return std::nullopt;
  }
  return position;
}

void FusionGraph::merge(int first, int second, double position, std::optional<std::vector<OpId>> ops) {
  internal_check(first != second && cluster_[u(first)] == first && cluster_[u(second)] == second,
                 "not two clusters");
  cluster_[u(second)] = first;
  position_[u(first)] = position;
  merged_[u(first)] = true;
  if (ops) {
    ops_[u(first)] = std::move(*ops);
  } else {
    ops_[u(first)].insert(ops_[u(first)].end(), ops_[u(second)].begin(), ops_[u(second)].end());
  }
  for (auto* table : {&in_, &out_}) {
    std::vector<Neighbour>& into = (*table)[u(first)];
    std::vector<Neighbour>& from = (*table)[u(second)];
    into.insert(into.end(), from.begin(), from.end());
    from = {};
  }
  ops_[u(second)] = {};
}

std::vector<ScheduleNode> FusionGraph::nodes(Schedule& schedule) const {
  std::vector<ScheduleNode> out;
  for (int c : clusters()) {
    if (!merged_[u(c)]) {
      out.push_back(std::move(schedule.nodes[u(c)]));
      continue;
    }
    const std::vector<OpId>& ops = ops_[u(c)];
    if (ops.size() == 1) {
      out.push_back(ScheduleNode::single(ops[0]));
      continue;
    }
    ScheduleNode node{ScheduleNode::Kind::fused, {}, {}, {}};
    // Names of nodes share the table of operations, so that a name in a message means one thing.
    node.name =
        schedule.graph.op_names.unique(fmt::format("fused_{}", schedule.graph[ops.back()].name), "fused");
    for (OpId op : ops) node.members.push_back(ScheduleNode::single(op));
    out.push_back(std::move(node));
  }
  return out;
}

}  // namespace braid::passes
