// Runs a planned schedule on one rank without compiling it: loops as the interpreter runs them, collectives
// by a real engine, on the offsets of the plan in the engine's own segment.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/schedule.h"
#include "ir/tensor.h"
#include "runtime/comm/communicator.h"

namespace braid::test {

// Possible faults of an engine's program, on one rank only; the tests must notice.
enum class PlantedFault : std::uint8_t {
  none,
  wrong_offset,     // a collective of more than one element reads one further (around the end)
  missing_wait,     // a result is used before it is there
  missing_release,  // memory is written while peers may still read it
};

struct EngineRun {
  int steps = 1;
  std::uint64_t delays = 0;  // seed of pauses between operations, which differ from rank to rank; 0: none
  PlantedFault fault = PlantedFault::none;
  int faulty_rank = 0;
  int which = 0;  // of the collectives that this rank takes part in and the fault fits; -1: all of them
};

rt::WorldOptions world_for(const ir::Schedule& schedule);

// Throws where the engine reports an error, or the plan is not kept.
std::vector<ir::Tensor> run_on_engine(const ir::Schedule& schedule, std::span<const ir::Tensor> inputs,
                                      rt::World& world, const EngineRun& options = {});

}  // namespace braid::test
