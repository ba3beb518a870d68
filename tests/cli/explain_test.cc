// braid explain: what it says about communication, as text, JSON, Chrome trace and HTML.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/braid_process.h"

namespace braid::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The reduction can run beside `filler`, which the input order puts after its wait.
constexpr const char* kHideable = R"(graph hideable
ranks 2
group @g = [0, 1]

input %x: f32[64]

%a: f32[64] = extern "first" reads(%x) cost(ns 1000)
%r: f32[64] = all_reduce sum @g (%a) cost(ns 2000)
%r.1 mutates %r = wait r as r.wait
%use: f32[64] = extern "use" reads(%r.1) cost(ns 500)
%filler: f32[64] = extern "filler" reads(%x) cost(ns 3000)

output %use
output %filler
)";

TEST(Explain, NamesProductsThatTheMatrixLibraryDoesNotTake) {
  const Folder folder;
  const std::string text = folder.file("products.braid", R"(graph products
input %x: f64[2, 3]  input %y: i8[2, 3]  input %z: f32[2, 3]  input %s: f32[4, 6]
%a: f64[2, 2] output = gemm %x, transpose(%x) from "doubles"
%b: i32[2, 2] output = gemm %y, transpose(%y) from "bytes"
%c: f32[2, 2] output = gemm %z, transpose(%z) from "floats"
%d: f32[2, 2] output = gemm %s [2, 3] strides [12, 2], transpose(%z) from "apart"
output %a  output %b  output %c  output %d
)");
  const ProcessResult cuda = braid({"explain", text, "--target", "cuda"});
  ASSERT_EQ(cuda.exit_code, 0) << cuda.err;
  EXPECT_THAT(cuda.out, HasSubstr("Products that the matrix library does not take\n"
                                  "  a: it has no product of f64 and f64 to f64   <- doubles\n"
                                  "  b: it has no product of i8 and i8 to i32   <- bytes\n"
                                  "  d: its left operand is no matrix with a leading dimension, and a copy "
                                  "costs more   <- apart\n"));
  EXPECT_THAT(cuda.out, Not(HasSubstr("<- floats")));
  const ProcessResult json = braid({"explain", text, "--target", "cuda", "--json"});
  ASSERT_EQ(json.exit_code, 0) << json.err;
  EXPECT_EQ(nlohmann::json::parse(json.out)["simple_products"].size(), 3u);
  EXPECT_THAT(braid({"explain", text}).out, Not(HasSubstr("matrix library")));
}

