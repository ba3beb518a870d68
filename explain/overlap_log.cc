#include "explain/overlap_log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "analysis/measure.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "ir/kernel_parts.h"
#include "passes/pass_context.h"

namespace braid::explain {
namespace {

using namespace ir;
using namespace analysis;

std::string class_of(const ScheduleNode& node, const Graph& graph) {
  if (node.kind == ScheduleNode::Kind::grouped) return "group";
  if (node.kind == ScheduleNode::Kind::fused) return "fused";
  const Operation& op = graph[node.op];
  if (op.as<CollectiveKernel>() != nullptr) return "start";
  if (op.as<WaitKernel>() != nullptr) return "wait";
  if (op.as<ReleaseKernel>() != nullptr) return "release";
  if (op.as<RegionKernel>() != nullptr) return "region";
  return "compute";
}

std::string kernel_of(const ScheduleNode& node, const Graph& graph) {
  const std::vector<OpId> ops = ops_of(node);
  const Operation& op = graph[ops.front()];
  if (op.as<CollectiveKernel>() != nullptr) return describe_collective(graph, ops.front());
  if (ops.size() > 1) return fmt::format("{} operations", ops.size());
  if (const auto* k = op.as<ExternKernel>()) return "extern " + k->callee;
  if (op.as<WaitKernel>() || op.as<ReleaseKernel>() || op.as<RegionKernel>()) return "";
  return std::string(kind_name(op.kernel));
}

std::string join(const std::vector<Expr>& list) {
  std::string out = "[";
  for (std::size_t k = 0; k < list.size(); ++k) out += (k > 0 ? ", " : "") + to_string(list[k]);
  return out + "]";
}

bool overlap_log_wanted() {
  const char* given = std::getenv("BRAID_LOG");
  const char* rank = std::getenv("RANK");
  bool wanted = false;
  for (std::string_view rest = given != nullptr ? given : ""; !rest.empty();) {
    const std::string_view topic = rest.substr(0, rest.find(','));
    if (topic != "overlap") {
      user_error(errors::kBadVariable, {},
                 fmt::format("BRAID_LOG='{}' has the topic '{}', which is unknown", given, topic),
                 "BRAID_LOG=overlap is all there is");
    }
    wanted = true;
    rest.remove_prefix(std::min(topic.size() + 1, rest.size()));
  }
  return wanted && (rank == nullptr || *rank == '\0' || std::string_view(rank) == "0");
}

}  // namespace

std::string overlap_log(std::string_view pass, std::string_view when, const Schedule& schedule,
                        const CostModel& costs) {
  const Graph& graph = schedule.graph;
  const Problem p = make_problem(schedule, costs);
  Simulator simulator(p);
  std::string lines;
  for (NodeId n : p.nodes()) {
    const ScheduleNode& node = at(schedule.nodes, n);
    const std::string bars(ir::offset_of(simulator.in_flight()), '|');
    Time cost = p.compute_time(n);
    for (const Step& s : p.steps_of(n)) {
      if (s.kind == Step::Kind::start) cost += p.collectives[s.collective].cost.time;
    }
    const Operation& last = graph[ops_of(node).back()];
    std::string size, stride;
    if (!last.outputs.empty()) {
      const BufferId b = last.outputs.front();
      size = fmt::format("{}{}", to_string(graph[b].dtype), join(graph[b].sizes));
      stride = join(strides_of(graph, b));
    }
    lines += fmt::format("{:>6} {:<3} {:<8} {:<32} {:<24} {:<16} {:<28} {:.6f}\n", n.index, bars,
                         class_of(node, graph), kernel_of(node, graph), size, stride,
                         name_of(schedule, n.index), cost.ms());
    simulator.append(n);
  }
  return fmt::format("== {}: {} ({:.3f} us simulated)\n{:>6} {:<3} {:<8} {:<32} {:<24} {:<16} {:<28} ms\n{}",
                     pass, when, simulator.finish().us(), "step", "", "class", "kernel", "size", "stride",
                     "name", lines);
}

void log_safely(const std::function<std::string()>& text,
                const std::function<void(const std::string&)>& write) {
  try {
    write(text());
  } catch (...) {  // by contract
  }
}

std::optional<std::function<void(const passes::PassRun&)>> overlap_log_observer() {
  if (!overlap_log_wanted()) return std::nullopt;
  return [](const passes::PassRun& run) {
    if (!run.reported) return;
    const auto text = [&] {
      return overlap_log(run.pass.name(), "before", run.before, *run.context.costs) +
             overlap_log(run.pass.name(), run.changed ? "after" : "after (unchanged)", run.after,
                         *run.context.costs);
    };
    log_safely(text, [](const std::string& lines) { std::fputs(lines.c_str(), stderr); });
  };
}

}  // namespace braid::explain
