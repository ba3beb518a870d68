#include "cli/comm_buffer_table.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "ir/comm_buffer.h"

namespace braid::cli {
namespace {

using namespace ir;

std::string what(const CommBufferDecision& d) {
  return fmt::format("{} {}", d.result ? "result" : "operand", d.index);
}

std::string verdict(const CommBufferDecision& d) {
  if (in_place(d.reason)) {
    return fmt::format("in place: {}", d.result ? "read where it lands" : text_of(d.reason));
  }
  return fmt::format("copied {} because {}", d.result ? "out" : "in", text_of(d.reason));
}

}  // namespace

std::string comm_buffer_text(const Schedule& schedule) {
  const Graph& graph = schedule.graph;
  const std::vector<CommBufferDecision> decisions = comm_buffer_decisions(schedule);
  if (decisions.empty()) return {};
  std::string text = "\nCommunication buffers\n";
  for (const CommBufferDecision& d : decisions) {
    const auto& kernel = *graph[d.collective].as<CollectiveKernel>();
    text += fmt::format("  {:<24} {:<14} @{:<10} {:<10} {:>12} bytes copied   {}\n", graph[d.collective].name,
                        to_string(kernel.kind), graph[kernel.group].name, what(d), to_string(d.bytes),
                        verdict(d));
  }
  const Expr copied = copied_bytes(graph, decisions);
  text += fmt::format("  bytes copied beyond what the algorithms need, per rank and step: {}{}\n",
                      to_string(copied),
                      copied.is_constant() ? "" : fmt::format(", {} at most", bounds(copied).max));
  return text;
}

nlohmann::ordered_json comm_buffer_json(const Schedule& schedule) {
  const Graph& graph = schedule.graph;
  const std::vector<CommBufferDecision> decisions = comm_buffer_decisions(schedule);
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const CommBufferDecision& d : decisions) {
    const auto& kernel = *graph[d.collective].as<CollectiveKernel>();
    rows.push_back({{"collective", graph[d.collective].name},
                    {"kind", std::string(to_string(kernel.kind))},
                    {"group", graph[kernel.group].name},
                    {d.result ? "result" : "operand", d.index},
                    {"buffer", graph[d.buffer].name},
                    {"in_place", in_place(d.reason)},
                    {"reason", std::string(to_string(d.reason))},
                    {"max_bytes_copied", bounds(d.bytes).max}});
  }
  return {{"operands", std::move(rows)}, {"max_bytes_copied", bounds(copied_bytes(graph, decisions)).max}};
}

}  // namespace braid::cli
