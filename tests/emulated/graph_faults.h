// Entry points of graph_faults.cu: a step that is captured and replayed, most of them wrong in one way.
#pragma once

#include "tests/emulated/faults.h"

enum class GraphFault {
  kNone,
  // While capturing.
  kNoJoin,
  kStreamSynchronize,
  kDeviceSynchronize,
  kStreamQuery,
  kEventSynchronize,
  kMalloc,
  kMallocWhereRelaxed,  // right
  kMemcpy,
  kPageableCopy,
  kLegacyStream,  // while a blocking stream is captured
  kEventFromOutside,
  kEventOfAnotherCapture,
  kEndOnAnotherStream,
  kSplit,
  kWindow,
  // Replays.
  kNoEventBetweenStreams,  // the two captured streams race
  kNoEventAfterLaunch,     // the result is used on another stream
  kCapturedEventOutside,   // waits for an event that only the capture recorded
  kInputFreed,             // before the last replay
  kInputReplaced,          // freed, and a new one allocated: the graph has the old address
  kInputUpdated,           // the same with cudaGraphExecUpdate: right
  kUpdateOfAnotherShape,
  kLaunchAfterDestroy,
  // With a collective.
  kOneRankEager,
  kCommunicatorDestroyedFirst,  // the last two: the communicator is gone at the end
  kCommunicatorAbortedFirst,
};
// Null, or the name of the first error. `sum` gets the sum of the output after two replays.
const char* run_graph(const FaultRun& run, GraphFault fault, float* sum);
