// bench --device emulated: counts of kernels and the times that they predict.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/cli/braid_process.h"

namespace braid::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using OrderedJson = nlohmann::ordered_json;

constexpr const char* kTranspose =
    "graph transpose input %x: f32[512, 256] %y: f32[256, 512] output = pointwise { %0 = load "
    "%x[256*i1 + i0] store %0 } output %y";
constexpr const char* kTransposeF16 =
    "graph transpose16 input %x: f16[512, 256] %y: f16[256, 512] output = pointwise { %0 = load "
    "%x[256*i1 + i0] store %0 } output %y";
constexpr const char* kColumnSum =
    "graph columns input %x: f32[512, 256] %y: f32[256] output = reduction sum over [512] { %0 = load "
    "%x[256*i1 + i0] store %0 } output %y";
constexpr const char* kSoftmax =
    "graph softmax input %x: f32[512, 256] "
    "%m: f32[512] = reduction max over [256] { %0 = load %x store %0 } "
    "%e: f32[512, 256] = pointwise { %0 = load %x %1 = load %m[i0] %2 = sub %0, %1 %3 = exp %2 store %3 } "
    "%s: f32[512] = reduction sum over [256] { %0 = load %e store %0 } "
    "%y: f32[512, 256] output = pointwise { %0 = load %e %1 = load %s[i0] %2 = div %0, %1 store %2 } output "
    "%y";

OrderedJson predicted(const std::string& source, const std::vector<std::string>& more = {}) {
  const Folder folder;
  std::vector<std::string> bench = {"bench",    folder.file("program.braid", source),
                                    "--target", "cuda",
                                    "--device", "emulated",
                                    "--repeat", "1",
                                    "--json"};
  bench.insert(bench.end(), more.begin(), more.end());
  const ProcessResult result = braid(bench);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.exit_code == 0 ? OrderedJson::parse(result.out)["predicted"] : OrderedJson();
}

double total(const OrderedJson& predicted, const char* count) {
  double sum = 0;
  for (const OrderedJson& kernel : predicted["kernels"])
    sum += kernel[count].get<double>() * kernel["launches"].get<double>();
  return sum;
}

struct LeastSectors {
  const char* name;
  const char* source;
  double bytes;
};
void PrintTo(const LeastSectors& row, std::ostream* out) { *out << row.name; }

class Sectors : public ::testing::TestWithParam<LeastSectors> {};

// 512 x 256 elements.
TEST_P(Sectors, AreWithinATenthOfTheLeast) {
  const OrderedJson counts = predicted(GetParam().source);
  ASSERT_FALSE(counts["kernels"].empty());
  const double sectors = total(counts, "read_sectors") + total(counts, "write_sectors");
  EXPECT_GE(sectors, GetParam().bytes / 32);
  EXPECT_LE(sectors, 1.1 * GetParam().bytes / 32);
}
INSTANTIATE_TEST_SUITE_P(Predicted, Sectors,
                         ::testing::Values(LeastSectors{"transpose", kTranspose, 2 * 524288},
                                           LeastSectors{"transpose_f16", kTransposeF16, 2 * 262144},
                                           LeastSectors{"column_sum", kColumnSum, 524288 + 1024},
                                           LeastSectors{"softmax", kSoftmax, 2 * 524288}),
                         [](const auto& row) { return std::string(row.param.name); });

// Each word of the tile is written and read once, in 32 banks.
TEST(Predicted, TransposesHaveNoBankConflicts) {
  EXPECT_EQ(total(predicted(kTranspose), "wavefronts"), 2 * 512 * 256 / 32);
}

TEST(Predicted, TimesNeedCards) {
  const Folder folder;
  const OrderedJson least = predicted(kTranspose);
  EXPECT_EQ(least["machine"], "h200");
  EXPECT_EQ(least["measured"], false);
  ASSERT_EQ(least["kernels"].size(), 1u);
  const OrderedJson& counted = least["kernels"][0];
  EXPECT_FALSE(counted.contains("predicted_us"));
  EXPECT_NEAR(counted["least_us"].get<double>(), 2 * 512 * 256 * 4 / 4.26e6, 1e-3);

  const std::string cards = folder.file(
      "cards.json",
      fmt::format(R"({{"machine": "h200", "cards": [{{"program": "program", "kernel": {}, "instructions": 90,
          "barriers": 2, "resident": 2048, "regions": [{{"kind": "loop", "instructions": 40, "loads": 4,
          "stores": 4, "loads_ahead": 4}}]}}]}})",
                  counted["name"].dump()));
  const OrderedJson with_card = predicted(kTranspose, {"--cards", cards})["kernels"][0];
  EXPECT_GT(with_card["predicted_us"], with_card["least_us"]);
  double greatest = 0;
  for (const auto& [term, us] : with_card["terms_us"].items())
    greatest = std::max(greatest, us.get<double>());
  EXPECT_GE(with_card["predicted_us"], greatest);
}

