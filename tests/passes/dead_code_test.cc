#include "passes/dead_code.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/build.h"

namespace braid::passes {
namespace {

using namespace ir;
using test::Builder;
using ::testing::ElementsAre;

std::vector<std::string> names(const Schedule& s) {
  std::vector<std::string> out;
  for (OpId op : execution_order(s)) out.push_back(s.graph[op].name);
  return out;
}

TEST(DeadCode, TheGraphLosesWhatTheScheduleLost) {
  Builder b;
  const BufferId x = b.input("x", {8}), p = b.activation("p", {8}), q = b.activation("q", {8});
  b.add("used", p, {x});
  b.add("dead", q, {p});
  b.add("last", b.result("y", {8}), {p});
  EXPECT_TRUE(DeadCode{}.run(b.schedule));
  EXPECT_EQ(b.graph.ops.size(), 2u);
  EXPECT_EQ(b.graph.buffers.size(), 3u);
  EXPECT_EQ(b.graph.storages.size(), 3u);
}

// No text has two writers of one version.
TEST(DeadCode, OverwrittenVersionThatNobodyReadIsDead) {
  Builder b;
  const BufferId x = b.input("x", {8}), p = b.activation("p", {8});
  b.add("first", p, {x});
  ExternKernel fill;
  fill.callee = "fill";
  fill.writes = {whole(b.graph, p)};  // writes all of it, not a new version of it
  b.emit({"second", fill, {p}, {}, {}});
  b.add("last", b.result("y", {8}), {p});
  EXPECT_TRUE(DeadCode{}.run(b.schedule));
  EXPECT_THAT(names(b.schedule), ElementsAre("second", "last"));
}

}  // namespace
}  // namespace braid::passes
