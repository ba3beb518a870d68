// Interleaved 1F1B (arXiv 2104.04473): V stages per rank, placed in a loop, taken in rounds (interleave.h).
// The bubble shrinks to (P-1)(f+b)/V, transfers grow V times.
#pragma once

#include "pipeline/generators.h"

namespace braid::pipeline {

Schedule generate_interleaved_1f1b(const GeneratorOptions& options);

}  // namespace braid::pipeline
