// Kernel cards: facts about the machine code that nvcc made of a program's kernels, as
// scripts/kernel_cards.py --json writes them (docs/cuda.md).
#pragma once

#include <string>
#include <vector>

namespace braid::analysis {

// A loop that moves global bytes, of one thread and one round.
struct CardLoop {
  double instructions = 0, loads = 0, stores = 0;
  double loads_ahead = 0;  // loads under way when the first of them is used
  bool tail = false;       // it makes the rounds that another loop, which does more in a round, leaves over
};

struct KernelCard {
  std::string program, kernel;
  double instructions = 0;            // in the whole code
  double barriers = 0;                // of blocks, in the whole code
  double resident_threads = 0;        // of a multiprocessor, as registers and shared memory allow
  std::vector<CardLoop> loops;        // none inside another one
  double loads = 0, loads_ahead = 0;  // of the whole code where no loop moves bytes
};

// The file at `path`. User errors BR0548 (not JSON) and BR0549 (not cards).
std::vector<KernelCard> read_kernel_cards(const std::string& path);
std::vector<KernelCard> parse_kernel_cards(const std::string& text, const std::string& file);

}  // namespace braid::analysis
