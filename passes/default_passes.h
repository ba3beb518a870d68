// The default pass list: which passes a program goes through, in which order, and why.
#pragma once

#include <span>
#include <string_view>

#include "passes/pass.h"

namespace braid::passes {

struct PipelineStep {
  std::string_view pass;  // with options, as parse_pass_list reads it
  std::string_view why;   // why it comes at this point
};

std::span<const PipelineStep> default_pipeline();
// The default pass list, with its passes made.
std::vector<Pass> default_passes(const PassRegistry& registry = pass_registry());

void register_builtin_passes(PassRegistry& registry);

}  // namespace braid::passes
