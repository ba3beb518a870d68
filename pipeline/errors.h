// Numbers of the user errors of pipeline schedules (docs/errors.md).
#pragma once

namespace braid::pipeline {

// The schedule language and the published schedules.
inline constexpr int kBadCell = 800;          // not an action
inline constexpr int kNumberTooLarge = 801;   // a stage or micro-batch that does not fit
inline constexpr int kBadContainer = 802;     // members that are missing, nested or of a wrong kind
inline constexpr int kWrongDialect = 803;     // transfers in a compute-only file, idle cells in a lowered one
inline constexpr int kStageOnTwoRanks = 804;  // rows that imply no single placement
inline constexpr int kMissingStage = 805;     // gaps in the numbers of stages or micro-batches
inline constexpr int kBadPlacementText = 806;  // neither loop, nor v, nor a rank for every stage
inline constexpr int kBadChannelPolicy = 807;
inline constexpr int kUnknownSchedule = 808;
inline constexpr int kScheduleSizes = 809;  // sizes for which a schedule is not defined
inline constexpr int kScheduleTooLarge = 810;
inline constexpr int kNoActions = 811;  // a file without a single action

// Checking, lowering and proving.
inline constexpr int kBadAction = 830;        // unknown stage or micro-batch, or a wrong place
inline constexpr int kBadPlacement = 831;     // more ranks than stages, or a stage without a rank
inline constexpr int kTooLarge = 832;         // stages * micro-batches out of range
inline constexpr int kWrongRank = 833;        // a stage that the rank does not own
inline constexpr int kTwice = 834;            // done twice
inline constexpr int kMissing = 835;          // not done
inline constexpr int kWrongOrder = 836;       // done before what it needs on the same rank
inline constexpr int kNoProgress = 837;       // ranks wait for each other
inline constexpr int kChannelMismatch = 838;  // SENDs and RECVs of a channel in different orders
inline constexpr int kRendezvousCycle = 839;  // transfers wait for each other
inline constexpr int kBadLoweringOption = 840;
inline constexpr int kBadLifetime = 841;  // a row that does not make or release its activations

// Costs and weighted simulation.
inline constexpr int kCostsNotJson = 860;
inline constexpr int kBadCosts = 861;
inline constexpr int kSimulationStuck = 862;  // ranks wait for each other
inline constexpr int kTimesTooLarge = 863;

}  // namespace braid::pipeline
