// DualPipeV (the V-shaped half of DualPipe, arXiv 2412.19437): two stages per rank in a V; in the steady
// phase a forward of one stage and a backward of the other stand in one OVERLAP_F_B, so that one computes
// while the other communicates. At least 2P micro-batches; a rank keeps P + 1 activations.
#pragma once

#include "pipeline/generators.h"

namespace braid::pipeline {

Schedule generate_dualpipev(const GeneratorOptions& options);

}  // namespace braid::pipeline
