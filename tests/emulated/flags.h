// Entry points of flags.cu: kernels that wait for each other's ranks, most of them wrong in one way.
#pragma once

#include "tests/emulated/faults.h"

enum class FlagFault {
  kNone,
  kNoEntryBarrier,   // peers are read before they are there
  kNoExitBarrier,    // an operand is overwritten while peers may read it
  kOtherBlocksRead,  // a block reads what another block has written, between barriers of blocks
  kFlagNotReleased,  // data is written after the flag that says that it is there
  kRankMissing,      // one rank never launches
  kOnlyASecondBlockWaits,
  kFlagOutsideOfWindow,
};
// All ranks add up what each holds, twice over, in several blocks. Null, or what a call returned; `sum` gets
// the first element. `abandon`: the host gives up after that many milliseconds instead of waiting for all.
const char* sum_by_flags(const FaultRun& run, FlagFault fault, int abandon_after_ms, float* sum);