// Two kernels and a product: times of both kernels and the roofline of the product, by the names that explain
// uses.
// that explain uses.
TEST(Predicted, CostsOfNodesAreReadByExplain) {
  const Folder folder;
  const std::string source = folder.file(
      "layer.braid",
      "graph layer input %x: f32[512, 256] input %w: f32[256, 256] "
      "%h: f32[512, 256] = gemm %x, %w "
      "%y: f32[512, 256] output = pointwise { %0 = load %h %1 = exp %0 store %1 } "
      "%s: f32[512] output = reduction max over [256] { %0 = load %x store %0 } output %y output %s");
  const auto bench = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"bench",    source,     "--target", "cuda",  "--device",
                                      "emulated", "--repeat", "1",        "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return braid(words);
  };
  const ProcessResult without = bench({});
  ASSERT_EQ(without.exit_code, 0) << without.err;
  std::string cards;
  const OrderedJson counted = OrderedJson::parse(without.out)["predicted"];
  for (const OrderedJson& kernel : counted["kernels"])
    cards += fmt::format(
        R"({}{{"program": "layer", "kernel": {}, "instructions": 90, "barriers": 0, "resident": 2048,
        "regions": []}})",
        cards.empty() ? "" : ", ", kernel["name"].dump());
  const std::string file = folder.file("cards.json", R"({"machine": "h200", "cards": [)" + cards + "]}");
  const ProcessResult with = bench({"--cards", file, "--predicted-costs", folder / "costs.json"});
  ASSERT_EQ(with.exit_code, 0) << with.err;
  const OrderedJson predicted = OrderedJson::parse(with.out)["predicted"];
  const OrderedJson costs = OrderedJson::parse(read_text(folder / "costs.json"))["ns"];
  EXPECT_EQ(costs.size(), predicted["kernels"].size() + predicted["products"].size());
  for (const OrderedJson& kernel : predicted["kernels"])
    EXPECT_NEAR(costs[kernel["node"].get<std::string>()].get<double>(),
                1e3 * kernel["predicted_us"].get<double>(), 1e-3);
  const auto explain = [&](const std::string& more) {
    std::vector<std::string> words = {"explain", source,    "--target",
                                      "cuda",    "--costs", folder / "costs.json"};
    if (!more.empty()) words.push_back(more);
    const ProcessResult result = braid(words);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  };
  EXPECT_THAT(explain(""), HasSubstr("us for 3 of 3 kernels and communication steps"));
  const OrderedJson times = OrderedJson::parse(explain("--json"))["times"];
  ASSERT_EQ(times.size(), 3u);
  for (std::size_t k = 0; k < times.size(); ++k) {
    EXPECT_EQ(times[k]["ns"], costs[times[k]["name"].get<std::string>()]);
    if (k > 0) EXPECT_LE(times[k]["ns"], times[k - 1]["ns"]);
  }

  const ProcessResult no_cards = bench({"--predicted-costs", folder / "costs.json"});
  EXPECT_EQ(no_cards.exit_code, 2);
  EXPECT_THAT(no_cards.err, HasSubstr("--predicted-costs needs --cards"));
  const ProcessResult cpu = braid({"bench", source, "--cards", file});
  EXPECT_EQ(cpu.exit_code, 2);
  EXPECT_THAT(cpu.err, HasSubstr("emulated device"));
}

TEST(Predicted, WhatCannotBePredictedIsSaid) {
  const Folder folder;
  const std::string source = folder.file("program.braid", kTranspose);
  const auto bench = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"bench", source, "--target", "cuda", "--device", "emulated", "--repeat", "1"});
    return braid(more);
  };
  const ProcessResult processes = bench({"--ranks-as-processes"});
  EXPECT_EQ(processes.exit_code, 0) << processes.err;
  EXPECT_THAT(processes.out,
              AllOf(HasSubstr("no times predicted: accesses are counted where ranks are threads"),
                    Not(HasSubstr(" us"))));
  const ProcessResult machine = bench({"--machine", "h100"});
  EXPECT_EQ(machine.exit_code, 0) << machine.err;
  EXPECT_THAT(machine.out, HasSubstr("no times predicted: machine 'h100' does not state"));
  const ProcessResult unknown = bench({"--machine", "h300"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("error BR"));
  const ProcessResult damaged = bench({"--cards", folder.file("cards.json", "no cards")});
  EXPECT_NE(damaged.exit_code, 0);
  EXPECT_THAT(damaged.err, HasSubstr("BR0548"));
}

}  // namespace
}  // namespace braid::test
