// Numbers of the user errors of checking, lowering and proving pipeline schedules (docs/errors.md).
#pragma once

namespace braid::pipeline {

inline constexpr int kBadAction = 830;        // of no stage, of no micro-batch, of a wrong place
inline constexpr int kBadPlacement = 831;     // more ranks than stages, a stage of no rank
inline constexpr int kTooLarge = 832;         // stages * micro-batches do not fit
inline constexpr int kWrongRank = 833;        // of a stage that the rank does not own
inline constexpr int kTwice = 834;            // done twice
inline constexpr int kMissing = 835;          // not done
inline constexpr int kWrongOrder = 836;       // done before what it needs on the same rank
inline constexpr int kNoProgress = 837;       // ranks wait for each other
inline constexpr int kChannelMismatch = 838;  // SENDs and RECVs of a channel in different orders
inline constexpr int kRendezvousCycle = 839;  // transfers wait for each other
inline constexpr int kBadLoweringOption = 840;
inline constexpr int kBadLifetime = 841;  // activations of a row that does not make or release them

}  // namespace braid::pipeline
