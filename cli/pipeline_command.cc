// braid pipeline: pipeline schedules generated, lowered, checked, simulated, searched and drawn.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/pipeline_commands.h"
#include "cli/pipeline_input.h"
#include "cli/report.h"
#include "ir/error.h"
#include "pipeline/csv.h"
#include "pipeline/draw_text.h"
#include "pipeline/generators.h"
#include "pipeline/memory_timeline.h"
#include "pipeline/placement.h"
#include "pipeline/validate.h"

namespace braid::cli {
namespace {

struct GenerateOptions {
  PipelineInput input;
  bool list = false, crlf = false;
  std::string output;
};

int list_schedules(Report& report) {
  report.print("{:<22} {:<16} {:<28}\n", "schedule", "also", "sizes");
  for (const pipeline::Generator& g : pipeline::generators()) {
    report.print("{:<22} {:<16} {:<28} {}\n", g.name, g.alias, g.sizes, g.summary);
    report.json()["schedules"].push_back(
        {{"name", g.name}, {"also", g.alias}, {"sizes", g.sizes}, {"summary", g.summary}});
  }
  report.print("P ranks, S stages, M micro-batches, V any number\n");
  return 0;
}

int generate(const GenerateOptions& o, Report& report) {
  if (o.list) return list_schedules(report);
  write_output(report, "csv", o.output,
               pipeline::print(o.input.read(), o.crlf ? pipeline::LineEnd::crlf : pipeline::LineEnd::lf));
  return 0;
}

struct ShowOptions {
  PipelineInput input;
  int columns = 200;
};

// "12", or "12, 9, 6" where ranks differ.
template <class Value>
std::string each_rank(const pipeline::PerRank<pipeline::RankMemory>& memory, Value value) {
  std::string text;
  bool equal = true;
  for (const pipeline::RankMemory& m : memory) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", value(m));
    equal = equal && value(m) == value(memory[0]);
  }
  return equal ? fmt::format("{} on each rank", value(memory[0])) : text;
}

int show(const ShowOptions& o, Report& report) {
  const pipeline::PipelineSchedule schedule = o.input.read();
  validate(schedule, {.transfers = has_transfers(schedule)});
  const pipeline::PipelineCosts costs = unit_costs(schedule);
  const pipeline::Simulation simulation = simulate(schedule, costs);
  const pipeline::PerRank<pipeline::RankMemory> memory = memory_timeline(schedule, costs, simulation);
  const double all = simulation.makespan.us() * schedule.ranks();
  report.print("{} ranks, {} stages ({}), {} micro-batches\n", schedule.ranks(), schedule.stages(),
               pipeline::placement_text(schedule.rank_of_stage, schedule.ranks()), schedule.microbatches);
  report.print("F = I = W = 1, B = 2, transfers nothing: makespan {}, idle {:.1f} %\n",
               simulation.makespan.us(), all > 0 ? 100 * simulation.idle().us() / all : 0.0);
  report.print("peak activations, each of one stage and micro-batch: {}\n",
               each_rank(memory, [](const pipeline::RankMemory& m) { return m.peak; }));
  report.json() = {{"ranks", schedule.ranks()},
                   {"stages", schedule.stages()},
                   {"placement", pipeline::placement_text(schedule.rank_of_stage, schedule.ranks())},
                   {"microbatches", schedule.microbatches},
                   {"makespan_us", simulation.makespan.us()},
                   {"idle_us", simulation.idle().us()}};
  for (const pipeline::RankMemory& m : memory) report.json()["peak_activations"].push_back(m.peak);
  report.print("{}",
               draw_text(schedule, simulation, {.unit = analysis::Time::from_us(1), .columns = o.columns}));
  return 0;
}

void add_generate(Command pipeline, Invocation& chosen) {
  auto o = std::make_shared<GenerateOptions>();
  const Command command = pipeline.subcommand("generate", "Write a published schedule as CSV");
  command.footer("Example: braid pipeline generate --schedule ZBV --ranks 4 --microbatches 8 -o zbv.csv");
  o->input.add_generator(command);
  command.flag("--list", o->list, "List the schedules and the sizes for which they are defined");
  command.flag("--crlf", o->crlf, "End lines as Python's csv module does");
  command.option("-o,--output", o->output, "CSV file to write (default: the terminal)");
  command.callback([o, &chosen] { chosen = [o](Report& report) { return generate(*o, report); }; });
}

void add_show(Command pipeline, Invocation& chosen) {
  auto o = std::make_shared<ShowOptions>();
  const Command command = pipeline.subcommand("show", "Draw the timeline at unit costs, as papers do");
  command.footer("Example: braid pipeline show --schedule 1F1B --ranks 4 --microbatches 8");
  o->input.add_file(command);
  o->input.add_generator(command);
  command.option("--columns", o->columns, "Characters to draw at most (default 200)").from(1);
  command.callback([o, &chosen] {
    chosen = [o](Report& report) { return o->input.naming_file([&] { return show(*o, report); }); };
  });
}

}  // namespace

void add_pipeline(Command app, Invocation& chosen) {
  const Command command =
      app.subcommand("pipeline", "Generate, lower, check, simulate, search and draw pipeline schedules");
  command.footer("Example: braid pipeline show --schedule 1F1B --ranks 4 --microbatches 8");
  command.require_subcommand();
  add_generate(command, chosen);
  add_pipeline_lower(command, chosen);
  add_pipeline_check(command, chosen);
  add_pipeline_simulate(command, chosen);
  add_pipeline_search(command, chosen);
  add_show(command, chosen);
}

}  // namespace braid::cli
