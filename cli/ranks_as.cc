#include "cli/ranks_as.h"

#include <CLI/CLI.hpp>

namespace braid::cli {

void add_ranks_as(CLI::App& command, RanksAs& choice) {
  CLI::Option* threads = command.add_flag_callback(
      "--ranks-as-threads", [&choice] { choice = RanksAs::threads; },
      "Run ranks as threads of one process (default on the emulated device: races between ranks are found)");
  command
      .add_flag_callback(
          "--ranks-as-processes", [&choice] { choice = RanksAs::processes; },
          "Run each rank as a process (default, except on the emulated device)")
      ->excludes(threads);
}

}  // namespace braid::cli
