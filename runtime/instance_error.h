// Thrown while an instance is set up, prepared or run; never leaves the library.
#pragma once

#include <string>

#include "runtime/program_abi.h"

namespace braid::rt {

struct InstanceError {
  BraidStatus status;
  std::string message;
};

}  // namespace braid::rt
