#include "codegen/interface_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codegen/c_text.h"
#include "ir/capacity.h"
#include "ir/written_inputs.h"

namespace braid::codegen {
namespace {

std::string shape_text(const std::vector<ir::Expr>& sizes) {
  std::string text;
  for (const ir::Expr& size : sizes) text += (text.empty() ? "" : ", ") + ir::to_string(size);
  return "[" + text + "]";
}

template <class Interface>
std::string line(const ir::Graph& graph, const char* what, const Interface& i, bool written) {
  const ir::Buffer& buffer = graph[i.buffer];
  std::string text =
      fmt::format("{} {}: {} {}", what, i.name, to_string(buffer.dtype), shape_text(buffer.sizes));
  if (written) text += ", written by a step";
  if (const auto room = ir::capacities(graph, i.buffer))
    text += fmt::format(", in memory of [{}]", fmt::join(*room, ", "));
  if (i.part) text += fmt::format(", the part {} of {}", i.part->state, shape_text(i.part->whole));
  text = c_comment(text);
  for (std::size_t at; (at = text.find("*/")) != std::string::npos;) text.replace(at, 2, "* ");
  return text;
}

}  // namespace

std::vector<std::string> interface_lines(const ir::Schedule& schedule) {
  const ir::Graph& graph = schedule.graph;
  const std::vector<bool> written = ir::written_inputs(schedule);
  std::vector<std::string> lines;
  for (std::size_t k = 0; k < graph.inputs.size(); ++k)
    lines.push_back(line(graph, "input ", graph.inputs[k], written[k]));
  for (const ir::GraphOutput& output : graph.outputs) lines.push_back(line(graph, "output", output, false));
  return lines;
}

std::string guard_text(const ir::Guard& guard) {
  return fmt::format("{}{}{} {} {}", guard.origin, guard.origin.empty() ? "" : ": ", ir::to_string(guard.lhs),
                     guard.relation == ir::Guard::Relation::equal ? "==" : "<=", ir::to_string(guard.rhs));
}

}  // namespace braid::codegen
