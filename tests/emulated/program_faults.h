// Programs of program_faults.cu: host code with streams, memory and ranks, most of it wrong in one way.
#pragma once

#include <vector>

#include "tests/emulated/faults.h"

struct ProgramFault {
  const char* name;
  int ranks;
  // Null, or what a call returned.
  const char* (*run)(const FaultRun& run);
  // The kind of one of the findings, or null if there is nothing to find, and what its text says.
  const char* kind;
  const char* text;
};

const std::vector<ProgramFault>& program_faults();
