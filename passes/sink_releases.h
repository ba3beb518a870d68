// Moves the release of a collective's memory as late as it may be.
//
//   before   start a  wait a  release a  compute  start b  wait b  release b  compute
//   after    start a  wait a  compute  release a  start b  wait b  compute  release b
//
// Why: a release waits until all peers have finished with this rank's memory, so it makes ranks wait for
// the slowest one. Later, the slowest one has long been finished.
//
// Contract
//   1. Only releases move, only later: to right before the first operation that depends on them (writes the
//      bytes again), or the next start on the same communicator (which ranks enter together anyway), or the
//      end of the step.
//   2. Memory is held longer. Unless `may_grow_memory`, the planned bytes of arena and segment must not
//      grow: if they do, everything stays as it was.
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
      "moves releases of communication memory as late as they may be";

  bool may_grow_memory = false;

  static std::vector<PassOption<SinkReleases>> options() {
    return {{"may_grow_memory", &SinkReleases::may_grow_memory, "even if more bytes have to be planned"}};
  }
  bool run(ir::Schedule& schedule);
};

}  // namespace braid::passes
