// ZBV (arXiv 2401.10241, section 6): two stages per rank, placed in a V, I and W apart. With f = I = W no
// rank is idle between its first and its last action, and all ranks keep P activations.
#pragma once

#include "pipeline/generators.h"

namespace braid::pipeline {

Schedule generate_zbv(const GeneratorOptions& options);

}  // namespace braid::pipeline
