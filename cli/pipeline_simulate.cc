// braid pipeline simulate: the time of a schedule with real costs, why ranks are idle, and their memory.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/bytes_text.h"
#include "cli/exit_codes.h"
#include "cli/pipeline_commands.h"
#include "cli/pipeline_input.h"
#include "cli/report.h"
#include "ir/error.h"
#include "pipeline/chrome_trace.h"
#include "pipeline/draw_svg.h"
#include "pipeline/draw_text.h"
#include "pipeline/lower.h"
#include "pipeline/step_table.h"

namespace braid::cli {
namespace {

struct SimulateOptions {
  PipelineInput input;
  std::string channels = "edge", costs, trace, svg;
  bool steps = false, peek = false, draw = false, no_transfers = false;
};

pipeline::PipelineSchedule with_transfers(const SimulateOptions& o, pipeline::QueuePolicy policy) {
  pipeline::PipelineSchedule schedule = o.input.read();
  if (o.no_transfers || has_transfers(schedule)) {
    validate(schedule, {.transfers = has_transfers(schedule)});
    return schedule;
  }
  return lower(schedule, {.channels = policy}).schedule;
}

int print_steps(const SimulateOptions& o, Report& report, const pipeline::PipelineSchedule& schedule) {
  const pipeline::StepTable table = step_table(schedule, {.peek = o.peek});
  if (table.deadlock()) {
    report.json() = {{"deadlock", deadlock_report(schedule, table)}};
    report.print("{}", deadlock_report(schedule, table));
    return kNegative;
  }
  report.json() = {{"steps", table.steps}, {"table", to_text(schedule, table)}};
  report.print("{}{} steps\n", to_text(schedule, table), table.steps);
  return 0;
}

void print_simulated_times(Report& report, const pipeline::Simulation& simulation,
                           const pipeline::PerRank<pipeline::RankMemory>& memory) {
  const double all = simulation.makespan.us() * static_cast<double>(simulation.ranks.size());
  report.json() = {{"makespan_us", simulation.makespan.us()}, {"idle_us", simulation.idle().us()}};
  report.print("makespan {:.3f} us, idle {:.1f} %\n", simulation.makespan.us(),
               all > 0 ? 100 * simulation.idle().us() / all : 0.0);
  report.print("{:<6}{:>12}{:>12}{:>12}{:>14}{:>12}  {:>10}{:>14}{:>12}{:>12}{:>12}{:>12}\n", "rank",
               "busy us", "skew", "dependency", "head of line", "tail", "peak", "arena", "parameters",
               "gradients", "activations", "received");
  for (const int r : simulation.ranks.ids()) {
    const pipeline::ComputeStreamTimes& t = simulation.ranks[r];
    const pipeline::RankMemory& m = memory[r];
    fmt::print(
        "{:<6} {:>11.3f} {:>11.3f} {:>11.3f} {:>13.3f} {:>11.3f}  {:>10} {:>13} {:>11} {:>11} {:>11} "
        "{:>11}\n",
        r, t.busy.us(), t.skew.us(), t.dependency.us(), t.head_of_line.us(), t.tail.us(), bytes_text(m.peak),
        bytes_text(m.arena_bytes), bytes_text(m.at_peak[0]), bytes_text(m.at_peak[1]),
        bytes_text(m.at_peak[2]), bytes_text(m.at_peak[3]));
  }
}

int run(const SimulateOptions& o, Report& report) {
  const pipeline::QueuePolicy policy = pipeline::parse_queue_policy(o.channels);
  const pipeline::PipelineSchedule schedule = with_transfers(o, policy);
  if (o.steps || o.peek) return print_steps(o, report, schedule);
  const pipeline::PipelineCosts costs =
      o.costs.empty() ? unit_costs(schedule) : pipeline::read_costs(o.costs, schedule.stages());
  const pipeline::Simulation simulation = simulate(schedule, costs, policy);
  const pipeline::PerRank<pipeline::RankMemory> memory = memory_timeline(schedule, costs, simulation);
  print_simulated_times(report, simulation, memory);
  if (o.draw) report.print("{}", draw_text(schedule, simulation));
  if (!o.trace.empty()) write_output(report, "trace", o.trace, chrome_trace(schedule, simulation, memory));
  if (!o.svg.empty()) write_output(report, "svg", o.svg, draw_svg(schedule, simulation, memory));
  return 0;
}

}  // namespace

void add_pipeline_simulate(Command pipeline, Invocation& chosen) {
  auto o = std::make_shared<SimulateOptions>();
  const Command command =
      pipeline.subcommand("simulate", "Simulate a schedule: times, idle time by cause, memory");
  command.footer(
      "Compute-only rows are lowered first. The bytes of a column are those at the rank's peak.\n"
      "Example: braid pipeline simulate --schedule ZBV --ranks 4 --microbatches 8 --costs costs.json --svg "
      "zbv.svg");
  o->input.add_file(command);
  o->input.add_generator(command);
  command.option("--channels", o->channels,
                 "Queues: rank, pair or edge, with :K for K buffered messages (default edge)");
  const Argument costs = command.option(
      "--costs", o->costs, "JSON with times, bytes and links (default: F = I = W = 1 us, B = 2 us)");
  const Argument steps =
      command.flag("--steps", o->steps, "Print the table in which every action takes one step");
  const Argument peek =
      command.flag("--peek", o->peek,
                   "That table by the older rule: a RECV also meets a SEND that is its rank's next action");
  command.flag("--no-transfers", o->no_transfers, "Simulate compute-only rows without lowering them");
  const Argument draw = command.flag("--draw", o->draw, "Draw the timeline below the table");
  const Argument trace = command.option("--trace", o->trace, "Write a Chrome trace");
  const Argument svg = command.option("--svg", o->svg, "Write an SVG picture");
  for (const Argument weighted : {costs, draw, trace, svg}) weighted.excludes(steps).excludes(peek);
  command.callback([o, &chosen] {
    chosen = [o](Report& report) { return o->input.naming_file([&] { return run(*o, report); }); };
  });
}

}  // namespace braid::cli
