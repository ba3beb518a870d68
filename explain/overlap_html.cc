#include "explain/overlap_html.h"

#include <fmt/format.h>

#include <algorithm>

namespace braid::explain {
namespace {

using namespace analysis;

constexpr double kWidth = 1200, kLane = 26, kLeft = 110, kMemory = 90;

std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

const char* colour(const Span& s) { return s.blocked ? "#e07a5f" : s.lane == 0 ? "#3d5a80" : "#81b29a"; }

// All timelines of a page have one scale, so that they can be compared.
std::string timeline(const std::string& name, const TimelineView& v, Time longest, std::int64_t most) {
  const double scale = longest.ps > 0 ? (kWidth - kLeft - 10) / static_cast<double>(longest.ps) : 0;
  const auto x = [&](Time t) { return kLeft + static_cast<double>(t.ps) * scale; };
  const double lanes = static_cast<double>(v.lanes.size()) * kLane, height = lanes + kMemory + 24;
  std::string out = fmt::format("<h2>{}: {:.3f} us</h2>\n<svg viewBox=\"0 0 {} {}\" role=\"img\">\n",
                                escaped(name), v.makespan.us(), kWidth, height);
  for (std::size_t l = 0; l < v.lanes.size(); ++l) {
    out += fmt::format("<text x=\"4\" y=\"{:.1f}\">{}</text>\n", static_cast<double>(l) * kLane + 17,
                       escaped(v.lanes[l]));
  }
  for (const Span& s : v.spans) {
    out += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\" fill=\"{}\"><title>{}\n{}\n{:.3f} us "
        "to {:.3f} us "
        "({:.3f} us)</title></rect>\n",
        x(s.begin), s.lane * kLane + 3, std::max(0.3, x(s.end) - x(s.begin)), kLane - 6, colour(s),
        escaped(s.name), escaped(s.label), s.begin.us(), s.end.us(), (s.end - s.begin).us());
  }
  const double base = lanes + kMemory;
  const auto y = [&](std::int64_t bytes) {
    return base - (most > 0 ? (kMemory - 10) * static_cast<double>(bytes) / static_cast<double>(most) : 0);
  };
  std::string points = fmt::format("{:.2f},{:.2f}", x(Time{}), base);
  double last = base;
  std::int64_t peak = 0;
  for (const auto& [time, bytes] : v.live) {
    points += fmt::format(" {:.2f},{:.2f} {:.2f},{:.2f}", x(time), last, x(time), y(bytes));
    last = y(bytes);
    peak = std::max(peak, bytes);
  }
  points += fmt::format(" {:.2f},{:.2f} {:.2f},{:.2f}", x(v.makespan), last, x(v.makespan), base);
  out += fmt::format(
      "<polygon points=\"{}\" fill=\"#f2cc8f\"/>\n<text x=\"4\" y=\"{:.1f}\">live, peak</text><text x=\"4\" "
      "y=\"{:.1f}\">{}</text>\n</svg>\n",
      points, lanes + 30, lanes + 48, format_bytes(peak));
  return out;
}

std::string row(const char* what, const Measurement& m) {
  return fmt::format(
      "<tr><td>{}</td><td>{:.3f}</td><td>{:.3f}</td><td>{:.3f}</td><td>{:.2f}</td><td>{:.3f}</td><td>{}</"
      "td><td>{}</td></tr>\n",
      what, m.makespan.us(), m.bounds.best().us(), m.input_bound.us(), 100 * m.gap(), m.exposed.us(),
      format_bytes(m.live_peak), format_bytes(m.planned_bytes));
}

constexpr const char* kHead =
    "<tr><th></th><th>makespan us</th><th>bound us</th><th>input bound us</th><th>gap %</th><th>exposed "
    "us</th><th>live "
    "peak</th><th>planned</th></tr>\n";

std::string collectives(const std::vector<CollectiveReport>& list) {
  std::string out =
      "<table>\n<tr><th>collective</th><th>kernel</th><th>cost us</th><th>exposed before us</th><th>after "
      "us</th><th>moves</th><th>why not further</th></tr>\n";
  for (const CollectiveReport& c : list) {
    out += fmt::format(
        "<tr><td>{}</td><td>{}</td><td>{:.3f}</td><td>{:.3f}</td><td>{:.3f}</td><td>{}</td><td>{}</td></"
        "tr>\n",
        escaped(c.name), escaped(c.kernel), c.cost.us(), c.initial_exposed.us(), c.final_exposed.us(),
        c.moves, escaped(to_string(c.limit)));
  }
  return out + "</table>\n";
}

}  // namespace

std::string html_page(const OverlapStory& story,
                      const std::vector<std::pair<std::string, const TimelineView*>>& views) {
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Communication on "
      "{0}</title>\n<style>\n"
      "body {{ font: 14px sans-serif; margin: 2em; color: #222 }}\nsvg {{ width: 100%; background: #fafafa "
      "}}\n"
      "svg text {{ font: 12px sans-serif }}\ntable {{ border-collapse: collapse; margin: 1em 0 }}\n"
      "td, th {{ border: 1px solid #ddd; padding: 3px 8px; text-align: right }}\ntd:first-child, "
      "th:first-child {{ text-align: left "
      "}}\n.key span {{ padding: 2px 8px; margin-right: 1em; color: white }}\n</style></head><body>\n"
      "<h1>Communication, simulated on machine {0}</h1>\n<p class=\"key\"><span "
      "style=\"background:#3d5a80\">compute</span><span "
      "style=\"background:#81b29a\">collective</span><span style=\"background:#e07a5f\">blocked in a "
      "wait</span><span "
      "style=\"background:#f2cc8f; color:#222\">live bytes</span></p>\n",
      escaped(story.machine));
  Time longest;
  std::int64_t most = 0;
  for (const auto& [name, view] : views) {
    longest = std::max(longest, view->makespan);
    for (const auto& [time, bytes] : view->live) most = std::max(most, bytes);
  }
  for (const auto& [name, view] : views) out += timeline(name, *view, longest, most);
  out += std::string("<h2>All passes</h2>\n<table>\n") + kHead + row("before", story.first) +
         row("after", story.last) + "</table>\n";
  if (story.steps.empty()) out += collectives(story.last.collectives);
  for (const OverlapStep& s : story.steps) {
    out += fmt::format("<h2>{}</h2>\n<table>\n{}{}{}</table>\n{}", escaped(s.report.pass), kHead,
                       row("before", s.before), row("after", s.after), collectives(s.report.collectives));
  }
  return out + "</body></html>\n";
}

}  // namespace braid::explain
