// The schedule that a subcommand of braid pipeline works on: from a CSV file, or generated.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "pipeline/schedule.h"

namespace CLI {
class App;
}  // namespace CLI

namespace braid::cli {

struct PipelineInput {
  std::string file;
  std::string schedule;
  std::int32_t ranks = 0, stages = 0, microbatches = 0;
  std::string placement;

  void add_file(CLI::App& command);
  void add_sizes(CLI::App& command);
  void add_generator(CLI::App& command);  // --schedule, and the sizes

  // Throws BR0003 for options that do not go together, BR0004 for no file, and what reading and generating
  // throw.
  pipeline::Schedule read() const;
  // Runs the command; an error that names no file is about the schedule, and gets the name of its file.
  int naming_file(const std::function<int()>& command) const;

 private:
  pipeline::Schedule read_file() const;
  pipeline::Schedule generate() const;
};

// Whether SENDs and RECVs are in the rows already.
bool has_transfers(const pipeline::Schedule& schedule);

// To the file, or to the terminal for "" and "-". Throws BR0010.
void write_output(const std::string& path, const std::string& text);

}  // namespace braid::cli
