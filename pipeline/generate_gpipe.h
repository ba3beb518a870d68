// GPipe (arXiv 1811.06965): all forwards, then all backwards; one stage per rank. Bubble (P-1)(f+b), every
// rank keeps the activations of all micro-batches.
#pragma once

#include "pipeline/generators.h"

namespace braid::pipeline {

Schedule generate_gpipe(const GeneratorOptions& options);

}  // namespace braid::pipeline
