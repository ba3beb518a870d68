// 1F1B (PipeDream-flush, arXiv 2104.04473): after P-r forwards, rank r alternates a backward and a forward;
// one stage per rank, at least as many micro-batches as ranks. Bubble as GPipe, but rank r keeps only P-r
// activations.
#pragma once

#include "pipeline/generators.h"

namespace braid::pipeline {

Schedule generate_1f1b(const GeneratorOptions& options);

}  // namespace braid::pipeline
