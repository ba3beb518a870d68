#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "pipeline/step_table.h"
#include "pipeline/validate.h"

namespace braid::pipeline {
namespace {

std::string text_of(const PipelineSchedule& s, const StepTable& table,
                    std::optional<std::int32_t> error_step) {
  const std::size_t digits = fmt::formatted_size("{}", std::max(0, table.steps - 1));
  const std::size_t label = 5 + digits;  // "Step 07"
  PerRank<std::size_t> widths;
  for (const int r : s.rows.ids()) {
    std::size_t width = std::max(label, fmt::formatted_size("Rank {}", r));
    for (std::size_t p = 0; p < s.rows[r].size(); p += cell_size(s.rows[r], p))
      if (table.step_of[r][p] >= 0) width = std::max(width, cell_text(s.rows[r], p).size());
    widths.push_back(width);
  }

  std::string out(label + 2, ' ');
  for (const int r : s.rows.ids())
    out += fmt::format("{}{:<{}}", r == 0 ? "" : " ", fmt::format("Rank {}", r), widths[r]);
  out += '\n';
  PerRank<std::size_t> next(s.rows.ids());
  for (std::int32_t step = 0; step < table.steps; ++step) {
    out += fmt::format("Step {:0{}}: ", step, digits);
    for (const int r : s.rows.ids()) {
      const Row& row = s.rows[r];
      std::size_t& p = next[r];
      while (p < row.size() && row[p].kind == ActionKind::idle) ++p;
      std::string cell;
      if (p < row.size() && table.step_of[r][p] == step) {
        cell = cell_text(row, p);
        p += cell_size(row, p);
      }
      out += fmt::format("{}{:<{}}", r == 0 ? "" : " ", cell, widths[r]);
    }
    if (error_step == step) out += " <-- ERROR HERE";
    out += '\n';
  }
  return out;
}

}  // namespace

std::string to_text(const PipelineSchedule& schedule, const StepTable& table) {
  return text_of(schedule, table, std::nullopt);
}

std::string to_text(const PipelineSchedule& schedule, const StepTable& table, std::int32_t error_step) {
  return text_of(schedule, table, error_step);
}

std::string deadlock_report(const PipelineSchedule& schedule, const StepTable& table) {
  std::string out = text_of(schedule, table, std::nullopt);
  for (const auto& [rank, position] : table.waiting)
    out += fmt::format("Rank {} waits at {}, {}\n", rank, cell_text(schedule.rows[rank], position),
                       location_text(schedule, rank, position));
  return out;
}

}  // namespace braid::pipeline
