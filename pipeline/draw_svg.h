// Draws a simulated schedule as one self-contained SVG picture: computation by kind (F blue, I teal, W green,
// B orange, OVERLAP_F_B purple), transfers as grey lines between ranks, and each rank's live bytes if there
// are any.
#pragma once

#include <string>

#include "pipeline/memory_timeline.h"

namespace braid::pipeline {

std::string draw_svg(const PipelineSchedule& schedule, const Simulation& simulation,
                     const PerRank<RankMemory>& memory);

}  // namespace braid::pipeline
