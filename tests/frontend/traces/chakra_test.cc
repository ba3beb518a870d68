#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "analysis/measure.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "tests/frontend/traces/chakra_writer.h"
#include "tests/frontend/traces/trace_file.h"

namespace braid::frontend {
namespace {

std::string all_reduce(std::uint64_t id, std::vector<std::uint64_t> deps, std::uint64_t start,
                       std::uint64_t duration) {
  return node({id, "all-reduce", 7, std::move(deps), start, duration,
               bool_attr("is_cpu_op", false) + int64_attr("comm_type", 0) + int64_attr("comm_size", 1 << 20) +
                   string_attr("pg_name", "0")});
}

// a; an all-reduce of it beside b; c needs both.
std::string small() {
  return metadata() + node({1, "a", 4, {}, 0, 10}) + all_reduce(2, {1}, 10, 30) +
         node({3, "b", 4, {1}, 10, 20}) + node({4, "c", 4, {2, 3}, 40, 5});
}

constexpr const char* kSmallJson = R"({
  "version": "0.0.4"
}{
  "id": "1", "name": "a", "type": "COMP_NODE", "durationMicros": "10"
}{
  "id": "2", "name": "all-reduce", "type": "COMM_COLL_NODE", "dataDeps": ["1"], "startTimeMicros": "10", "durationMicros": "30",
  "attr": [{"name": "comm_type", "int64Val": "0"}, {"name": "comm_size", "int64Val": "1048576"}, {"name": "pg_name", "stringVal": "0"}]
}{
  "id": "3", "name": "b", "type": "COMP_NODE", "dataDeps": ["1"], "startTimeMicros": "10", "durationMicros": "20"
}{
  "id": "4", "name": "c", "type": "COMP_NODE", "dataDeps": ["2", "3"], "startTimeMicros": "40", "durationMicros": "5"
})";

TEST(Chakra, TheRecordedOrderSimulatesToTheRecordedTimes) {
  const ImportedTrace t = import_text("small.et", small());
  EXPECT_EQ(t.format, "Chakra");
  EXPECT_EQ(t.kernels, 3);
  EXPECT_EQ(t.collectives, 1);
  EXPECT_DOUBLE_EQ(t.times.makespan, 45'000);
  EXPECT_DOUBLE_EQ(t.times.exposed, 10'000);
  EXPECT_THAT(ir::verify(t.schedule), testing::IsEmpty());
  const analysis::Measurement m = analysis::measure(t.schedule, *analysis::cost_model_for(t.machine));
  EXPECT_EQ(m.makespan, analysis::Time::from_us(45));
}

TEST(Chakra, TheFormOfTheJsonizerMeansTheSame) {
  EXPECT_EQ(ir::print(import_text("small.json", kSmallJson).schedule),
            ir::print(import_text("small.et", small()).schedule));
}

TEST(Chakra, TheFormOfTheSimulatorIsRead) {
  const ImportedTrace t = import_text("graph.json", R"({"workload_graph": [
    {"Id": 0, "Name": "a", "NodeType": 4, "is_cpu_op": false, "runtime": 10, "data_deps": []},
    {"Id": 1, "Name": "gather", "NodeType": 7, "is_cpu_op": false, "runtime": 20, "data_deps": [0], "comm_type": 2, "comm_size": 64}]})");
  EXPECT_EQ(t.collectives, 1);
  EXPECT_THAT(ir::print(t.schedule), testing::HasSubstr("all_gather"));
}

