// Numbers of the user errors of the schedule language and its generators (docs/errors.md).
#pragma once

namespace braid::pipeline {

inline constexpr int kBadCell = 800;          // not an action
inline constexpr int kNumberTooLarge = 801;   // a stage or micro-batch that does not fit
inline constexpr int kBadContainer = 802;     // members missing, nested, or of a wrong kind
inline constexpr int kWrongDialect = 803;     // transfers in a compute-only file, idle cells in a lowered one
inline constexpr int kStageOnTwoRanks = 804;  // rows that do not agree with one placement
inline constexpr int kMissingStage = 805;     // numbers of stages or micro-batches with gaps
inline constexpr int kBadPlacementText = 806;  // neither loop, v nor a rank for every stage
inline constexpr int kBadChannelPolicy = 807;
inline constexpr int kUnknownSchedule = 808;
inline constexpr int kScheduleSizes = 809;  // sizes that a schedule is not defined for
inline constexpr int kScheduleTooLarge = 810;

}  // namespace braid::pipeline
