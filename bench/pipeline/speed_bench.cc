// How long it takes to generate, lower, prove and tabulate pipeline schedules, and to simulate them with
// weights.
//
//   pipeline_speed_bench [--large | --once]      prints a table; --large: up to 12 million actions; --once:
//                                                without repeating anything
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "pipeline/add_send_recv.h"
#include "pipeline/deadlock_proof.h"
#include "pipeline/generators.h"
#include "pipeline/simulate.h"
#include "pipeline/step_table.h"

namespace {

using namespace braid::pipeline;
using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}
double median(std::vector<double> v) {
  std::ranges::nth_element(v, v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2));
  return v[v.size() / 2];
}

struct Stage {
  const char* name;
  std::vector<double> us = {};
};

void row(const char* schedule, int stages_per_rank, int microbatches, int ranks, int repeat, bool weighted) {
  std::vector<Stage> stages = {{"generate"}, {"lower"}, {"prove"}, {"step table"}, {"simulate"}, {"all"}};
  std::size_t actions = 0;
  int steps = 0;
  for (int k = 0; k < repeat; ++k) {
    std::vector<double> us;
    const auto begin = Clock::now();
    auto last = begin;
    const auto lap = [&] {
      us.push_back(us_since(last));
      last = Clock::now();
    };
    const PipelineSchedule compute =
        find_generator(schedule).generate({ranks, ranks * stages_per_rank, microbatches});
    lap();
    const PipelineSchedule lowered = add_send_recv(compute);
    lap();
    const Proof proof = prove_deadlock_free(lowered, {});
    lap();
    const StepTable table = step_table(lowered);
    lap();
    if (!is_safe(proof) || table.deadlock()) std::abort();
    if (weighted) {
      PipelineCosts costs = unit_costs(lowered);
      costs.link.latency = braid::analysis::Time::from_us(0.25);
      if (simulate(lowered, costs).makespan.ps <= 0) std::abort();
    }
    lap();
    us.push_back(us_since(begin));
    for (std::size_t s = 0; s < us.size(); ++s) stages[s].us.push_back(us[s]);
    actions = 0;
    for (const Row& r : lowered.rows) actions += r.size();
    steps = table.steps;
  }
  fmt::print("| {} {}x{}, {} micro-batches | {} | {} |", schedule, ranks, stages_per_rank, microbatches,
             actions, steps);
  for (const Stage& s : stages) {
    const double us = median(s.us);
    const bool absent = std::strcmp(s.name, "simulate") == 0 && !weighted;
    fmt::print(" {} |", absent      ? ""
                        : us < 1000 ? fmt::format("{:.1f} us", us)
                                    : fmt::format("{:.1f} ms", us / 1000));
  }
  fmt::print(" {:.1f} |\n", 1000 * median(stages.back().us) / static_cast<double>(actions));
}

}  // namespace

int main(int argc, char** argv) {
  const bool large = argc > 1 && std::strcmp(argv[1], "--large") == 0;
  const bool once = argc > 1 && std::strcmp(argv[1], "--once") == 0;
  fmt::print(
      "| schedule, ranks x stages | actions | steps | generate | lower | prove | step table | simulate | all "
      "| ns per action |\n");
  fmt::print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n");
  for (const char* name :
       {"1F1B", "Interleaved1F1B", "LoopedBFS", "InterleavedZeroBubble", "ZBVZeroBubble"}) {
    const int v = std::strcmp(name, "1F1B") == 0 ? 1 : 2;
    row(name, v, 8, 4, once ? 1 : 2001, true);
  }
  for (const char* name : {"Interleaved1F1B", "LoopedBFS", "InterleavedZeroBubble"}) {
    row(name, 4, 128, 64, once ? 1 : 31, false);
    row(name, 4, 128, 64, once ? 1 : 5, true);
  }
  if (large) {
    row("Interleaved1F1B", 8, 128, 64, 7, false);
    row("Interleaved1F1B", 8, 256, 128, 5, false);
    row("Interleaved1F1B", 8, 1024, 256, 3, false);
  }
  return 0;
}
