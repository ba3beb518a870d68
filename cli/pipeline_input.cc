#include "cli/pipeline_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "codegen/output_files.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "ir/input_file.h"
#include "pipeline/csv.h"
#include "pipeline/generators.h"
#include "pipeline/placement.h"

namespace braid::cli {

void PipelineInput::add_file(Command command) {
  command.option("FILE", file, "Schedule as CSV, a line per rank; - reads standard input");
}

void PipelineInput::add_sizes(Command command) {
  command.option("--ranks", ranks, "Ranks").from(1);
  command
      .option("--stages", stages,
              "Stages of the model (default: one per rank, or two if the schedule has two)")
      .from(1);
  command.option("--microbatches", microbatches, "Micro-batches").from(1);
  command.option("--placement", placement,
                 "Which rank owns a stage: loop, v, or a rank for each stage: 0,1,1,0");
}

void PipelineInput::add_generator(Command command) {
  std::string names;
  for (const pipeline::Generator& g : pipeline::generators()) {
    names += (names.empty() ? "" : ", ") + std::string(g.name);
    if (!g.alias.empty()) names += fmt::format(" ({})", g.alias);
  }
  command.option("--schedule", schedule, "A published schedule instead of a file: " + names);
  add_sizes(command);
}

pipeline::PipelineSchedule PipelineInput::read() const {
  if (!file.empty() && !schedule.empty()) {
    ir::user_error(errors::kBadOption, {.file = file},
                   fmt::format("--schedule {} and a file are given", schedule), "give one of them");
  }
  if (schedule.empty() && file.empty()) {
    ir::user_error(errors::kNoInputFile, {}, "neither a file nor --schedule is given",
                   "write braid pipeline show FILE.csv, or --schedule 1F1B --ranks 4 --microbatches 8");
  }
  return schedule.empty() ? read_file() : generate();
}

int PipelineInput::naming_file(const std::function<int()>& command) const {
  try {
    return command();
  } catch (const ir::UserError& e) {
    if (file.empty() || !e.location().file.empty()) throw;
    ir::Location location = e.location();
    location.file = file;
    throw ir::UserError(e.code(), location, e.message(), e.hint());
  }
}

pipeline::PipelineSchedule PipelineInput::read_file() const {
  const std::string text = file == "-" ? ir::InputFile().rest() : ir::read_text_file(file);
  pipeline::CsvOptions options{.file = file};
  if (!placement.empty()) {
    const auto lines =
        std::count(text.begin(), text.end(), '\n') + (text.empty() || text.back() == '\n' ? 0 : 1);
    const int rows = static_cast<int>(lines);
    if (ranks != 0 && ranks != rows) {
      ir::user_error(errors::kBadOption, {.file = file},
                     fmt::format("--ranks is {}, but the file has {} rows", ranks, rows),
                     "leave --ranks out");
    }
    const bool named = placement != "loop" && placement != "v";
    const int count = stages != 0 ? stages
                      : named     ? 1 + static_cast<int>(std::count(placement.begin(), placement.end(), ','))
                                  : pipeline::parse_schedule(text, options).stages();
    options.rank_of_stage = pipeline::parse_placement(placement, rows, count);
  }
  pipeline::PipelineSchedule schedule = pipeline::parse_schedule(text, options);
  const auto agree = [&](const char* option, int given, int found) {
    if (given == 0 || given == found) return;
    ir::user_error(errors::kBadOption, {.file = file},
                   fmt::format("{} is {}, but the file has {}", option, given, found),
                   fmt::format("leave {} out", option));
  };
  agree("--ranks", ranks, schedule.ranks());
  agree("--stages", stages, schedule.stages());
  agree("--microbatches", microbatches, schedule.microbatches);
  return schedule;
}

pipeline::PipelineSchedule PipelineInput::generate() const {
  const pipeline::Generator& generator = pipeline::find_generator(schedule);
  if (ranks == 0 || microbatches == 0) {
    ir::user_error(errors::kBadOption, {},
                   fmt::format("--schedule {} requires --ranks and --microbatches", schedule),
                   "--schedule 1F1B --ranks 4 --microbatches 8");
  }
  const int local = generator.sizes.starts_with("S = 2*P") ? 2 : 1;
  pipeline::PipelineSchedule out =
      generator.generate({ranks, stages != 0 ? stages : local * ranks, microbatches});
  if (!placement.empty() && out.rank_of_stage != pipeline::parse_placement(placement, ranks, out.stages())) {
    ir::user_error(errors::kBadOption, {},
                   fmt::format("--placement {}: {} places its stages {}", placement, generator.name,
                               pipeline::placement_text(out.rank_of_stage, ranks)),
                   "leave --placement out");
  }
  return out;
}

bool has_transfers(const pipeline::PipelineSchedule& schedule) {
  return std::any_of(schedule.rows.begin(), schedule.rows.end(), [](const pipeline::Row& row) {
    return std::any_of(row.begin(), row.end(), [](const pipeline::Action& a) {
      return pipeline::is_send(a.kind) || pipeline::is_recv(a.kind);
    });
  });
}

void write_output(Report& report, const char* key, const std::string& path, const std::string& text) {
  if (path.empty() || path == "-") {
    report.json()[key] = text;
    report.text(text);
    return;
  }
  codegen::write_file(path, text);
  report.json()[key] = path;
}

}  // namespace braid::cli
