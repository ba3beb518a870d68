#include "analysis/costs/cost_file.h"

#include <gtest/gtest.h>

#include "ir/error.h"

namespace braid::analysis {
namespace {

void expect_file_refused(const std::string& text, int code, const std::string& what) {
  try {
    parse_cost_file(text, "c.json");
    ADD_FAILURE() << "accepted: " << text;
  } catch (const ir::UserError& e) {
    EXPECT_EQ(e.code(), code);
    EXPECT_NE(std::string(e.what()).find(what), std::string::npos) << e.what();
  }
}

TEST(CostFile, ReadsWhatItWrites) {
  const CostEntries entries = {{"a", 0}, {"layer0/qkv.\"x\"~", 1234.5}, {"z", 1e9 / 3}};
  EXPECT_EQ(parse_cost_file(write_cost_file(entries), "c.json"), entries);
}

TEST(CostFile, WhatIsNoJsonIsBR0556WithLineAndColumn) {
  expect_file_refused("{\"version\": 1,\n\"ns\": {\"a\": 1,}}", 556, "c.json:2");
  expect_file_refused("{\"version\": 1, \"ns\": {\"a\": 1, \"a\": 2}}", 556,
                      "c.json:1:36: the same key twice");
}

TEST(CostFile, WhatIsNoCostFileIsBR0557WithLineAndColumn) {
  expect_file_refused("{\"ns\": {}}", 557, "'/version' is missing");
  expect_file_refused("{\"version\": 1,\n \"ns\": {\"a\": 1,\n  \"b\": -1}}", 557,
                      "c.json:3:8: '/ns/b' is -1");
  expect_file_refused("{\"version\": 1, \"ns\": {\"a\": \"1\"}}", 557, "'/ns/a' is not a number");
  expect_file_refused("{\"version\": 1, \"ns\": {}, \"us\": {}}", 557, "'/us' is not known");
}

TEST(CostFile, NamesWithSlashesAreNamesLikeOthers) {
  EXPECT_EQ(parse_cost_file(R"({"version": 1, "ns": {"a": 1, "a/b": 2, "a~1b": 3}})", "c.json").size(), 3u);
  expect_file_refused("{\"version\": 1, \"ns\": {\"a\": 1, \"a/b\": true}}", 557, "c.json:1:38");
}

TEST(CostFile, AByteOrderMarkIsNoPartOfTheText) {
  EXPECT_EQ(parse_cost_file("\xEF\xBB\xBF{\"version\": 1, \"ns\": {}}", "c.json").size(), 0u);
  expect_file_refused("\xEF\xBB\xBF{\"version\": 1, \"ns\": 3}", 557, "c.json:1:22");
}

TEST(CostFile, AFileThatIsNotThereIsBR0001) {
  try {
    read_cost_file("/nowhere/c.json");
    FAIL();
  } catch (const ir::UserError& e) {
    EXPECT_EQ(e.code(), 1);
  }
}

}  // namespace
}  // namespace braid::analysis
