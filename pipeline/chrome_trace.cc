#include "pipeline/chrome_trace.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "pipeline/text.h"

namespace braid::pipeline {
namespace {

using analysis::Time;
using nlohmann::ordered_json;

enum Lane { kCompute, kParameters, kSends, kReceives };
constexpr const char* kLanes[] = {"compute", "parameters", "sends", "receives"};

ordered_json span(int rank, Lane lane, const std::string& name, Time begin, Time end) {
  return {{"ph", "X"},    {"pid", rank},      {"tid", lane},
          {"name", name}, {"ts", begin.us()}, {"dur", (end - begin).us()}};
}

}  // namespace

std::string chrome_trace(const PipelineSchedule& s, const Simulation& simulation,
                         const PerRank<RankMemory>& memory) {
  ordered_json events = ordered_json::array();
  for (const int r : s.rows.ids()) {
    events.push_back(
        {{"ph", "M"}, {"pid", r}, {"name", "process_name"}, {"args", {{"name", fmt::format("rank {}", r)}}}});
    for (const Lane lane : {kCompute, kParameters, kSends, kReceives}) {
      events.push_back({{"ph", "M"},
                        {"pid", r},
                        {"tid", lane},
                        {"name", "thread_name"},
                        {"args", {{"name", kLanes[lane]}}}});
    }
    for (const CellTimes& c : simulation.cells[r]) {
      if (c.begin == c.end) continue;
      std::string name;
      append_cell(name, s.rows[r], c.position);
      const ActionKind kind = s.rows[r][c.position].kind;
      const bool beside = kind == ActionKind::unshard || kind == ActionKind::reduce_grad;
      events.push_back(span(r, beside ? kParameters : kCompute, name, c.begin, c.end));
    }
    if (r >= count_of(memory)) continue;
    for (const MemoryPoint& p : memory[r].live) {
      events.push_back({{"ph", "C"},
                        {"pid", r},
                        {"name", "live bytes"},
                        {"ts", p.from.us()},
                        {"args", {{"bytes", p.bytes}}}});
    }
  }
  int flow = 0;
  for (const TransferTimes& t : simulation.transfers) {
    events.push_back(span(t.from, kSends, to_string(t.send), t.begin, t.end));
    events.push_back(span(t.to, kReceives, to_string(counterpart(t.send)), t.begin, t.end));
    const ordered_json arrow = {{"cat", "transfer"}, {"name", "transfer"}, {"id", flow++}};
    ordered_json begin = arrow, end = arrow;
    begin.update({{"ph", "s"}, {"pid", t.from}, {"tid", kSends}, {"ts", t.begin.us()}});
    end.update({{"ph", "f"}, {"bp", "e"}, {"pid", t.to}, {"tid", kReceives}, {"ts", t.end.us()}});
    events.push_back(std::move(begin));
    events.push_back(std::move(end));
  }
  return ordered_json{{"displayTimeUnit", "ns"}, {"traceEvents", std::move(events)}}.dump() + "\n";
}

}  // namespace braid::pipeline
