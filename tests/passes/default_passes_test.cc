#include "passes/default_passes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

namespace braid::passes {
namespace {

Pass named(const std::string& name) {
  return {name, [](ir::Schedule&) { return false; }};
}

PassListOptions everything(std::optional<std::string> given) {
  return {.given = std::move(given),
          .force_kernels = {{{"*", "one_shot"}}},
          .precision = LowerPrecision{},
          .first = {named("target_first")},
          .after_layouts = {named("align_weights"), named("pad_results")},
          .legalise = named("legalise")};
}

std::string list_of(const PassListOptions& options) {
  std::vector<std::string> names;
  for (const Pass& pass : pass_list(options)) names.push_back(pass.name());
  return fmt::format("{}", fmt::join(names, " "));
}

TEST(PassList, TheDefaultListHasAllStepsWhoseConditionHolds) {
  EXPECT_EQ(
      list_of(everything({})),
      "force_kernels target_first dead_code lower_precision integer_products forward_copies forward_parts "
      "choose_layouts align_weights pad_results hoist_invariants fuse_epilogues fuse_vertical "
      "fuse_horizontal byte_tables name_post_ops flush_subnormals raise_outputs merge_loops legalise "
      "fuse_vertical "
      "drop_roundings legalise braid_schedule select_kernels sink_releases plan_memory");
  EXPECT_EQ(list_of({}),
            "dead_code integer_products forward_copies forward_parts choose_layouts hoist_invariants "
            "fuse_epilogues fuse_vertical fuse_horizontal byte_tables name_post_ops flush_subnormals "
            "raise_outputs merge_loops "
            "braid_schedule select_kernels sink_releases plan_memory");
}

TEST(PassList, AGivenListHasWhatUserAndTargetNeed) {
  EXPECT_EQ(list_of(everything("")), "force_kernels target_first align_weights pad_results lower_precision");
  EXPECT_EQ(list_of(everything("dead_code,choose_layouts,pad_results,fuse_vertical,sink_waits,plan_memory")),
            "force_kernels target_first dead_code lower_precision choose_layouts align_weights pad_results "
            "fuse_vertical legalise sink_waits plan_memory");
  EXPECT_EQ(list_of(everything("choose_layouts,dead_code,plan_memory,merge_loops")),
            "force_kernels target_first legalise lower_precision choose_layouts align_weights pad_results "
            "dead_code plan_memory merge_loops");
}

}  // namespace
}  // namespace braid::passes