TEST(Explain, NamesLoopsThatVisitTheirDataAgainAndAgain) {
  const Folder folder;
  const std::string text = folder.file("prefix.braid", R"(graph prefix
input %x: f32[2000]  input %z: f32[2000, 50]
%all: f32[2000] = reduction sum over [2000] from "prefix" { %0 = load %x[min(i0, i1)] store %0 }
%once: f32[2000] = reduction sum over [50] from "sum" { %0 = load %z store %0 }
output %all  output %once
)");
  const ProcessResult result = braid({"explain", text, "--passes", "dead_code"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              HasSubstr("Loops that compute more than ten times as long as their data take to move\n"
                        "  all: "));
  EXPECT_THAT(result.out, HasSubstr(" times, 4e+06 operations   <- prefix\n"));
  EXPECT_THAT(result.out, Not(HasSubstr("<- sum")));
  const ProcessResult json = braid({"explain", text, "--passes", "dead_code", "--json"});
  const nlohmann::json slow = nlohmann::json::parse(json.out)["slow_loops"];
  ASSERT_EQ(slow.size(), 1u) << slow;
  EXPECT_EQ(slow[0]["kernel"], "all");
  EXPECT_GT(slow[0]["times"], 10);
}

TEST(Explain, PrintsPerPassWhatEachCollectiveCostsAndWhyItStays) {
  const Folder folder;
  const ProcessResult result =
      braid({"explain", folder.file("hideable.braid", kHideable), "--passes", "sink_waits,braid_schedule"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("pass sink_waits"));
  EXPECT_THAT(result.out, HasSubstr("pass braid_schedule"));
  EXPECT_THAT(result.out, HasSubstr("data dependency on 'use'"));
  EXPECT_THAT(result.out, HasSubstr("all passes"));
  EXPECT_THAT(result.out, HasSubstr("no merging, splitting or other algorithm goes below"));
}

TEST(Explain, WritesTheSameFiguresAsJson) {
  const Folder folder;
  const ProcessResult result = braid({"explain", folder.file("hideable.braid", kHideable), "--passes",
                                      "braid_schedule", "--json=" + (folder / "story.json")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = nlohmann::json::parse(read_text(folder / "story.json"));
  EXPECT_EQ(json["version"], 1);
  EXPECT_EQ(json["machine"], "cpu");
  EXPECT_EQ(json["before"]["exposed_ns"], 2000);
  EXPECT_EQ(json["after"]["exposed_ns"], 0);
  ASSERT_EQ(json["passes"].size(), 1u);
  EXPECT_EQ(json["passes"][0]["collectives"][0]["initial_exposed_ns"], 2000);
  EXPECT_EQ(json["passes"][0]["collectives"][0]["final_exposed_ns"], 0);
  EXPECT_LE(json["after"]["bound_ns"]["best"], json["after"]["makespan_ns"]);
  EXPECT_EQ(json["before"]["makespan_ns"], 6500);
}

constexpr const char* kBuffers = R"(graph buffers
ranks 2
group @g = [0, 1]

input %x: f32[64]

%in: f32[64] comm(symmetric, @g) = pointwise { %0 = load %x store %0 }
%made: f32[64] comm(symmetric, @g) = pointwise { %0 = load %x %1 = exp %0 store %1 }
%r: f32[64] comm(registered, @g) = all_reduce sum @g (%in)
%r.1 mutates %r = wait r as r.wait
release r as r.release
%s: f32[64] comm(registered, @g) = all_reduce sum @g (%made)
%s.1 mutates %s = wait s as s.wait
release s as s.release
%out: f32[64] output = pointwise { %0 = load %r.1 %1 = load %s.1 %2 = add %0, %1 store %2 }
output %out
)";

TEST(Explain, TellsWhichOperandsAreCopiedAndWhy) {
  const Folder folder;
  const ProcessResult result =
      braid({"explain", folder.file("buffers.braid", kBuffers), "--json=" + (folder / "story.json")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("copied in because it is a graph input"));
  EXPECT_THAT(result.out, HasSubstr("in place: its producer writes into the segment"));
  EXPECT_THAT(result.out, HasSubstr("beyond the algorithms' needs, per rank and step: 256\n"));
  const auto json = nlohmann::json::parse(read_text(folder / "story.json"))["communication_buffers"];
  EXPECT_EQ(json["max_bytes_copied"], 256);
  ASSERT_EQ(json["operands"].size(), 4u);
  EXPECT_EQ(json["operands"][0]["reason"], "graph_input");
  EXPECT_EQ(json["operands"][0]["operand"], 0);
  EXPECT_EQ(json["operands"][0]["in_place"], false);
  EXPECT_EQ(json["operands"][1]["result"], 0);
}

TEST(Explain, ACopyThatServesTwoCollectivesIsCountedOnce) {
  std::string text = kBuffers;
  text.replace(text.find("(%made)"), 7, "(%in)");
  const Folder folder;
  const ProcessResult result = braid({"explain", folder.file("buffers.braid", text)});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("; the copy of 'r'\n"));
  EXPECT_THAT(result.out, HasSubstr("beyond the algorithms' needs, per rank and step: 256\n"));
}

TEST(Explain, WritesBothTimelinesAsAChromeTrace) {
  const Folder folder;
  ASSERT_EQ(braid({"explain", folder.file("hideable.braid", kHideable), "--passes", "braid_schedule",
                   "--trace", folder / "t.json"})
                .exit_code,
            0);
  const auto json = nlohmann::json::parse(read_text(folder / "t.json"));
  int spans[2] = {0, 0}, waits[2] = {0, 0};
  for (const auto& e : json["traceEvents"]) {
    if (e["ph"] != "X") continue;
    ++spans[e["pid"].get<int>()];
    if (e["cat"] == "wait") ++waits[e["pid"].get<int>()];
    EXPECT_GE(e["dur"], 0);
  }
  EXPECT_EQ(waits[0], 1);
  EXPECT_EQ(waits[1], 0);
  EXPECT_EQ(spans[1], 4);  // three kernels and the collective
}

TEST(Explain, WritesOnePageThatLoadsNothing) {
  const Folder folder;
  ASSERT_EQ(braid({"explain", folder.file("hideable.braid", kHideable), "--passes", "braid_schedule",
                   "--html", folder / "p.html"})
                .exit_code,
            0);
  const std::string page = read_text(folder / "p.html");
  EXPECT_THAT(page, HasSubstr("<svg"));
  EXPECT_THAT(page, HasSubstr("before the passes"));
  EXPECT_THAT(page, HasSubstr("all_reduce @g 256 B"));
  EXPECT_THAT(page, Not(HasSubstr("http")));
  EXPECT_THAT(page, Not(HasSubstr("<script")));
}

TEST(Explain, AFileThatCannotBeWrittenIsAnError) {
  const Folder folder;
  const ProcessResult result = braid(
      {"explain", folder.file("hideable.braid", kHideable), "--json=" + (folder / "missing/story.json")});
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_THAT(result.err, HasSubstr("BR0010"));
}

TEST(Explain, TellsAPyTorchUserWhatABetterOrderWouldGive) {
  const Folder folder;
  // A reduction that runs alone although the kernel after it does not need it.
  const std::string trace = folder.file("trace.json", R"({"schemaVersion": 1, "traceEvents": [
 {"ph": "X", "cat": "kernel", "name": "first", "pid": 0, "tid": 7, "ts": 0, "dur": 10, "args": {"device": 0, "stream": 7, "correlation": 1}},
 {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "pid": 0, "tid": 20, "ts": 10, "dur": 30, "args": {"device": 0, "stream": 20, "correlation": 2, "Collective name": "allreduce", "In msg nelems": 1024, "Out msg nelems": 1024, "Group size": 2, "dtype": "Float", "Process Group Name": "0"}},
 {"ph": "X", "cat": "kernel", "name": "second", "pid": 0, "tid": 7, "ts": 40, "dur": 20, "args": {"device": 0, "stream": 7, "correlation": 3}}
]})");
  const ProcessResult result = braid({"explain", trace});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("Kineto trace: 2 kernels, 1 collectives"));
  EXPECT_THAT(result.out, HasSubstr("exposed 30.000"));
}

}  // namespace
}  // namespace braid::test
