#include "pipeline/draw_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace braid::pipeline {
namespace {

using analysis::Time;

bool occupies_stream(ActionKind k) { return is_compute(k) || k == ActionKind::overlap_f_b; }

char letter(ActionKind k) {
  switch (k) {
    case ActionKind::forward:
      return 'F';
    case ActionKind::backward_input:
      return 'I';
    case ActionKind::backward_weight:
      return 'W';
    default:
      return 'B';
  }
}

Time shortest(const PipelineSchedule& s, const Simulation& simulation) {
  Time unit = Time::max();
  for (const int r : s.rows.ids()) {
    for (const CellTimes& c : simulation.cells[r]) {
      if (occupies_stream(s.rows[r][c.position].kind) && c.begin < c.end)
        unit = std::min(unit, c.end - c.begin);
    }
  }
  return unit;
}

}  // namespace

std::string draw_text(const PipelineSchedule& s, const Simulation& simulation, const DrawOptions& options) {
  const Time unit = options.unit.ps > 0 ? options.unit : shortest(s, simulation);
  const bool several = s.stages() > s.ranks();
  const auto label = [&](const Row& row, std::size_t position) {
    std::string text;
    for (const Action a : members(row, position)) {
      if (!text.empty()) text += '+';
      if (several) text += std::to_string(a.stage);
      text += letter(a.kind) + std::to_string(a.microbatch);
    }
    return text;
  };
  std::size_t width = 2;
  for (const int r : s.rows.ids()) {
    for (const CellTimes& c : simulation.cells[r]) {
      if (!occupies_stream(s.rows[r][c.position].kind) || is_container(s.rows[r][c.position].kind)) continue;
      width = std::max(width, label(s.rows[r], c.position).size() + 1);
    }
  }
  const auto most = static_cast<std::size_t>(options.columns);
  // Limited to what is drawn: the shortest action may be a millionth of the longest.
  const auto column = [&](Time t) {
    const auto units = unit.ps > 0 ? static_cast<std::size_t>((t.ps + unit.ps / 2) / unit.ps) : 0;
    return std::min(units, most / width + 2) * width;
  };
  std::string out;
  const std::size_t digits = std::to_string(s.ranks() - 1).size();
  for (const int r : s.rows.ids()) {
    std::string line;
    for (std::size_t k = 0; k < column(simulation.makespan); k += width)
      line += std::string(width - 1, ' ') + '.';
    for (const CellTimes& c : simulation.cells[r]) {
      if (!occupies_stream(s.rows[r][c.position].kind)) continue;
      const std::size_t from = column(c.begin), to = std::min(column(c.end), line.size());
      if (from >= to) continue;
      std::string text = label(s.rows[r], c.position);
      text.resize(to - from - 1, '-');
      line.replace(from, to - from, " " + text);
    }
    if (line.size() > most) line = line.substr(0, most) + " ...";
    out += fmt::format("rank {:>{}} |{}\n", r, digits, line);
  }
  return out;
}

}  // namespace braid::pipeline
