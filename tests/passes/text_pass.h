// Tests of passes are texts: the schedule before, the list of passes, the schedule after.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "ir/parser.h"
#include "ir/printer.h"
#include "passes/runner.h"

namespace braid::test {

inline std::string after_passes(std::string_view passes, std::string_view text) {
  ir::Schedule schedule = ir::parse_schedule(text, "test");
  passes::run_passes(schedule, passes::parse_pass_list(passes), {.check_unchanged = true});
  return ir::print(schedule);
}

inline void expect_passes(std::string_view passes, std::string_view before, std::string_view after) {
  EXPECT_EQ(after_passes(passes, before), after);
}

// What a pass must not touch; `text` is canonical.
inline void expect_unchanged(std::string_view passes, std::string_view text) {
  expect_passes(passes, text, text);
}

}  // namespace braid::test
