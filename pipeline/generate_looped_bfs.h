// Looped breadth-first schedule (arXiv 2211.05953): stages in a loop, every stage takes all micro-batches
// before the next one of its rank begins. Bubble (P-1)(f+b)/V; a rank keeps the activations of all
// micro-batches.
#pragma once

#include "pipeline/generators.h"

namespace braid::pipeline {

Schedule generate_looped_bfs(const GeneratorOptions& options);

}  // namespace braid::pipeline
