// Draws simulated schedules as text, as SVG and as a Chrome trace.
#pragma once

#include <string>

#include "pipeline/memory_timeline.h"
#include "pipeline/simulate.h"

namespace braid::pipeline {

struct DrawOptions {
  analysis::Time unit;  // width of one column; zero: the shortest action
  int columns = 200;    // at most; what does not fit is cut off with "..."
};

// One line per rank: F0 F1 .. B0-- ; if ranks have several stages, the stage number precedes the letter; '-'
// continues the action, '.' is an idle column.
std::string draw_text(const Schedule& schedule, const Simulation& simulation,
                      const DrawOptions& options = {});

// One self-contained picture: computation by kind (F blue, I teal, W green, B orange, OVERLAP_F_B purple),
// transfers as grey lines between ranks, and each rank's live bytes if there are any.
std::string draw_svg(const Schedule& schedule, const Simulation& simulation,
                     const std::vector<RankMemory>& memory);

// One process per rank with its computation, parameters, transfers (arrows from SEND to RECV) and live bytes.
std::string chrome_trace(const Schedule& schedule, const Simulation& simulation,
                         const std::vector<RankMemory>& memory);

}  // namespace braid::pipeline
