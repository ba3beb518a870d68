// Time per kernel, and what it reached of the machine's roof.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/execute.h"
#include "cli/report.h"
#include "ir/schedule.h"

namespace braid::cli {

// Prints the nodes of the slowest rank, the slowest first, from what execute() recorded. `schedule` is null for a
// compiled program, whose kernels' operations and bytes are not known: then there are only times.
void tell_profile(const ProgramFiles& program, const std::vector<RankResult>& results,
                  const ir::Schedule* schedule, const std::map<std::string, std::int64_t>& dims, int threads,
                  Report& report);

}  // namespace braid::cli
