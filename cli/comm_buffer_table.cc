#include "cli/comm_buffer_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "ir/comm_buffer.h"

namespace braid::cli {
namespace {

using namespace ir;

std::string what(const CommBufferDecision& d) {
  return fmt::format("{} {}", d.result ? "result" : "operand", d.index);
}

std::string verdict(const CommBufferDecision& d) {
  if (in_place(d.reason)) {
    return fmt::format("in place: {}", text_of(d.reason));
  }
  return fmt::format("copied {} because {}", d.result ? "out" : "in", text_of(d.reason));
}

}  // namespace

std::string comm_buffer_text(const Schedule& schedule) {
  const Graph& graph = schedule.graph;
  const std::vector<CommBufferDecision> decisions = comm_buffer_decisions(schedule);
  if (decisions.empty()) return {};
  std::string text = "\nCommunication buffers\n";
  // In-place operands are counted, copied ones listed.
  std::vector<std::pair<std::string, int>> counts;
  std::size_t width = 0;
  for (const CommBufferDecision& d : decisions) {
    if (!in_place(d.reason) || !d.bytes.is_constant(0)) {
      width = std::max(width, graph[d.collective].name.size());
      continue;
    }
    const std::string line = fmt::format("{}s in place: {}", d.result ? "result" : "operand",
                                         d.result ? "read where they land" : text_of(d.reason));
    const auto same = std::ranges::find(counts, line, &std::pair<std::string, int>::first);
    if (same == counts.end()) {
      counts.emplace_back(line, 1);
    } else {
      ++same->second;
    }
  }
  for (const auto& [line, count] : counts) text += fmt::format("  {:>6} {}\n", count, line);
  std::map<OpId, std::string> copied_for;  // a copy that serves several is counted once
  for (const CommBufferDecision& d : decisions) {
    if (in_place(d.reason) && d.bytes.is_constant(0)) continue;
    const auto& kernel = *graph[d.collective].as<CollectiveKernel>();
    const std::string& name = graph[d.collective].name;
    std::string shared;
    for (OpId copy : d.copies) {
      const auto [at, first] = copied_for.emplace(copy, name);
      if (!first) shared = fmt::format("; the copy of '{}'", at->second);
    }
    text += fmt::format("  {:<{}}  {} @{}, {}: {} bytes {}{}\n", name, width, to_string(kernel.kind),
                        graph[kernel.group].name, what(d), to_string(d.bytes), verdict(d), shared);
  }
  const Expr copied = copied_bytes(graph, decisions);
  text +=
      fmt::format("  bytes copied beyond the algorithms' needs, per rank and step: {}{}\n", to_string(copied),
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
