// A request for a split, before a model is read: contradictions, and the annotations that are obeyed.
#pragma once

#include <memory>

#include "driver/compile_options.h"
#include "frontend/sharding/configuration.h"

namespace braid {

// Throws BR0484 if the options contradict each other, or name sizes that the dimensions of a model do not
// have; BR0494 if SplitOptions::with names no other plain model; kStages and kCannotSplit for models that
// cannot be split.
void check_split_request(const CompileOptions& options);
// Returns the configuration that is asked for, or the model's own if it says anything of its nodes; null if
// there is none. BR0484 if it is for another number of devices.
std::shared_ptr<const frontend::sharding::DeviceConfiguration> obeyed_annotations(
    const CompileOptions& options);

}  // namespace braid
