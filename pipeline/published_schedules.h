// The published schedules, one file each (generate_NAME.cc); generators.h has them by name.
#pragma once

#include "pipeline/generators.h"

namespace braid::pipeline {

// 1F1B (PipeDream-flush, arXiv 2104.04473): after P-r forwards, rank r alternates backward and forward; one
// stage per rank, at least as many micro-batches as ranks. The bubble is that of GPipe, but rank r keeps only
// P-r activations.
PipelineSchedule generate_1f1b(const GeneratorOptions& options);

// DualPipeV (the V-shaped half of DualPipe, arXiv 2412.19437): two stages per rank in a V; in the steady
// phase a forward of one stage and a backward of the other form one OVERLAP_F_B, so that one computes while
// the other communicates. It needs at least 2P micro-batches; a rank keeps P + 1 activations.
PipelineSchedule generate_dualpipev(const GeneratorOptions& options);

// GPipe (arXiv 1811.06965): all forwards, then all backwards; one stage per rank. The bubble is (P-1)(f+b);
// every rank keeps the activations of all micro-batches.
PipelineSchedule generate_gpipe(const GeneratorOptions& options);

// Forward only: one stage per rank, or several placed in a loop and taken in rounds (interleave.h).
PipelineSchedule generate_inference(const GeneratorOptions& options);
PipelineSchedule generate_interleaved_inference(const GeneratorOptions& options);

// Interleaved 1F1B (arXiv 2104.04473): V stages per rank, placed in a loop, taken in rounds (interleave.h).
// The bubble shrinks to (P-1)(f+b)/V, and there are V times as many transfers.
PipelineSchedule generate_interleaved_1f1b(const GeneratorOptions& options);

// Looped breadth-first schedule (arXiv 2211.05953): stages are placed in a loop, and each processes all
// micro-batches before the next one of its rank begins. The bubble is (P-1)(f+b)/V; a rank keeps the
// activations of all micro-batches.
PipelineSchedule generate_looped_bfs(const GeneratorOptions& options);

// ZBV (arXiv 2401.10241, section 6): two stages per rank placed in a V, with I and W separate. With f = I = W
// no rank is idle between its first and its last action, and all ranks keep P activations.
PipelineSchedule generate_zbv(const GeneratorOptions& options);

// Interleaved zero bubble (ZB-H1 of arXiv 2401.10241 for one stage per rank): the backward is split into I,
// for which other ranks wait, and W, which fills the bubble. The bubble is (P-1)(f+I-W)/V; every rank keeps P
// activations.
PipelineSchedule generate_interleaved_zero_bubble(const GeneratorOptions& options);

}  // namespace braid::pipeline
