#include "cli/split_parts.h"

#include <fmt/format.h>

#include <algorithm>

#include "frontend/errors.h"
#include "ir/error.h"

namespace braid::cli {

using frontend::sharding::AxisSpec;
using frontend::sharding::Interface;
using frontend::sharding::part_of;
using frontend::sharding::without_padding;

SplitParts::SplitParts(const SplitReport& report, const std::string& model) {
  const std::size_t count = report.interface.size();
  const auto note = [&](std::size_t axis, const Interface& states, std::map<std::string, Axes>& known,
                        const char* what) {
    for (const auto& [name, spec] : states) {
      if (spec.is_pending())
        ir::user_error(
            frontend::kSplitRequest, {.file = model},
            fmt::format("each rank has a term of the {} '{}', but it is compared with the plain model", what,
                        name),
            "let the plan keep it whole, or split a dimension of it");
      Axes& axes = known[name];
      if (axes.empty()) {
        for (const frontend::sharding::AxisInterface& other : report.interface)
          axes.push_back({other.ranks, {}});
      }
      axes[axis].spec = spec;
    }
  };
  for (std::size_t axis = 0; axis < count; ++axis) {
    note(axis, report.interface[axis].inputs, inputs_, "input");
    note(axis, report.interface[axis].outputs, outputs_, "output");
  }
}

const SplitParts::Axes* SplitParts::find(const std::map<std::string, Axes>& known, const std::string& name) {
  const auto found = known.find(name);
  return found == known.end() ? nullptr : &found->second;
}

void SplitParts::make_whole(std::vector<InputSpec>& inputs, const ir::Schedule& plain) const {
  for (InputSpec& spec : inputs) {
    if (find(inputs_, spec.name) == nullptr) continue;
    const auto& all = plain.graph.inputs;
    const auto input =
        std::find_if(all.begin(), all.end(), [&](const auto& other) { return other.name == spec.name; });
    if (input == all.end()) continue;
    const std::vector<ir::Expr>& sizes = plain.graph[input->buffer].sizes;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      if (sizes[d].is_constant()) spec.sizes[d] = {sizes[d].constant(), ""};
    }
  }
}

ir::Tensor SplitParts::input(const std::string& name, const ir::Tensor& whole, int rank) const {
  const Axes* axes = find(inputs_, name);
  return axes == nullptr ? whole : part_of(whole, *axes, rank, true);
}

ir::Tensor SplitParts::output(const std::string& name, const ir::Tensor& whole, int rank,
                              ir::Tensor& result) const {
  const Axes* axes = find(outputs_, name);
  if (axes == nullptr) return whole;
  ir::Tensor part = part_of(whole, *axes, rank, false);
  if (result.sizes == part_of(whole, *axes, rank, true).sizes) result = without_padding(result, part.sizes);
  return part;
}

}  // namespace braid::cli