TEST(Chakra, HostOperationsOrderAndCostNothing) {
  // The host waits for a and b and only then launches c.
  const ImportedTrace t =
      import_text("host.et", metadata() + node({1, "a", 4, {}, 1, 10}) + node({2, "b", 4, {}, 11, 10}) +
                                 node({3, "sync", 4, {1, 2}, 21, 7, bool_attr("is_cpu_op", true)}) +
                                 node({5, "unneeded", 4, {1, 2}, 21, 7, bool_attr("is_cpu_op", true)}) +
                                 node({4, "c", 4, {3}, 28, 10}));
  EXPECT_EQ(t.kernels, 3);
  const std::string text = ir::print(t.schedule);
  EXPECT_THAT(text, testing::HasSubstr("%sync: u8[1] = extern \"sync\" reads(%a, %b) cost(ns 0)"));
  EXPECT_THAT(text, testing::HasSubstr("extern \"c\" reads(%sync)"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("unneeded")));
  EXPECT_DOUBLE_EQ(t.times.idle, 7'000);
}

TEST(Chakra, AStreamKeepsItsOrder) {
  const ImportedTrace t =
      import_text("stream.et", metadata() + node({1, "late", 4, {}, 20, 5, int64_attr("stream", 7)}) +
                                   node({2, "early", 4, {}, 10, 5, int64_attr("stream", 7)}));
  EXPECT_THAT(ir::print(t.schedule), testing::HasSubstr("extern \"late\" reads(%early)"));
}

TEST(Chakra, WithoutTimesCostsComeFromTheMachine) {
  const ImportedTrace t = import_text(
      "work.et",
      metadata() +
          node({1, "gemm", 4, {}, 0, 0, int64_attr("num_ops", 1'000'000) + int64_attr("tensor_size", 4096)}) +
          all_reduce(2, {1}, 0, 0));
  EXPECT_EQ(t.machine, "");
  EXPECT_TRUE(t.recorded.empty());
  EXPECT_THAT(ir::print(t.schedule), testing::HasSubstr("cost(gemm, flops 1000000, bytes 4096)"));
  EXPECT_GT(analysis::measure(t.schedule, *analysis::cost_model_for("h100")).makespan,
            analysis::Time::from_us(5));
}

TEST(ChakraErrors, ACutMessageNamesItsByte) {
  const std::string whole = small();
  expect_trace_error(561, "cut.et", whole.substr(0, whole.size() - 3), 0, 0, "byte ");
}

TEST(ChakraErrors, AnUnknownDependencyIsNamed) {
  expect_trace_error(563, "missing.et", metadata() + node({1, "a", 4, {77}, 0, 10}), 0, 0, "node 77");
}

TEST(ChakraErrors, TheSameIdTwiceIsRefused) {
  expect_trace_error(563, "twice.et",
                     metadata() + node({1, "a", 4, {}, 0, 10}) + node({1, "b", 4, {}, 0, 10}), 0, 0,
                     "same id 1");
}

TEST(ChakraErrors, ACircleNamesItsMembers) {
  expect_trace_error(563, "circle.et",
                     metadata() + node({1, "a", 4, {3}, 1, 1}) + node({2, "b", 4, {1}, 1, 1}) +
                         node({3, "c", 4, {2}, 1, 1}) + node({4, "behind", 4, {3}, 1, 1}),
                     0, 0, "form a cycle: 'b', 'c', 'a'");
}

TEST(ChakraErrors, AnUnknownCollectiveIsRefusedWithItsPlace) {
  expect_trace_error(562, "kind.json",
                     "{}\n{\"id\": \"2\", \"name\": \"x\", \"type\": \"COMM_COLL_NODE\", \"attr\": "
                     "[{\"name\": \"comm_type\", \"int64Val\": \"55\"}]}",
                     2, 1);
  expect_trace_error(562, "type.et", metadata() + node({1, "a", 99, {}, 0, 10}), 0, 0, "byte 9");
}

TEST(ChakraErrors, NodesOfTheHostAloneAreNoWork) {
  expect_trace_error(564, "host.et", metadata() + node({1, "a", 4, {}, 0, 10, bool_attr("is_cpu_op", true)}));
}

// Whatever a file holds: a schedule that verifies, or a numbered error.
TEST(ChakraErrors, DamagedFilesNeverDoMoreThanFail) {
  const std::vector<std::string> originals = {small(), kSmallJson};
  for (unsigned seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    const std::string& original = originals[seed % 2];
    std::string damaged = original;
    for (unsigned k = 0; k < 1 + seed % 3; ++k)
      damaged[random() % damaged.size()] = static_cast<char>(random());
    if (seed % 5 == 0) damaged.resize(random() % damaged.size());
    SCOPED_TRACE(fmt::format("seed {}", seed));
    try {
      EXPECT_THAT(ir::verify(import_text("damaged", damaged).schedule), testing::IsEmpty());
    } catch (const ir::UserError& e) {
      EXPECT_THAT(e.code(), testing::AllOf(testing::Ge(560), testing::Le(564))) << e.what();
    }
  }
}

}  // namespace
}  // namespace braid::frontend
