// Programs of lost_peer_cases.cc.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace braid::test {

// Called between the two collectives by each rank's host thread that enqueues a step, with the stream.
// Returns why the step fails, or null. If the function is empty, the step does not fail.
inline std::function<const char*(void* stream)> moment;

// One input, of f32[4 * ranks], and one output, of f32[outputs()].
struct LostPeerCase {
  std::string name, kind, algorithm;
  int ranks;

  int outputs() const {
    return kind == "all_gather" ? 4 * ranks * ranks : kind == "reduce_scatter" ? 4 : 4 * ranks;
  }
};
std::vector<LostPeerCase> lost_peer_cases();

}  // namespace braid::test
