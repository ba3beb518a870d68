// The default pipeline: which passes a program goes through, in which order, and why.
#pragma once

#include <span>
#include <string_view>

#include "passes/pass.h"

namespace braid::passes {

struct PipelineStep {
  std::string_view pass;  // with options, as parse_pass_list reads it
  std::string_view why;   // why it stands where it stands
};

std::span<const PipelineStep> default_pipeline();
// The default pipeline as passes.
std::vector<Pass> default_passes(const PassRegistry& registry = pass_registry());

void register_builtin_passes(PassRegistry& registry);

}  // namespace braid::passes
