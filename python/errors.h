// Numbers of the Python package's user errors; docs/errors.md has a section on each.
#pragma once

namespace braid::python {

inline constexpr int kBadOption = 3;
inline constexpr int kMissingInput = 6;
inline constexpr int kRankFailed = 7;
inline constexpr int kLaunchedRanks = 11;
inline constexpr int kBadVariable = 12;
inline constexpr int kNoGpu = 13;
inline constexpr int kNotATensor = 730;
inline constexpr int kNotPassable = 731;
inline constexpr int kInUse = 732;
inline constexpr int kClosed = 733;
inline constexpr int kOnlyLaunched = 734;
inline constexpr int kWrongStream = 735;

}  // namespace braid::python
