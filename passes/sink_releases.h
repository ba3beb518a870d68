// Moves releases of collectives' memory as late as possible.
//
//   before   start a  wait a  release a  compute  start b  wait b  release b  compute
//   after    start a  wait a  compute  release a  start b  wait b  compute  release b
//
// Why: a release waits until all peers have finished with this rank's memory, so it makes ranks wait for the
// slowest one. A later release finds the slowest one finished.
//
// Contract
//   1. Only releases move, and only down, to right before the first of these: an operation that depends on
//      them (overwrites the bytes), the next start on the same communicator (which ranks enter together in
//      any case), the end of the step.
//   2. Memory is held longer. Unless `may_grow_memory` is set, the planned bytes of arena and segment must
//      not grow: if they would, everything stays as it was.
//   3. Starts and waits keep their order; releases of one communicator keep theirs.
#pragma once

#include <string_view>
#include <vector>

#include "ir/schedule.h"
#include "passes/pass.h"

namespace braid::passes {

struct SinkReleases {
  static constexpr std::string_view kName = "sink_releases";
  static constexpr std::string_view kDescription =
      "moves releases of communication memory as late as possible";

  bool may_grow_memory = false;

  static std::vector<PassOption<SinkReleases>> options() {
    return {{"may_grow_memory", &SinkReleases::may_grow_memory, "even if that needs more planned bytes"}};
  }
  bool run(ir::Schedule& schedule);
};

}  // namespace braid::passes
