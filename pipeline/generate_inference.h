// Forward only: one stage per rank, or several in a loop that are taken in rounds (interleave.h).
#pragma once

#include "pipeline/generators.h"

namespace braid::pipeline {

Schedule generate_inference(const GeneratorOptions& options);
Schedule generate_interleaved_inference(const GeneratorOptions& options);

}  // namespace braid::pipeline
