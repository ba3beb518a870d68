// Changes of a schedule that must not change what it computes: what passes are held against.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "ir/schedule.h"

namespace braid::test {

// A random order that keeps all dependencies: what any reordering pass may do.
bool shuffle_nodes(ir::Schedule& schedule, std::uint64_t seed);

// Each fused node point by point of its outer space, in random order of points: the definition in
// ir/fused_loops.h. The result is for the interpreter only (one buffer is written by many operations).
void unroll_fused(ir::Schedule& schedule, const std::map<std::string, std::int64_t>& dims,
                  std::uint64_t seed);

}  // namespace braid::test
