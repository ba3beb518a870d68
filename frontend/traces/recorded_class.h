// The class of a kernel that was recorded: its name is all that a trace tells of it.
#pragma once

#include <optional>
#include <string_view>

#include "ir/kernel_class.h"

namespace braid::frontend {

// By the first of these words in the name (docs/scheduling.md lists them); nullopt if it has none.
std::optional<ir::KernelClass> recorded_class(std::string_view name);

}  // namespace braid::frontend
