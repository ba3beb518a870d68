// The pass list: which passes a program goes through, in which order, when, and why. It is one table, also
// for passes that join a list which the user gives.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "passes/force_kernels.h"
#include "passes/lower_precision.h"
#include "passes/pass.h"

namespace braid::passes {

// The passes that not every program goes through, with their options.
struct PassListOptions {
  std::optional<std::string> given;                  // a list of the user's instead of the default one
  ForceKernels force_kernels = {};                   // kernels that the user chose
  std::optional<LowerPrecision> precision = {};      // a narrower type that the user asked for
  std::vector<Pass> first = {}, after_layouts = {};  // the target's own (codegen/target.h)
  std::optional<Pass> legalise = {};                 // for the target's kernels; absent: for no target
};

// The condition under which a step is in the list. The name of a step stands for the passes of
// PassListOptions if its condition is a member of that name.
enum class When : std::uint8_t {
  always,
  forced_kernels,
  precision,
  first,
  after_layouts,
  legalise,
  for_target,  // with a legalisation
};
// The place of a step in a list that the user gives.
enum class InGiven : std::uint8_t {
  absent,  // only if the user names it
  before_all,
  after_dead_code,  // if that is the first one; else at the front
  after_layouts,    // after choose_layouts; without it at the front. Not if the user names the pass
  after_fusion,     // after the last pass that makes or changes kernels, if memory is planned afterwards
};

struct PipelineStep {
  std::string_view pass;  // with options, as parse_pass_list reads it
  When when;
  InGiven in_given;
  std::string_view why;  // why it comes at this point
};

std::span<const PipelineStep> default_pipeline();
// The steps that are there always, with their passes made.
std::vector<Pass> default_passes(const PassRegistry& registry = pass_registry());
// The list of a compilation. User errors of parse_pass_list.
std::vector<Pass> pass_list(const PassListOptions& options, const PassRegistry& registry = pass_registry());

void register_builtin_passes(PassRegistry& registry);

}  // namespace braid::passes
