// Index types of the tables of a pipeline schedule.
//
// Ranks, stages and micro-batches are calculated with (stage + 1, ranks - 1 - rank), so they are plain
// numbers. A number that only names an entry of a table is an id; a default-constructed one names none.
#pragma once

#include "ir/id_vector.h"

namespace braid::pipeline {

using ir::count_of;
using ir::first_ids;
using ir::IdRange;
using ir::IdSpan;
using ir::IdVector;

template <class T>
using PerRank = IdVector<int, T>;
template <class T>
using PerStage = IdVector<int, T>;
using RankOfStage = PerStage<int>;

using StageMicrobatch = ir::Id<struct StageMicrobatchTag>;  // the work of one stage on one micro-batch
using MessageId = ir::Id<struct MessageTag>;                // a SEND and its RECV
using QueueId = ir::Id<struct QueueTag>;                    // ChannelLayout
using TransferId = ir::Id<struct TransferTag>;              // TransferQueues::transfers()
using ConnectionId = ir::Id<struct ConnectionTag>;          // ChannelLayout

}  // namespace braid::pipeline
