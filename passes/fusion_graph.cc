#include "passes/fusion_graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/error.h"

namespace braid::passes {
using namespace ir;

bool is_loops(const Schedule& schedule, const ScheduleNode& node) {
  if (node.kind == ScheduleNode::Kind::grouped) return false;
  const std::vector<OpId> ops = ops_of(node);
  return std::all_of(ops.begin(), ops.end(), [&](OpId op) {
    return schedule.graph[op].as<Loops>() != nullptr && schedule.graph[op].outputs.size() == 1;
  });
}

FusionGraph::FusionGraph(const Schedule& schedule, bool keep_overlap, IdSpan<OpId, const int> region_of_op)
    : dependencies_(find_dependencies(schedule)), keep_overlap_(keep_overlap) {
  const std::size_t n = schedule.nodes.size();
  const IdRange<int> all = first_ids<int>(dependencies_.size());
  cluster_.Base::assign(all.begin(), all.end());
  position_.Base::assign(cluster_.begin(), cluster_.end());
  ops_.resize(n);
  merged_.assign(all, false);
  region_.assign(all, 0);
  in_.resize(n);
  out_.resize(n);
  for (const int k : all) {
    ops_[k] = ops_of(at(schedule.nodes, k));
    if (!region_of_op.empty() && !ops_[k].empty()) region_[k] = region_of_op[ops_[k].front()];
    const auto add = [](std::vector<Neighbour>& to, const Dependency& d) {
      const bool data = d.hazard == Hazard::read_after_write;
      if (!to.empty() && to.back().node == d.node) {
        to.back().data |= data;
      } else {
        to.push_back({d.node, data});
      }
    };
    for (const Dependency& d : dependencies_.predecessors(k)) add(in_[k], d);
    for (const Dependency& d : dependencies_.successors(k)) add(out_[k], d);
    for (OpId op : ops_[k]) {
      if (schedule.graph[op].as<WaitKernel>() != nullptr) waits_.push_back(k);
    }
  }
}

int FusionGraph::cluster_of(int node) const {
  while (cluster_[node] != node) node = cluster_[node];
  return node;
}

std::vector<int> FusionGraph::clusters() const {
  std::vector<int> out;
  for (int k = 0; k < size(); ++k) {
    if (cluster_[k] == k) out.push_back(k);
  }
  std::stable_sort(out.begin(), out.end(), [&](int a, int b) { return position_[a] < position_[b]; });
  return out;
}

std::vector<int> FusionGraph::neighbours(const Table& table, int cluster, bool only_data) const {
  std::vector<int> out;
  for (const Neighbour& n : table[cluster]) {
    if (only_data && !n.data) continue;
    const int c = cluster_of(n.node);
    if (c != cluster) out.push_back(c);
  }
  std::sort(out.begin(), out.end(),
            [&](int a, int b) { return position_[a] != position_[b] ? position_[a] < position_[b] : a < b; });
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::vector<int> FusionGraph::predecessors(int cluster) const { return neighbours(in_, cluster, false); }
std::vector<int> FusionGraph::successors(int cluster) const { return neighbours(out_, cluster, false); }
std::vector<int> FusionGraph::producers(int cluster) const { return neighbours(in_, cluster, true); }

bool FusionGraph::depends_directly(int later, int earlier) const {
  return std::any_of(in_[later].begin(), in_[later].end(),
                     [&](const Neighbour& n) { return cluster_of(n.node) == earlier; });
}

std::optional<double> FusionGraph::joint_position(int first, int second) const {
  if (region_[first] != region_[second]) return std::nullopt;
  const double from = position_[first], to = position_[second];
  // Everything that the second depends on, and everything that depends on the first.
  double after = -1, before = size();
  for (const Neighbour& n : in_[second]) {
    const int c = cluster_of(n.node);
    if (c != first && c != second) after = std::max(after, position_[c]);
  }
  for (const Neighbour& n : out_[first]) {
    const int c = cluster_of(n.node);
    if (c != first && c != second) before = std::min(before, position_[c]);
  }
  if (after < from) return from;  // the second moves up
  if (!(after < before)) return std::nullopt;
  double position = to;  // the first moves down
  if (!(position < before)) {
    position = after + (std::min(before, after + 1) - after) / 2;
    if (!(after < position && position < before))
      return std::nullopt;  // doubles are exhausted; does not happen in practice
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
  internal_check(first != second && cluster_[first] == first && cluster_[second] == second,
                 "merge() requires two different clusters");
  cluster_[second] = first;
  position_[first] = position;
  merged_[first] = true;
  if (ops) {
    ops_[first] = std::move(*ops);
  } else {
    ops_[first].insert(ops_[first].end(), ops_[second].begin(), ops_[second].end());
  }
  for (auto* table : {&in_, &out_}) {
    std::vector<Neighbour>& into = (*table)[first];
    std::vector<Neighbour>& from = (*table)[second];
    into.insert(into.end(), from.begin(), from.end());
    from = {};
  }
  ops_[second] = {};
}

std::vector<ScheduleNode> FusionGraph::nodes(Schedule& schedule) const {
  std::vector<ScheduleNode> out;
  for (int c : clusters()) {
    if (!merged_[c]) {
      out.push_back(std::move(at(schedule.nodes, c)));
      continue;
    }
    const std::vector<OpId>& ops = ops_[c];
    if (ops.size() == 1) {
      out.push_back(ScheduleNode::single(ops[0]));
      continue;
    }
    ScheduleNode node{ScheduleNode::Kind::fused, {}, {}, {}};
    // Names of nodes share the table of operations, so that a name in a message is unambiguous.
    node.name =
        schedule.graph.op_names.unique(fmt::format("fused_{}", schedule.graph[ops.back()].name), "fused");
    for (OpId op : ops) node.members.push_back(ScheduleNode::single(op));
    out.push_back(std::move(node));
  }
  return out;
}

double cheap_iterations(const ir::LoopBody& body, std::span<const ir::Expr> sizes) {
  constexpr int kCheapFlops = 20;  // beside which loads and stores cannot be neglected
  double flops = 0;
  for (const ir::Instr& instr : body.instrs) flops += static_cast<double>(ir::row_of(instr.code).flops);
  double iterations = std::max(1.0, flops / kCheapFlops);
  for (const ir::Expr& size : sizes) iterations *= static_cast<double>(ir::bounds(size).max);
  return iterations;
}

}  // namespace braid::passes
