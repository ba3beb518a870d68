// Draws a simulated schedule as text.
//
//   rank 0 | F0 F1  .  . B0---  . B1---     columns of equal time; '-' continues an action
//   rank 1 |  . F0 B0--- F1 B1---  .  .     '.' is an idle column
#pragma once

#include <string>

#include "pipeline/simulate.h"

namespace braid::pipeline {

struct DrawOptions {
  analysis::Time unit;  // width of one column; zero: the shortest action
  int columns = 200;    // at most; what does not fit is cut off with "..."
};

// One line per rank. If ranks have several stages, the stage number precedes the letter.
std::string draw_text(const PipelineSchedule& schedule, const Simulation& simulation,
                      const DrawOptions& options = {});

}  // namespace braid::pipeline
