// Texts of small graphs over one group of two ranks, and the order of their nodes after passes.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <string_view>

#include "explain/order_limits.h"
#include "ir/dependencies.h"
#include "ir/parser.h"
#include "passes/pass_context.h"
#include "passes/runner.h"

namespace braid::test {

// "%NAME: f32[64] = extern "work" reads(OPERANDS) cost(ns NS)"
inline std::string compute(std::string_view name, std::string_view operands, int ns = 1000) {
  return fmt::format("%{}: f32[64] = extern \"work\" reads({}) cost(ns {})\n", name, operands, ns);
}
inline std::string all_gather(std::string_view name, std::string_view operand, int ns = 1000) {
  return fmt::format("%{}: f32[128] = all_gather @g (%{}) cost(ns {})\n", name, operand, ns);
}
// The waited version is %NAME.1; the node is NAME.wait.
inline std::string wait(std::string_view name) {
  return fmt::format("%{0}.1 mutates %{0} = wait {0} as {0}.wait\n", name);
}
inline std::string release(std::string_view name) { return fmt::format("release {}\n", name); }

inline std::string graph(std::string_view body, std::string_view outputs) {
  return fmt::format(
      "graph main\nranks 2\ngroup @g = [0, 1]\n\ninput %x: f32[64]\nconstant %w: f32[64] = "
      "splat(1)\n\n{}\n{}",
      body, outputs);
}

inline std::string names(const ir::Schedule& schedule) {
  std::string out;
  for (int n = 0; n < static_cast<int>(schedule.nodes.size()); ++n) {
    out += (n > 0 ? " " : "") + ir::name_of(schedule, n);
  }
  return out;
}

// The same with the groups that each group comes after, and members in braces: "a g>f{b c} d".
inline std::string shape(const ir::Schedule& schedule) {
  std::string out;
  for (const ir::ScheduleNode& n : schedule.nodes) {
    if (!out.empty()) out += " ";
    if (n.kind == ir::ScheduleNode::Kind::single) {
      out += schedule.graph[n.op].name;
      continue;
    }
    out += n.name;
    for (const std::string& a : n.after) out += ">" + a;
    std::string inside;
    for (ir::OpId op : ir::ops_of(n)) inside += (inside.empty() ? "" : " ") + schedule.graph[op].name;
    out += "{" + inside + "}";
  }
  return out;
}

// The report of the last pass of a list, with its reasons; `schedule` becomes what the list makes of it.
inline analysis::OverlapReport report_after(std::string_view list, ir::Schedule& schedule,
                                            passes::PassContext& context) {
  passes::run_passes(schedule, passes::parse_pass_list(list), {.context = &context});
  analysis::OverlapReport report = context.reports.back();
  explain::add_limits(report, schedule, *context.costs);
  return report;
}

inline std::string order_after(std::string_view passes, const std::string& text,
                               passes::PassContext* context = nullptr) {
  ir::Schedule schedule = ir::parse_schedule(text, "test");
  passes::run_passes(schedule, passes::parse_pass_list(passes),
                     {.check_unchanged = true, .context = context});
  return names(schedule);
}

}  // namespace braid::test
