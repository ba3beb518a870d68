#include "analysis/costs/machine.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "ir/error.h"
#include "tests/paths.h"

namespace braid::analysis {
namespace {

std::string source_text(const std::string& file) {
  std::ifstream in(paths::source(file));
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}
std::string builtin_text(const std::string& name) {
  return source_text("analysis/costs/machines/" + name + ".json");
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

void expect_refused(const std::string& text, int code, const std::string& what) {
  try {
    parse_machine(text, "m.json");
    ADD_FAILURE() << "accepted; expected: " << what;
  } catch (const ir::UserError& e) {
    EXPECT_EQ(e.code(), code);
    EXPECT_NE(std::string(e.what()).find(what), std::string::npos) << e.what();
  }
}

TEST(Machines, EveryBuiltInMachineLoads) {
  ASSERT_EQ(machine_names(), (std::vector<std::string>{"a100", "b200", "cpu", "h100", "h200", "recorded"}));
  for (const std::string& name : machine_names()) EXPECT_EQ(load_machine(name).name, name);
}

TEST(Machines, AFileGivesTheSameMachineAsTheBuiltInOfItsText) {
  const std::string path = paths::source("analysis/costs/machines/h200.json");
  EXPECT_EQ(load_machine(path).collectives.measured.size(), load_machine("h200").collectives.measured.size());
}

TEST(Machines, TheExampleOfTheDocumentationIsOne) {
  const std::string docs = source_text("docs/scheduling.md");
  const std::size_t begin = docs.find("```json") + 7;
  ASSERT_GT(begin, 7u);
  EXPECT_EQ(parse_machine(docs.substr(begin, docs.find("```", begin) - begin), "scheduling.md").name,
            "my-cluster");
}

TEST(Machines, APacedLinkIsALatencyAndABandwidth) {
  std::string text = builtin_text("cpu");
  const std::size_t at = text.find("\"collectives\"");
  text = text.substr(0, at) +
         R"("collectives": {"model": "paced_link", "link_latency_us": 100, "link_gb_s": 0.5}})";
  const Machine m = parse_machine(text, "m.json");
  EXPECT_EQ(m.collectives.model, CollectiveModelKind::paced_link);
  EXPECT_EQ(m.collectives.link_latency_us, 100);
  EXPECT_EQ(m.collectives.link_gb_s, 0.5);
}

TEST(Machines, TypesWithoutAPeakOfTheirOwnCountAsF32AndF64AsHalfOfIt) {
  const Machine m =
      parse_machine(replaced(builtin_text("h100"), R"({"f32": 67, "f64": 34})", R"({"f32": 60})"), "m.json");
  EXPECT_EQ(m.vector_tflops[static_cast<std::size_t>(ir::DType::bf16)], 60);
  EXPECT_EQ(m.vector_tflops[static_cast<std::size_t>(ir::DType::f64)], 30);
}

TEST(Machines, CapacitiesMayBeLeftOut) {
  EXPECT_EQ(parse_machine(builtin_text("h100"), "m.json").capacity_bytes, 80'000'000'000);
  EXPECT_EQ(parse_machine(builtin_text("cpu"), "m.json").capacity_bytes, 0);
  expect_refused(replaced(builtin_text("h100"), "\"capacity_gb\": 80", "\"capacity_gb\": 0"), 551,
                 "capacity_gb");
}

TEST(Machines, AGpuIsDescribedByConstantsThatStateTheirOrigin) {
  const Machine h200 = load_machine("h200");
  ASSERT_TRUE(h200.gpu.has_value());
  EXPECT_EQ(h200.gpu->architecture, "sm_90");
  EXPECT_EQ(h200.gpu->multiprocessors.value, 132);
  EXPECT_EQ(h200.gpu->multiprocessors.origin, ConstantOrigin::data_sheet);
  EXPECT_EQ(h200.gpu->copy_gb_s.value().origin, ConstantOrigin::measured);
  EXPECT_EQ(h200.gpu->dram_latency_us.value().value, 0.65);
  EXPECT_EQ(h200.gpu->dram_latency_us.value().origin, ConstantOrigin::fitted);
  EXPECT_NE(h200.gpu->dram_latency_us.value().note, "");
  EXPECT_FALSE(load_machine("h100").gpu.value().copy_gb_s.has_value());
  EXPECT_FALSE(load_machine("cpu").gpu.has_value());
}

TEST(MachineErrors, AWrongGpuIsBR0551WithThePathOfTheValue) {
  const std::string h200 = builtin_text("h200");
  expect_refused(replaced(h200, R"("architecture": "sm_90")", R"("architecture": "hopper")"), 551,
                 "'hopper' is not a GPU architecture");
  expect_refused(replaced(h200, R"("architecture": "sm_90")", R"("architecture": "sm_")"), 551,
                 "'sm_' is not a GPU architecture");
  expect_refused(replaced(h200, R"("origin": "fitted")", R"("origin": "guessed")"), 551,
                 "'guessed' is not known");
  expect_refused(replaced(h200, R"({"value": 132, )", R"({"value": 0, )"), 551, "/gpu/multiprocessors/value");
  expect_refused(replaced(h200, R"("registers": {)", R"("register": {)"), 551, "registers");
  expect_refused(replaced(h200, R"("l2_gb_s": {)", R"("l3_gb_s": {)"), 551, "l3_gb_s");
}

TEST(MachineErrors, WhatIsNoJsonIsBR0550WithLineAndColumn) {
  expect_refused("{\n  \"version\": 1,\n  oops\n}", 550, "m.json:3:3");
  expect_refused("", 550, "not JSON");
  expect_refused("{\"version\": 1e999}", 550, "not JSON");
  expect_refused(std::string(1000, '['), 550, "nested too deeply");
  expect_refused("{\"version\": 1,\n \"version\": 1}", 550, "m.json:2:13: the same key twice");
}

TEST(MachineErrors, WhatIsNoMachineIsBR0551WithLineAndColumn) {
  const std::string good = builtin_text("h100");
  expect_refused("[]", 551, "m.json:1:1");
  expect_refused(replaced(good, "\"version\": 1", "\"version\": 2"), 551,
                 "m.json:2:14: '/version' is 2, expected 1 to 1");
  expect_refused(replaced(good, "\"memory_gb_s\": 3350", "\"memory\": 3350"), 551,
                 "'/device/memory_gb_s' is missing");
  expect_refused(replaced(good, "\"launch_us\": 2.0", "\"launch_us\": 2.0, \"watts\": 700"), 551,
                 "'/device/watts' is not known");
  expect_refused(replaced(good, "\"launch_us\": 2.0", "\"launch_us\": \"2\""), 551,
                 "'/device/launch_us' is not a number");
  expect_refused(replaced(good, "\"launch_us\": 2.0", "\"launch_us\": -1"), 551,
                 "'/device/launch_us' is -1, expected 0");
  expect_refused(replaced(good, "\"devices_per_node\": 8", "\"devices_per_node\": 8.5"), 551,
                 "is not an integer");
  expect_refused(replaced(good, "\"devices_per_node\": 8", "\"devices_per_node\": 18446744073709551615"), 551,
                 "expected 1 to");
  expect_refused(replaced(good, "\"model\": \"nccl\"", "\"model\": \"magic\""), 551, "'magic' is not known");
  expect_refused(replaced(good, "\"name\": \"h100\"", "\"name\": 7"), 551, "'/name' is not a string");
  expect_refused(replaced(good, "\"nics\": 8", "\"nics\": 0"), 551, "/collectives/network/nics");
}

TEST(MachineErrors, AMeasuredTableInWhichMergingWouldCostTimeIsRefused) {
  const auto with = [](const std::string& points) {
    return replaced(
        builtin_text("h100"), "\"slowdown\": 1.0",
        fmt::format(R"("measured": [{{"kind": "all_reduce", "ranks": 8, "nodes": 1, "points": {}}}])",
                    points));
  };
  EXPECT_EQ(parse_machine(with("[[1024, 5], [2048, 6]]"), "m.json").collectives.measured[0].points.size(),
            2u);
  expect_refused(with("[]"), 551, "at least one point");
  expect_refused(with("[[1024, 5, 6]]"), 551, "a point is");
  expect_refused(with("[[1024, 5], [1024, 6]]"), 551, "must grow");
  expect_refused(with("[[1024, 5], [2048, 4]]"), 551, "less time");
  expect_refused(with("[[1024, 5], [2048, 11]]"), 551, "the bandwidth is lower");
}

TEST(MachineErrors, DamagedFilesAreRefusedOrReadButNothingElse) {
  constexpr std::uint64_t kSeed = 550;
  std::mt19937_64 random(kSeed);
  int refused = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    std::string text = builtin_text(trial % 2 ? "h200" : "cpu");
    for (int k = 0; k < 1 + trial % 3; ++k) {
      const std::size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, 1 + random() % 20);
          break;
        case 2:
          text.insert(at, text.substr(random() % text.size(), random() % 30));
          break;
        case 3:
          text[at] = "{}[],:\"0-e.\\"[random() % 12];
          break;
      }
    }
    try {
      parse_machine(text, "m.json");
    } catch (const ir::UserError& e) {
      ++refused;
      EXPECT_TRUE(e.code() == 550 || e.code() == 551) << e.what() << " seed " << kSeed << " trial " << trial;
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(MachineErrors, AnUnknownNameIsBR0553AndListsTheKnownOnes) {
  try {
    load_machine("tpu");
    FAIL();
  } catch (const ir::UserError& e) {
    EXPECT_EQ(e.code(), 553);
    EXPECT_NE(e.hint().find("a100, b200, cpu, h100, h200"), std::string::npos) << e.hint();
  }
}

TEST(MachineErrors, AFileThatIsNotThereIsBR0001) {
  try {
    load_machine("/nowhere/m.json");
    FAIL();
  } catch (const ir::UserError& e) {
    EXPECT_EQ(e.code(), 1);
  }
}

TEST(Topology, NodesAndTheFewestRanksOnANodeComeFromTheRanks) {
  const Machine m = load_machine("h100");
  EXPECT_EQ(topology(m, std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}), (GroupTopology{8, 1, 8}));
  EXPECT_EQ(topology(m, std::vector<int>{0, 8, 16, 24}), (GroupTopology{4, 4, 1}));
  EXPECT_EQ(topology(m, std::vector<int>{9, 0, 1, 8, 2}), (GroupTopology{5, 2, 2}));
}

TEST(Topology, TheSlowestPartDecidesAndTheFullestNodeIsShared) {
  const Machine m = load_machine("h100");
  const auto slowest = [&](const ir::Parts& parts) {
    const SlowestPart s = slowest_part(m, parts);
    return std::pair(*s.ranks, s.siblings);
  };
  EXPECT_EQ(slowest({{0, 1}, {2, 3}}), std::pair(std::vector{0, 1}, 1));
  EXPECT_EQ(slowest({{0, 1}, {7, 8}}), std::pair(std::vector{7, 8}, 1));  // two nodes
  EXPECT_EQ(slowest({{0, 1, 8, 9}, {2, 3, 4, 10}}),
            std::pair(std::vector{2, 3, 4, 10}, 2));  // one rank on a node
  EXPECT_EQ(slowest({{0, 8}, {1, 9}, {2, 16}}), std::pair(std::vector{0, 8}, 3));
}

TEST(Topology, AGroupThatLeavesTheOnlyNodeIsBR0554) {
  Machine m = load_machine("h100");
  m.collectives.network.reset();
  try {
    topology(m, std::vector<int>{7, 8});
    FAIL();
  } catch (const ir::UserError& e) {
    EXPECT_EQ(e.code(), 554);
  }
}

}  // namespace
}  // namespace braid::analysis
