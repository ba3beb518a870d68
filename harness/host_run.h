// One run of a CPU program: a session per rank, on threads or in processes of its own.
#pragma once

#include <memory>

#include "harness/program.h"

namespace braid::harness {

// See Program::prepare.
std::unique_ptr<Execution> run_host(const Program& program, const RankTensors& inputs,
                                    const ExecuteOptions& options);

}  // namespace braid::harness
