// Numbers of the user errors of costs and weighted simulation of pipeline schedules (docs/errors.md).
#pragma once

namespace braid::pipeline {

inline constexpr int kCostsNotJson = 860;
inline constexpr int kBadCosts = 861;
inline constexpr int kSimulationStuck = 862;  // ranks wait for each other
inline constexpr int kTimesTooLarge = 863;

}  // namespace braid::pipeline
