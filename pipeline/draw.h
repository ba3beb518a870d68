// Simulated schedules to look at: as text, as SVG, and as a Chrome trace.
#pragma once

#include <string>

#include "pipeline/memory_timeline.h"
#include "pipeline/simulate.h"

namespace braid::pipeline {

struct DrawOptions {
  analysis::Time unit;  // what one column stands for; zero: the shortest action
  int columns = 200;    // at most; what does not fit is cut off with "..."
};

// One line per rank: F0 F1 .. B0-- ; a stage number stands before the letter where a rank has several stages,
// '-' is the same action going on, '.' an idle column.
std::string draw_text(const Schedule& schedule, const Simulation& simulation,
                      const DrawOptions& options = {});

// One self-contained picture: computation by kind (F blue, I teal, W green, B orange, OVERLAP_F_B purple),
// transfers as grey lines from rank to rank, and each rank's live bytes where there are any.
std::string draw_svg(const Schedule& schedule, const Simulation& simulation,
                     const std::vector<RankMemory>& memory);

// A process per rank: its computation, its parameters, transfers with arrows from SEND to RECV, live bytes.
std::string chrome_trace(const Schedule& schedule, const Simulation& simulation,
                         const std::vector<RankMemory>& memory);

}  // namespace braid::pipeline
