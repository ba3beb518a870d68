// The kind of the ranks that braid itself starts: processes or threads.
#pragma once

namespace CLI {
class App;
}  // namespace CLI

namespace braid::cli {

// automatic: processes; but threads on the emulated device, where races between ranks are then found.
enum class RanksAs { automatic, processes, threads };

// --ranks-as-threads and --ranks-as-processes
void add_ranks_as(CLI::App& command, RanksAs& choice);

}  // namespace braid::cli
