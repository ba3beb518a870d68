// Numbers of the user errors of machine descriptions, cost files, prices, measured timelines and kernel cards
// (docs/errors.md).
#pragma once

namespace braid::analysis {

inline constexpr int kMachineNotJson = 550;
inline constexpr int kBadMachine = 551;
inline constexpr int kNoUpperBound = 552;
inline constexpr int kUnknownMachine = 553;
inline constexpr int kOutsideOfMachine = 554;
inline constexpr int kBadTime = 555;
inline constexpr int kCostFileNotJson = 556;
inline constexpr int kBadCostFile = 557;
inline constexpr int kTimelineNotJson = 558;
inline constexpr int kBadTimeline = 559;
inline constexpr int kCardsNotJson = 548;
inline constexpr int kBadCards = 549;

}  // namespace braid::analysis
