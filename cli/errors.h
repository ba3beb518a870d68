// Numbers of the command line's user errors; docs/errors.md has a section on each.
#pragma once

namespace braid::cli {

inline constexpr int kBadOption = 3;
inline constexpr int kNoInputFile = 4;
inline constexpr int kBadNpy = 5;
inline constexpr int kMissingInput = 6;
inline constexpr int kRankFailed = 7;
inline constexpr int kNoTestCase = 9;
inline constexpr int kCannotWrite = 10;
inline constexpr int kLaunchedRanks = 11;
inline constexpr int kBadVariable = 12;
inline constexpr int kNoGpu = 13;
inline constexpr int kNotUnderstood = 14;
inline constexpr int kNoArchives = 17;
inline constexpr int kNoReference = 18;
inline constexpr int kNoMemory = 19;

}  // namespace braid::cli
