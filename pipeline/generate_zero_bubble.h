// Interleaved zero bubble (ZB-H1 of arXiv 2401.10241 for one stage per rank): the backward is split into I,
// which other ranks wait for, and W, which fills what was a bubble. Bubble (P-1)(f+I-W)/V, every rank keeps P
// activations.
#pragma once

#include "pipeline/generators.h"

namespace braid::pipeline {

Schedule generate_interleaved_zero_bubble(const GeneratorOptions& options);

}  // namespace braid::pipeline
