// A program of four steps written by hand, most of the time wrong in one way: planned.cu.
#pragma once

enum class PlanFault {
  kNone,
  kInPlace,  // right: the last step but one works in place
  kPastBuffer,
  kOtherBuffer,
  kConstant,
  kInput,
  kLargerOutput,
  kAtomicElsewhere,
  kDeadBuffer,
  kPartlyWritten,
  kPreviousRun,
  kInPlaceTooShort,
  kUnorderedBirth,
  kUnorderedEnd,
  kBornInLivingBuffer,
  kOutsideItsLife,
  kMoreThanPlanned,
};
// Null, or what a call returned.
const char* run_planned(PlanFault fault);
