#include "bench/overlap/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace braid::bench {
namespace {

using Kind = Scheduler::Kind;

constexpr double kMiB = 1024.0 * 1024.0;

const Result* result_of(const GraphResults& graph, const std::vector<Scheduler>& schedulers, Kind kind) {
  for (std::size_t s = 0; s < schedulers.size(); ++s) {
    if (schedulers[s].kind == kind && graph.results[s]) return &*graph.results[s];
  }
  return nullptr;
}

// The fastest schedule that keeps the cap, among all that are not our own.
const Result* best_other(const GraphResults& graph, const std::vector<Scheduler>& schedulers,
                         std::string* name = nullptr) {
  const Result* best = nullptr;
  for (std::size_t s = 0; s < schedulers.size(); ++s) {
    const std::optional<Result>& r = graph.results[s];
    if (schedulers[s].kind == Kind::own || !r || (graph.cap && r->planned > *graph.cap)) continue;
    if (best == nullptr || r->makespan < best->makespan) {
      best = &*r;
      if (name != nullptr) *name = schedulers[s].name;
    }
  }
  return best;
}

}  // namespace

std::string schedule_table(const std::vector<Scheduler>& schedulers,
                           const std::vector<GraphResults>& graphs) {
  std::string out =
      "| graph | scheduler | makespan ms | bound ms | input bound ms | gap % | exposed ms | live MiB | "
      "planned MiB |\n"
      "|---|---|---:|---:|---:|---:|---:|---:|---:|\n";
  for (const GraphResults& g : graphs) {
    for (std::size_t s = 0; s < schedulers.size(); ++s) {
      std::string head = s == 0 ? fmt::format("{} ({}, {} nodes)", g.name, g.machine, g.nodes) : "";
      if (s == 1 && g.optimum && !g.cap) head = fmt::format("optimum {:.4f} ms", g.optimum->ms());
      if (!g.results[s]) {
        out += fmt::format("| {} | {} | cap not kept | | | | | | |\n", head, schedulers[s].name);
        continue;
      }
      const Result& r = *g.results[s];
      const bool over = g.cap && r.planned > *g.cap;
      out += fmt::format("| {} | {} | {:.4f} | {:.4f} | {:.4f} | {:.2f} | {:.4f} | {:.1f} | {:.1f}{} |\n",
                         head, schedulers[s].name, r.makespan.ms(), r.bound.ms(), g.input_bound.ms(),
                         100 * r.gap(), r.exposed.ms(), static_cast<double>(r.live) / kMiB,
                         static_cast<double>(r.planned) / kMiB, over ? " (over the cap)" : "");
    }
  }
  return out;
}

std::string summary(const std::vector<Scheduler>& schedulers, const std::vector<GraphResults>& graphs) {
  double log_sum = 0, worst = 0;
  int small = 0, optimal = 0, counted = 0, slower = 0, contested = 0, faster = 0;
  std::string worst_name = "none", details;
  for (const GraphResults& g : graphs) {
    const Result* own = result_of(g, schedulers, Kind::own);
    const Result* input = result_of(g, schedulers, Kind::input);
    std::string rival = "nobody";
    const Result* other = best_other(g, schedulers, &rival);
    if (own == nullptr || input == nullptr) continue;
    if (g.optimum && !g.cap) {
      ++small;
      optimal += own->makespan == *g.optimum ? 1 : 0;
    }
    if (!g.small && input->gap() > 0.05) {
      ++counted;
      log_sum += std::log(1 + own->gap());
      if (own->gap() > worst) {
        worst = own->gap();
        worst_name = g.name;
      }
    }
    if (other == nullptr) continue;
    if (own->makespan > other->makespan) {
      ++slower;
      details += fmt::format("* slower than {} on {}: {:.4f} against {:.4f} ms\n", rival, g.name,
                             own->makespan.ms(), other->makespan.ms());
    }
    if (other->gap() > 0.01) {
      ++contested;
      faster += own->makespan < other->makespan ? 1 : 0;
    }
  }
  return fmt::format(
             "* {} graphs whose input order is more than 5 % above the bound: geometric mean of makespan / "
             "bound - 1 = "
             "{:.2f} %, worst {:.2f} % ({})\n"
             "* slower than the best of the others on {} of {} graphs; where that one's gap exceeds 1 % ({} "
             "graphs), faster "
             "on {}\n",
             counted, counted > 0 ? 100 * (std::exp(log_sum / counted) - 1) : 0.0, 100 * worst, worst_name,
             slower, graphs.size(), contested, faster) +
         (small > 0 ? fmt::format("* optimal on {} of the {} small graphs made to mislead\n", optimal, small)
                    : "") +
         details;
}

namespace {

// One figure per scheduler and graph.
template <class Figure>
std::string grid(const std::vector<Scheduler>& schedulers, const std::vector<GraphResults>& graphs,
                 Figure figure) {
  std::string out = "| graph | nodes |", rule = "|---|---:|";
  for (const Scheduler& s : schedulers) {
    out += fmt::format(" {} |", s.name);
    rule += "---:|";
  }
  out += "\n" + rule + "\n";
  for (const GraphResults& g : graphs) {
    out += fmt::format("| {} | {} |", g.name, g.nodes);
    for (const std::optional<Result>& r : g.results) out += r ? " " + figure(*r) + " |" : " |";
    out += "\n";
  }
  return out;
}

}  // namespace

std::string time_table(const std::vector<Scheduler>& schedulers, const std::vector<GraphResults>& graphs) {
  return grid(schedulers, graphs, [](const Result& r) { return fmt::format("{:.3f}", r.seconds); });
}

std::string resident_table(const std::vector<Scheduler>& schedulers,
                           const std::vector<GraphResults>& graphs) {
  return grid(schedulers, graphs, [](const Result& r) { return fmt::format("{}", r.resident >> 20); });
}

}  // namespace braid::bench
