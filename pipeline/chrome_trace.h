// Writes a simulated schedule as a Chrome trace: one process per rank with its computation, parameters,
// transfers (arrows from SEND to RECV) and live bytes.
#pragma once

#include <string>

#include "pipeline/memory_timeline.h"

namespace braid::pipeline {

std::string chrome_trace(const PipelineSchedule& schedule, const Simulation& simulation,
                         const PerRank<RankMemory>& memory);

}  // namespace braid::pipeline
