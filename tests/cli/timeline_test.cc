// braid run --trace, --trace-costs, --link, and braid explain --compare.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/cli/braid_process.h"

namespace braid::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

// Two sums that the input order waits for at once; the products in between could hide them.
constexpr const char* kProgram = R"(graph hideable
ranks 2
channels communicator
group @g = [0, 1]

input %x: f32[64, 64]

%a: f32[64, 64] = gemm %x, %x
%r: f32[64, 64] = all_reduce sum @g (%a)
%r.1 mutates %r = wait r as r.wait
%b: f32[64, 64] = gemm %x, %x
%q: f32[64, 64] = all_reduce sum @g (%b)
%q.1 mutates %q = wait q as q.wait
%c: f32[64, 64] = gemm %r.1, %q.1

output %c
)";

constexpr const char* kInOrder = "dead_code,plan_memory";
constexpr const char* kScheduled = "dead_code,schedule_for_comm,plan_memory";

Json run_traced(const Folder& folder, const std::string& program, const char* passes,
                const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {"run",     program,           "--random", "1",     "--passes", passes,
                                        "--trace", folder / "t.json", "--link",   "2ms,1", "--repeat", "3"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const ProcessResult result = braid(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return Json::parse(read_text(folder / "t.json"));
}

std::vector<std::string> names(const Json& trace) {
  std::vector<std::string> out;
  for (const Json& n : trace["braid"]["nodes"]) out.push_back(n["name"]);
  return out;
}

std::int64_t slept(const Json& trace, std::size_t rank) {
  std::int64_t sum = 0;
  for (const Json& n : trace["braid"]["ranks"][rank]) sum += n[2].get<std::int64_t>();
  return sum;
}

TEST(Timeline, TheOrderThatThePassesChoseIsTheOneThatRuns) {
  const Folder folder;
  const std::string program = folder.file("hideable.braid", kProgram);
  EXPECT_THAT(names(run_traced(folder, program, kInOrder)),
              ::testing::ElementsAre("a", "r", "r.wait", "b", "q", "q.wait", "c"));
  EXPECT_THAT(names(run_traced(folder, program, kScheduled)),
              ::testing::ElementsAre("a", "r", "b", "q", "r.wait", "q.wait", "c"));
}

TEST(Timeline, WaitsOverALinkSleepUntilItDeliversAndOverlappedOnesLess) {
  const Folder folder;
  const std::string program = folder.file("hideable.braid", kProgram);
  const Json before = run_traced(folder, program, kInOrder);
  const Json both = run_traced(folder, program, "dead_code,schedule_for_comm,plan_memory");
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const std::int64_t serial = slept(before, rank), overlapped = slept(both, rank);
    EXPECT_GT(serial,
              2'000'000);  // two transfers of 2 ms, less what a late rank has already waited for the other
    EXPECT_GT(overlapped, 0);
  }
  EXPECT_EQ(before["braid"]["link"], "2000 us, 1 GB/s");
}

TEST(Timeline, IsAChromeTraceOfEveryRank) {
  const Folder folder;
  const Json trace = run_traced(folder, folder.file("hideable.braid", kProgram), kInOrder);
  std::vector<std::string> processes;
  int kernels = 0, collectives = 0;
  for (const Json& e : trace["traceEvents"]) {
    if (e["name"] == "process_name") processes.push_back(e["args"]["name"]);
    if (e["ph"] == "X") (e["cat"] == "collective" ? collectives : kernels) += 1;
  }
  EXPECT_THAT(processes, ::testing::ElementsAre("rank 0", "rank 1"));
  EXPECT_EQ(collectives, 4);
  EXPECT_GE(kernels, 6);
}

TEST(Timeline, RanksAsThreadsAreRecordedToo) {
  const Folder folder;
  const Json trace =
      run_traced(folder, folder.file("hideable.braid", kProgram), kInOrder, {"--ranks-as-threads"});
  EXPECT_EQ(trace["braid"]["ranks"].size(), 2u);
}

TEST(Timeline, FusedNodesAndAProgramOfOneRankHaveTheirTimes) {
  const Folder folder;
  const std::string program = folder.file("one.braid", R"(graph one
input %x: f32[64]
%y: f32[64] = pointwise { %0 = load %x %1 = exp %0 store %1 }
%z: f32[64] = pointwise { %0 = load %y %1 = add %0, %0 store %1 }
output %z
)");
  const ProcessResult result = braid(
      {"run", program, "--random", "1", "--trace", folder / "t.json", "--trace-costs", folder / "c.json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json trace = Json::parse(read_text(folder / "t.json"));
  EXPECT_EQ(trace["braid"]["nodes"].size(), 1u);
  EXPECT_EQ(trace["braid"]["steps"], 15);
  EXPECT_EQ(Json::parse(read_text(folder / "c.json"))["ns"].size(), 1u);
}

TEST(Timeline, MeasuredCostsAreReadBackAndComparisonKnowsTheOrder) {
  const Folder folder;
  const std::string program = folder.file("hideable.braid", kProgram), costs = folder / "costs.json";
  run_traced(folder, program, kInOrder, {"--trace-costs", costs});
  const Json ns = Json::parse(read_text(costs))["ns"];
  for (const char* name : {"a", "b", "c", "r.issue", "r.wait"}) EXPECT_TRUE(ns.contains(name)) << name;
  EXPECT_FALSE(ns.contains("r"));
  const auto compare = [&](const char* passes) {
    const ProcessResult result = braid({"explain", program, "--passes", passes, "--link", "2ms,1", "--costs",
                                        costs, "--compare", folder / "t.json", "--html", folder / "p.html"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  };
  const std::string same = compare(kInOrder), other = compare(kScheduled);
  EXPECT_THAT(same, HasSubstr("Measured beside simulated: program hideable, 2 ranks, link 2000 us, 1 GB/s"));
  EXPECT_THAT(same, Not(HasSubstr("another order")));
  EXPECT_THAT(other, HasSubstr("in another order"));
  EXPECT_THAT(read_text(folder / "p.html"), HasSubstr("measured, rank 1"));
}

TEST(Timeline, WhatIsNoTimelineIsRefused) {
  const Folder folder;
  const std::string program = folder.file("hideable.braid", kProgram);
  const auto error = [&](const std::string& file, int exit_code) {
    const ProcessResult result = braid({"explain", program, "--compare", file});
    EXPECT_EQ(result.exit_code, exit_code);
    return result.err;
  };
  EXPECT_THAT(error(folder / "none.json", 5), HasSubstr("BR0001"));
  EXPECT_THAT(error(folder.file("bad.json", "{]"), 3), HasSubstr("BR0558"));
  EXPECT_THAT(error(folder.file("other.json", R"({"traceEvents": []})"), 3), HasSubstr("BR0559"));
}

TEST(Timeline, LinksThatCannotBeReadAreRefused) {
  const Folder folder;
  const std::string program = folder.file("hideable.braid", kProgram);
  for (const char* link : {"fast", "1us", "1us,0", "1us,-1", "1s,1", "-1us,1", "1us,1GB", ",1", "1us,nan"}) {
    const ProcessResult result = braid({"explain", program, "--link", link});
    EXPECT_EQ(result.exit_code, 2) << link;
    EXPECT_THAT(result.err, HasSubstr("BR0003")) << link;
  }
  for (const char* link : {"1,1", "10us,0.5GB/s", "1ms,2", "500ns,1"})
    EXPECT_EQ(braid({"explain", program, "--link", link}).exit_code, 0) << link;
}

}  // namespace
}  // namespace braid::test
