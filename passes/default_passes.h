// The pass list: which passes a program goes through, in which order, when, and why. It is one table, also
// for passes that join a list which the user gives.
#pragma once

#include <optional>
#include <string>
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

// The steps that are there always, with their passes made.
std::vector<Pass> default_passes(const PassRegistry& registry = pass_registry());
// The list of a compilation. User errors of parse_pass_list.
std::vector<Pass> pass_list(const PassListOptions& options, const PassRegistry& registry = pass_registry());

void register_builtin_passes(PassRegistry& registry);

}  // namespace braid::passes
