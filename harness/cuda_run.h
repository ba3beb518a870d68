// One run of a CUDA program, on GPUs, a rank on each, or on the emulated device. Ranks in processes of their
// own are connected by a control channel (runtime/comm/control_channel.h).
#pragma once

#include <memory>

#include "harness/program.h"

namespace braid::harness {

// See Program::prepare.
std::unique_ptr<Execution> run_cuda(const Program& program, const RankTensors& inputs,
                                    const ExecuteOptions& options);

}  // namespace braid::harness
