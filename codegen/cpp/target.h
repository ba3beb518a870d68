// C++ source for the host's processor, with a library of its own for each program.
#pragma once

#include "codegen/target.h"

namespace braid::codegen::cpp {

KernelLimits kernel_limits();
Target target();

}  // namespace braid::codegen::cpp
