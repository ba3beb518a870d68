// The input schedule of a subcommand of braid pipeline: read from a CSV file or generated.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "cli/command_line.h"
#include "cli/report.h"
#include "pipeline/schedule.h"

namespace braid::cli {

struct PipelineInput {
  std::string file;
  std::string schedule;
  std::int32_t ranks = 0, stages = 0, microbatches = 0;
  std::string placement;

  void add_file(Command command);
  void add_sizes(Command command);
  void add_generator(Command command);  // --schedule, and the sizes

  // Throws BR0003 for conflicting options, BR0004 for a missing file, and what reading and generating throw.
  pipeline::PipelineSchedule read() const;
  // Runs the command. An error that names no file is about the schedule and gets the name of its file.
  int naming_file(const std::function<int()>& command) const;

 private:
  pipeline::PipelineSchedule read_file() const;
  pipeline::PipelineSchedule generate() const;
};

// Whether the rows already contain SENDs and RECVs.
bool has_transfers(const pipeline::PipelineSchedule& schedule);

// Writes to the file, or to the terminal for "" and "-". In the JSON, `key` is the text or the file's path.
// Throws BR0010.
void write_output(Report& report, const char* key, const std::string& path, const std::string& text);

}  // namespace braid::cli
