// Rows of golden cases as text, and back.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "ir/error.h"
#include "pipeline/csv.h"
#include "pipeline/schedule.h"

namespace braid::test {

using namespace braid::pipeline;

inline PipelineSchedule schedule(RankOfStage rank_of_stage, int microbatches, std::vector<std::string> rows) {
  PipelineSchedule s{std::move(rank_of_stage), {}, microbatches};
  for (const std::string& r : rows) s.rows.push_back(parse_row(r));
  return s;
}

inline std::vector<std::string> texts(const PipelineSchedule& s) {
  std::vector<std::string> out;
  for (const Row& r : s.rows) out.push_back(print(r));
  return out;
}

// The message of the user error with that number.
inline std::string refused(int code, const std::function<void()>& f) {
  try {
    f();
  } catch (const ir::UserError& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "no error, expected " << code;
  return {};
}

}  // namespace braid::test
