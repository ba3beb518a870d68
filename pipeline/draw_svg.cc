#include "pipeline/draw_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "pipeline/text.h"

namespace braid::pipeline {
namespace {

using analysis::Time;

constexpr double kWidth = 1400, kLeft = 70, kLane = 34, kBox = 22, kMemory = 30;

const char* colour(ActionKind k) {
  switch (k) {
    case ActionKind::forward:
      return "#4a7fc1";
    case ActionKind::backward_input:
      return "#2a9d8f";
    case ActionKind::backward_weight:
      return "#6aa84f";
    case ActionKind::full_backward:
      return "#e08e45";
    case ActionKind::overlap_f_b:
      return "#8e63b5";
    default:
      return "#c9b458";
  }
}

}  // namespace

std::string draw_svg(const PipelineSchedule& s, const Simulation& simulation,
                     const PerRank<RankMemory>& memory) {
  const double scale =
      simulation.makespan.ps > 0 ? (kWidth - kLeft - 10) / static_cast<double>(simulation.makespan.ps) : 0;
  const auto x = [&](Time t) { return kLeft + static_cast<double>(t.ps) * scale; };
  std::int64_t most = 0;
  for (const RankMemory& m : memory) most = std::max(most, m.peak);
  const double lane = kLane + (most > 0 ? kMemory : 0);
  const auto y = [&](int rank) { return 30 + rank * lane; };
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {:.0f}\" font-family=\"sans-serif\" "
      "font-size=\"11\">\n"
      "<text x=\"4\" y=\"16\">makespan {:.3f} us</text>\n",
      kWidth, y(s.ranks()) + 10, simulation.makespan.us());
  for (const int r : s.rows.ids()) {
    out += fmt::format("<text x=\"4\" y=\"{:.1f}\">rank {}</text>\n", y(r) + 15, r);
    for (const CellTimes& c : simulation.cells[r]) {
      if (c.begin == c.end) continue;
      const ActionKind kind = s.rows[r][c.position].kind;
      const bool beside = kind == ActionKind::unshard || kind == ActionKind::reduce_grad;
      std::string text;
      append_cell(text, s.rows[r], c.position);
      const double width = x(c.end) - x(c.begin);
      out += fmt::format(
          "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.0f}\" fill=\"{}\" stroke=\"white\" "
          "stroke-width=\"0.4\"><title>{} {:.3f} to {:.3f} us</title></rect>\n",
          x(c.begin), y(r) + (beside ? kBox : 0), width, beside ? 4 : kBox, colour(kind), text, c.begin.us(),
          c.end.us());
      if (!beside && width > 7.0 * static_cast<double>(text.size())) {
        out +=
            fmt::format("<text x=\"{:.2f}\" y=\"{:.1f}\" fill=\"white\" text-anchor=\"middle\">{}</text>\n",
                        x(c.begin) + width / 2, y(r) + 15, text);
      }
    }
    if (most == 0 || r >= count_of(memory)) continue;
    const double base = y(r) + kLane + kMemory - 8;
    const auto height = [&](std::int64_t bytes) {
      return base - (kMemory - 6) * static_cast<double>(bytes) / static_cast<double>(most);
    };
    std::string points = fmt::format("{:.2f},{:.2f}", x({}), base);
    double last = base;
    for (const MemoryPoint& p : memory[r].live) {
      points += fmt::format(" {:.2f},{:.2f} {:.2f},{:.2f}", x(p.from), last, x(p.from), height(p.bytes));
      last = height(p.bytes);
    }
    points += fmt::format(" {:.2f},{:.2f} {:.2f},{:.2f}", x(simulation.makespan), last,
                          x(simulation.makespan), base);
    out += fmt::format("<polygon points=\"{}\" fill=\"#f2cc8f\"><title>peak {} bytes</title></polygon>\n",
                       points, memory[r].peak);
  }
  for (const TransferTimes& t : simulation.transfers) {
    out += fmt::format(
        "<line x1=\"{:.2f}\" y1=\"{:.1f}\" x2=\"{:.2f}\" y2=\"{:.1f}\" stroke=\"#777\" "
        "stroke-width=\"0.7\"><title>{} "
        "{:.3f} to {:.3f} us</title></line>\n",
        x(t.begin), y(t.from) + (t.to > t.from ? kBox : 0), x(t.end), y(t.to) + (t.to > t.from ? 0 : kBox),
        to_string(t.send), t.begin.us(), t.end.us());
  }
  return out + "</svg>\n";
}

}  // namespace braid::pipeline
