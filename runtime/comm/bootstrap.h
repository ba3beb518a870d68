// Where ranks come from: launchers that set environment variables, or this process itself.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "runtime/comm/communicator.h"
#include "runtime/comm/shm_world.h"

namespace braid::rt {

// What each rank runs. Returns 0 on success, like main.
using RankFunction = std::function<int(World&)>;

struct LaunchOptions {
  WorldOptions world;
  std::optional<LinkPacing> pacing;  // ranks talk over a paced link
};

// Runs n ranks as threads of this process; returns when all have returned. The error names the first rank
// that returned non-zero. A rank that fails aborts the others' World.
Status launch_threads(int n, const LaunchOptions& options, const RankFunction& function);

}  // namespace braid::rt
