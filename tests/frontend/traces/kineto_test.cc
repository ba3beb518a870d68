#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <random>

#include "analysis/measure.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "passes/default_passes.h"
#include "passes/pass_context.h"
#include "passes/runner.h"
#include "tests/frontend/traces/trace_file.h"

namespace braid::frontend {
namespace {

using analysis::Measurement;

// One kernel or collective and its launch, times in us.
std::string event(const std::string& name, double ts, double dur, int stream, int correlation, double launch,
                  const std::string& args = "") {
  return fmt::format(
      R"({{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 1, "ts": {}, "dur": 1, "args": {{"correlation": {}}}}},
{{"ph": "X", "cat": "kernel", "name": "{}", "pid": 0, "tid": {}, "ts": {}, "dur": {}, "args": {{"device": 0, "stream": {}, "correlation": {}{}}}}})",
      launch, correlation, name, stream, ts, dur, stream, correlation, args);
}
constexpr const char* kGather =
    R"(, "Collective name": "_allgather_base", "In msg nelems": 1024, "dtype": "BFloat16", "Group size": 4, "Process Group Name": "dp", "Process Group Ranks": "[0, 1, 2, 3]")";

std::string trace(const std::vector<std::string>& events) {
  return fmt::format("{{\"schemaVersion\": 1, \"traceEvents\": [\n{}\n]}}", fmt::join(events, ",\n"));
}

// a, then a gather beside b of which half is exposed, then c that uses it.
const std::vector<std::string> kHalfHidden = {
    event("void a<float>(int)", 100, 10, 7, 1, 50),
    event("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgs)", 110, 40, 20, 2, 51, kGather),
    event("b", 110, 20, 7, 3, 52),
    event("c", 150, 10, 7, 4, 53),
};

TEST(Kineto, RecordedTimesAreThoseOfTheFile) {
  const ImportedTrace t = import_text("half.json", trace(kHalfHidden));
  EXPECT_EQ(t.format, "Kineto");
  EXPECT_EQ(t.kernels, 3);
  EXPECT_EQ(t.collectives, 1);
  EXPECT_DOUBLE_EQ(t.times.makespan, 60'000);
  EXPECT_DOUBLE_EQ(t.times.compute, 40'000);
  EXPECT_DOUBLE_EQ(t.times.communication, 40'000);
  EXPECT_DOUBLE_EQ(t.times.exposed, 20'000);
  EXPECT_DOUBLE_EQ(t.times.idle, 0);
  ASSERT_EQ(t.recorded.size(), 4U);
  EXPECT_DOUBLE_EQ(t.recorded[0].begin_ns, 0);
  EXPECT_EQ(t.schedule.graph[t.recorded[0].op].name, "a");
}

TEST(Kineto, TheRecordedOrderSimulatesToTheRecordedTimes) {
  const ImportedTrace t = import_text("half.json", trace(kHalfHidden));
  EXPECT_THAT(ir::verify(t.schedule), testing::IsEmpty());
  EXPECT_EQ(t.machine, "recorded");
  const Measurement m = analysis::measure(t.schedule, *analysis::cost_model_for(t.machine));
  EXPECT_EQ(m.makespan, analysis::Time::from_us(60));
  EXPECT_EQ(m.exposed, analysis::Time::from_us(20));
}

TEST(Kineto, TheScheduleHasTheCollectivesOfTheFile) {
  const std::string text = ir::print(import_text("half.json", trace(kHalfHidden)).schedule);
  EXPECT_THAT(text, testing::HasSubstr("group @dp = [0, 1, 2, 3]"));
  EXPECT_THAT(text, testing::HasSubstr("bf16[4096] comm(registered, @dp) = all_gather @dp"));
}

// A trace names the groups of its own rank. Those of other ranks communicate at the same moment, where all
// ranks lie in a grid.
TEST(Kineto, GroupsOfOtherRanksAreSiblings) {
  const auto groups = [](const std::string& ranks, const std::string& info) {
    const std::string gather = fmt::format(
        R"(, "Collective name": "_allgather_base", "In msg nelems": 1024, "dtype": "Float", "Process Group Name": "g", "Process Group Ranks": "[{}]")",
        ranks);
    const std::string text = fmt::format("{{{}\"traceEvents\": [\n{}\n]}}", info,
                                         event("ncclDevKernel_AllGather", 110, 40, 20, 2, 51, gather));
    const ImportedTrace t = import_text("groups.json", text);
    EXPECT_THAT(ir::verify(t.schedule), testing::IsEmpty());
    return std::pair(ir::parts_text(t.schedule.graph.groups.at(0).parts), t.assumptions.back());
  };
  const std::string eight = R"("distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 8}, )";
  EXPECT_EQ(groups("0, 1, 2, 3", eight).first, "0 1 2 3 | 4 5 6 7");
  EXPECT_EQ(groups("1, 5", eight).first, "0 4 | 1 5 | 2 6 | 3 7");
  EXPECT_EQ(groups("4, 6", eight).first, "0 2 | 1 3 | 4 6 | 5 7");
  EXPECT_THAT(groups("1, 5", eight).second, testing::HasSubstr("2 ranks of 'g' are one of 4 groups"));
  // No grid, all ranks, or an unknown number of ranks.
  EXPECT_EQ(groups("1, 2", eight).first, "1 2");
  EXPECT_EQ(groups("0, 1, 2", eight).first, "0 1 2");
  EXPECT_EQ(groups("0, 1, 3, 2", eight).first, "0 1 3 2");
  EXPECT_EQ(groups("4, 0", eight).first, "4 0");
  EXPECT_EQ(groups("0, 1, 2, 3, 4, 5, 6, 7", eight).first, "0 1 2 3 4 5 6 7");
  EXPECT_EQ(groups("0, 1, 2, 3", "").first, "0 1 2 3");
  EXPECT_EQ(groups("0, 1, 2, 3", R"("distributedInfo": null, )").first, "0 1 2 3");
}

TEST(Kineto, WithoutSynchronisationTheFirstKernelAfterTheEndWaits) {
  const std::string text = ir::print(import_text("half.json", trace(kHalfHidden)).schedule);
  const auto at = [&](const char* what) { return text.find(what); };
  EXPECT_LT(at("all_gather"), at("%b:"));
  EXPECT_LT(at("%b:"), at("= wait"));
  EXPECT_LT(at("= wait"), at("%c:"));
}

// The same with the events that order streams: b waits as well as c, and the gather depends on nothing.
TEST(Kineto, RecordedSynchronisationReplacesGuesses) {
  const auto runtime = [](const char* name, double ts, int correlation) {
    return fmt::format(
        R"({{"ph": "X", "cat": "cuda_runtime", "name": "{}", "pid": 9, "tid": 1, "ts": {}, "dur": 1, "args": {{"correlation": {}}}}})",
        name, ts, correlation);
  };
  const std::vector<std::string> events = {
      event("a", 100, 10, 7, 1, 50),
      event("ncclDevKernel_AllGather_RING_LL", 110, 40, 20, 2, 51, kGather),
      event("b", 160, 20, 7, 3, 54),
      event("c", 180, 10, 7, 4, 55),
      runtime("cudaEventRecord", 52, 10),
      runtime("cudaStreamWaitEvent", 54.5, 11),
      R"({"ph": "X", "cat": "cuda_sync", "name": "Stream Wait Event", "pid": 0, "tid": 7, "ts": 55, "dur": 0, "args": {"cuda_sync_kind": "Stream Wait Event", "stream": 7, "correlation": 11, "wait_on_stream": 20, "wait_on_cuda_event_record_corr_id": 10}})",
  };
  const ImportedTrace t = import_text("sync.json", trace(events));
  const std::string text = ir::print(t.schedule);
  EXPECT_LT(text.find("%b:"), text.find("= wait"));  // c waits, b does not
  EXPECT_THAT(text,
              testing::HasSubstr("= extern \"operand\" cost(ns 0)"));  // and the gather waits for nothing
  // A better order exists: the gather may begin at once and hide under a and b.
  ir::Schedule better = t.schedule;
  passes::PassContext context;
  context.costs = analysis::cost_model_for(t.machine);
  passes::RunOptions options;
  options.context = &context;
  passes::run_passes(better, passes::parse_pass_list("braid_schedule"), options);
  EXPECT_EQ(analysis::measure(better, *context.costs).makespan, analysis::Time::from_us(50));
}

TEST(Kineto, KernelsOfTwoStreamsCountTheTimeThatTheyAdd) {
  const ImportedTrace t = import_text(
      "streams.json",
      trace({event("a", 100, 30, 7, 1, 50), event("copy", 110, 10, 8, 2, 51), event("b", 130, 5, 7, 3, 52)}));
  EXPECT_DOUBLE_EQ(t.times.compute, 35'000);
  EXPECT_EQ(analysis::measure(t.schedule, *analysis::cost_model_for(t.machine)).makespan,
            analysis::Time::from_us(35));
}

TEST(Kineto, OnlyOneDeviceIsLookedAt) {
  std::string other = event("elsewhere", 100, 50, 7, 9, 50);
  other.replace(other.find("\"device\": 0"), 11, "\"device\": 3");
  const ImportedTrace t = import_text("devices.json", trace({event("a", 100, 10, 7, 1, 50), other}));
  EXPECT_EQ(t.kernels, 1);
  EXPECT_THAT(t.assumptions, testing::Contains(testing::HasSubstr("several devices")));
}

TEST(Kineto, AnArrayAloneIsATraceAndHostEventsAreSkipped) {
  const ImportedTrace t = import_text(
      "array.json",
      "[" + event("a", 100, 10, 7, 1, 50) +
          R"(, {"ph": "M", "name": "process_name", "pid": 0, "args": {}}, {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "ts": 1, "dur": 2}])");
  EXPECT_EQ(t.kernels, 1);
}

TEST(Kineto, LongListsOfRanksAreCompletedFromTheSize) {
  std::string args = kGather;
  args.replace(args.find("[0, 1, 2, 3]"), 12, "[0, 1, ..., 63]");
  args.replace(args.find("\"Group size\": 4"), 15, "\"Group size\": 64");
  const ImportedTrace t =
      import_text("ranks.json", trace({event("ncclDevKernel_AllGather", 1, 1, 20, 1, 0, args)}));
  EXPECT_EQ(t.schedule.graph.groups.at(0).size(), 64);
}

TEST(KinetoErrors, ATruncatedFileNamesWhatDoesNotEnd) {
  expect_trace_error(561, "cut.json", "{\"traceEvents\": [\n{\"ph\": \"X\", \"name\": \"a", 2, 21);
}

TEST(KinetoErrors, AMalformedEventNamesLineAndColumn) {
  expect_trace_error(561, "bad.json", "{\"traceEvents\": [\n{\"ph\": X}\n]}", 2, 8);
}

TEST(KinetoErrors, AKernelWithoutDurationNamesItsPlace) {
  expect_trace_error(
      562, "dur.json",
      "{\"traceEvents\": [\n  {\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"a\", \"ts\": 1}\n]}", 2, 3);
}

TEST(KinetoErrors, ANegativeDurationNamesItsPlace) {
  expect_trace_error(
      562, "dur.json",
      "{\"traceEvents\": [{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"a\", \"ts\": 1, \"dur\": -2}]}", 1,
      18);
}

TEST(KinetoErrors, AStringWhereANumberIsExpectedNamesItsPlace) {
  expect_trace_error(562, "ts.json",
                     "{\"traceEvents\": [{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"a\", \"ts\": "
                     "\"soon\", \"dur\": 2}]}",
                     1, 18);
}

TEST(KinetoErrors, ATraceOfTheHostAloneHasNothingToSchedule) {
  expect_trace_error(
      564, "host.json",
      R"({"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 2}]})");
}

// Whatever a file holds: a schedule that verifies, or a numbered error.
TEST(KinetoErrors, DamagedFilesNeverDoMoreThanFail) {
  const std::string original = trace(kHalfHidden);
  for (unsigned seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    std::string damaged = original;
    for (unsigned k = 0; k < 1 + seed % 3; ++k) {
      const std::size_t at = random() % damaged.size();
      // Digits become other digits more often than anything else: times and streams that cannot be.
      damaged[at] = std::isdigit(static_cast<unsigned char>(damaged[at])) != 0 && seed % 2 == 0
                        ? static_cast<char>('0' + random() % 10)
                        : static_cast<char>(random());
    }
    if (seed % 5 == 0) damaged.resize(random() % damaged.size());
    SCOPED_TRACE(fmt::format("seed {}", seed));
    try {
      EXPECT_THAT(ir::verify(import_text("damaged", damaged).schedule), testing::IsEmpty());
    } catch (const ir::UserError& e) {
      EXPECT_THAT(e.code(), testing::AllOf(testing::Ge(560), testing::Le(564))) << e.what();
    }
  }
}

TEST(KinetoErrors, OtherFilesAreNoTraces) {
  expect_trace_error(560, "other.json", R"({"cells": []})");
  expect_trace_error(560, "packed.json.gz", "\x1f\x8b\x08");
  expect_trace_error(560, "host.json", R"({"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": []})");
  EXPECT_FALSE(looks_like_trace(write_trace("text.braid", "graph main\n")));
  EXPECT_FALSE(looks_like_trace(write_trace("model.onnx", std::string("\x08\x0a\x12\x04test", 8))));
  EXPECT_TRUE(looks_like_trace(write_trace("half.json", trace(kHalfHidden))));
}

}  // namespace
}  // namespace braid::frontend
