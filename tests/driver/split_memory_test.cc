// Limits of memory, and what is tried where the search counts less than a program takes.
#include <fmt/format.h>

#include "analysis/costs/embedded_machines.h"
#include "driver/split_report.h"
#include "tests/driver/split_models.h"

namespace braid {
namespace {

using test::layer;
using test::network;
using test::SplitModel;
using test::weight;

// The weights are most of the memory: half of them fits into a device where the whole does not.
TEST_F(SplitModel, MemoryLimitsAreKept) {
  CompileOptions o = options(network(2, 4, 64));
  o.machine = "h100";  // on which splitting does not pay
  o.split.devices = 4;
  SplitReport free, limited;
  ASSERT_EQ(lower(o, free).graph.ranks, 1);
  const std::int64_t whole = free.chosen_one()->bytes;
  EXPECT_GT(whole, 4 * 2 * 2 * 64 * 128);
  o.split.memory_limit = whole - 1;
  EXPECT_GT(lower(o, limited).graph.ranks, 1);
  const SplitCandidate& chosen = *limited.chosen_one();
  EXPECT_LE(chosen.bytes, whole - 1);
  EXPECT_GE(chosen.simulated, free.chosen_one()->simulated);
  for (const SplitCandidate& c : limited.candidates) EXPECT_TRUE(!c.refused.empty() || c.bytes <= whole - 1);
  // Exactly as much as it takes is enough.
  o.split.memory_limit = whole;
  EXPECT_EQ(lower(o, limited).graph.ranks, 1);
  o.split.memory_limit = whole / 6;
  const ir::UserError error = frontend::error_of([&] { lower(o); });
  EXPECT_EQ(error.code(), 488);  // BR0488
  EXPECT_NE(error.message().find("1 rank: at least "), std::string::npos) << error.message();
  EXPECT_NE(error.message().find("'up0' R: 32.0 KiB"), std::string::npos) << error.message();
  EXPECT_NE(error.hint().find("8 ranks would do"), std::string::npos) << error.hint();
  o.split.devices = 8;
  EXPECT_EQ(lower(o, limited).graph.ranks, 8);
  o.split.devices = 7;  // padded parts are larger
  EXPECT_EQ(frontend::error_of([&] { lower(o); }).code(), 488);
  o.split.memory_limit = 100;
  EXPECT_NE(frontend::error_of([&] { lower(o); }).hint().find("no number of ranks from 8 to 64 was found"),
            std::string::npos);
  // On several axes, too, it is said what would be enough.
  o.split.devices = 0;
  o.split.mesh = "dp=2,tp=2";
  const ir::UserError several = frontend::error_of([&] { lower(o); });
  EXPECT_EQ(several.code(), 488);
  EXPECT_NE(several.message().find("4 ranks, dp=2, tp=2: at least "), std::string::npos) << several.message();
  EXPECT_NE(several.message().find("'up0' S("), std::string::npos) << several.message();
}

// A weight whose dimensions are all 2 has halves along one axis, whatever its length, and quarters along two.
TEST_F(SplitModel, LimitsThatOnlySeveralAxesKeep) {
  CompileOptions o =
      options("g (float[1] x) => (float[1] y) <" + weight("flat", 64, 64) +
              ", int64[12] sizes = {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2}> { w = Reshape(flat, sizes)\n"
              "m = Mul(x, w)\n s = ReduceSum<keepdims = 0>(m)\n y = Add(s, x) }");
  o.machine = "h100";
  o.split.devices = 2;
  o.split.memory_limit = 6000;
  const ir::UserError error = frontend::error_of([&] { lower(o); });
  EXPECT_EQ(error.code(), 488) << error.message();
  EXPECT_NE(error.hint().find("from 3 to 64 was found that would do along one axis"), std::string::npos)
      << error.hint();
  o.split.devices = 4;
  SplitReport report;
  EXPECT_EQ(lower(o, report).graph.ranks, 4);
}

// The search does not count buffers of collectives. Where they make a plan too large, smaller limits are
// tried; some limits have a split only for that reason.
TEST_F(SplitModel, SmallerPlansAreTriedWhereBuffersTakeTooMuch) {
  CompileOptions o = options(network(3, 32, 32));
  o.machine = "h100";
  o.split.devices = 2;
  SplitReport report;
  ASSERT_EQ(lower(o, report).graph.ranks, 1);
  const auto chosen = [&]() -> const SplitCandidate& { return *report.chosen_one(); };
  int limits = 0, smaller = 0;
  const std::int64_t whole = chosen().bytes;
  for (std::int64_t limit = whole - 1; limit > 3 * whole / 4; limit -= 1024) {
    o.split.memory_limit = limit;
    EXPECT_EQ(lower(o, report).graph.ranks, 2) << limit;
    EXPECT_LE(chosen().bytes, limit);
    ++limits;
    smaller += chosen().name.find(", smaller ") != std::string::npos ? 1 : 0;
  }
  EXPECT_GT(smaller, 0);
  EXPECT_LT(smaller, limits);
}

// The hint's number of ranks is the smallest that compiles when it is requested, however many rounds that
// takes.
TEST_F(SplitModel, TheNumberOfRanksThatWouldDoIsTheSmallest) {
  CompileOptions o = options(network(3, 32, 32));
  o.machine = "h100";
  SplitReport report;
  const auto compiles = [&](int ranks, std::int64_t limit) {
    o.split.tensor_ranks = ranks;
    o.split.memory_limit = limit;
    try {
      return lower(o, report).graph.ranks == ranks;
    } catch (const ir::UserError& error) {
      EXPECT_TRUE(error.code() == 488 || error.code() == 487) << error.what();
      return false;
    }
  };
  const auto chosen = [&]() -> const SplitCandidate& { return *report.chosen_one(); };
  ASSERT_TRUE(compiles(2, 1 << 30));
  std::int64_t limit = chosen().bytes;
  int hints = 0, smaller = 0;
  for (; limit > 12'000; limit -= 2500) {
    if (compiles(2, limit)) continue;
    const std::string hint = frontend::error_of([&] { lower(o); }).hint();
    int told = 0;
    if (const std::size_t at = hint.find("(--tp "); at != std::string::npos)
      told = std::stoi(hint.substr(at + 6));
    int least = 0;
    for (int ranks = 3; ranks <= 64 && least == 0; ++ranks)
      if (compiles(ranks, limit)) least = ranks;
    EXPECT_EQ(told, least) << limit << ": " << hint;
    ++hints;
    smaller += least > 0 && chosen().name.find(", smaller ") != std::string::npos ? 1 : 0;
  }
  EXPECT_GT(hints, 10);
  EXPECT_GT(smaller, 0);
}

// Programs that fit on a line of ranks fit on a mesh of several axes: plans that split the same dimension on
// all axes take as much memory.
TEST_F(SplitModel, MeshesHaveAPlanWhereTheirLineHas) {
  CompileOptions o = options(layer(16, 32, 8));
  o.machine = "h100";
  SplitReport report;
  const auto bytes_on = [&](int ranks, const char* mesh) {
    o.split.tensor_ranks = ranks;
    o.split.mesh = mesh;
    lower(o, report);
    return report.chosen_one()->bytes;
  };
  // Each limit excludes the plan of the limit before.
  std::vector<std::int64_t> limits;
  try {
    for (;;) {
      const std::int64_t bytes = bytes_on(8, "");
      limits.push_back(bytes);
      o.split.memory_limit = bytes - 1;
    }
  } catch (const ir::UserError& error) {
    EXPECT_EQ(error.code(), 488) << error.what();
  }
  ASSERT_GE(limits.size(), 3u);
  limits.erase(limits.begin());  // of all that there is
  for (const std::int64_t limit : limits) {
    o.split.memory_limit = limit;
    EXPECT_LE(bytes_on(0, "dp=2,tp=4"), limit);
  }
}

// More memory is never less: where a limit has a plan, all that are larger have one.
TEST_F(SplitModel, LargerLimitsHaveAPlanToo) {
  CompileOptions o = options(network(3, 32, 32));
  o.machine = "h100";
  for (const int ranks : {2, 4}) {
    o.split.tensor_ranks = ranks;
    o.split.memory_limit.reset();
    SplitReport report;
    lower(o, report);
    const std::int64_t whole = report.chosen_one()->bytes;
    int kept = 0;
    std::int64_t refused = 0;
    for (std::int64_t limit = whole; limit > whole / 4; limit -= whole / 40) {
      o.split.memory_limit = limit;
      try {
        lower(o, report);
        EXPECT_EQ(refused, 0) << ranks << " ranks keep " << limit;
        ++kept;
      } catch (const ir::UserError& error) {
        EXPECT_EQ(error.code(), 488) << error.what();
        if (refused == 0) refused = limit;
      }
    }
    EXPECT_GT(kept, 1);
    EXPECT_GT(refused, 0);
  }
}

// The alternatives to a conversion have a price, or a reason why not, whichever search has found the plan.
TEST_F(SplitModel, AlternativesUnderLimitsHaveAPriceOrAReason) {
  CompileOptions o = options(network(3, 32, 32));
  o.machine = "h100";
  o.split.explain = true;
  SplitReport report;
  o.split.devices = 1;
  lower(o, report);
  const std::int64_t whole = report.candidates[0].bytes;
  int priced = 0, smaller = 0, several = 0;
  const auto explain = [&] {
    lower(o, report);
    const std::string text = to_string(report);
    for (const split::PlanConversion& c : report.plan.conversions) {
      EXPECT_NE(c.otherwise.has_value(), !c.unpriced.empty()) << c.value << "\n" << text;
      priced += c.otherwise ? 1 : 0;
      if (c.otherwise) continue;
      EXPECT_NE(text.find("; taken otherwise: not priced: " + c.unpriced), std::string::npos) << text;
    }
    EXPECT_FALSE(report.plan.conversions.empty());
    const SplitCandidate& chosen = *report.chosen_one();
    smaller += chosen.name.find(", smaller ") != std::string::npos ? 1 : 0;
    several += chosen.name.find("dp=2, tp=2") != std::string::npos ? 1 : 0;
  };
  o.split.devices = 2;
  for (std::int64_t limit = whole - 1; limit > 3 * whole / 4; limit -= 3072) {
    o.split.memory_limit = limit;
    explain();
  }
  o.split.devices = 0;
  o.split.mesh = "dp=2,tp=2";
  o.split.memory_limit = whole / 2;
  explain();
  EXPECT_GT(priced, 10);
  EXPECT_GT(smaller, 0);
  EXPECT_EQ(several, 1);
}

// Without a limit, the capacity of the machine is one.
TEST_F(SplitModel, MachinesHaveACapacity) {
  CompileOptions o = options(network(2, 4, 64));
  o.split.devices = 4;
  SplitReport report;
  const auto machine = [&](std::int64_t capacity) {
    std::string text;
    for (const analysis::EmbeddedMachine& m : analysis::embedded_machines())
      if (m.name == "h100") text = m.json;
    const std::string given = "\"capacity_gb\": 80";
    const std::size_t at = text.find(given);
    EXPECT_NE(at, std::string::npos);
    return folder_.write("small.json", text.replace(at, given.size(),
                                                    fmt::format("\"capacity_gb\": {:.9f}", capacity * 1e-9)));
  };
  o.machine = machine(1'000'000'000);
  ASSERT_EQ(lower(o, report).graph.ranks, 1);
  const std::int64_t whole = report.chosen_one()->bytes;
  o.machine = machine(whole - 1);
  EXPECT_GT(lower(o, report).graph.ranks, 1);
  EXPECT_LT(report.chosen_one()->bytes, whole);
  const std::string plan = folder_.write("given.plan", report.plan_text());
  o.machine = machine(1000);
  EXPECT_EQ(frontend::error_of([&] { lower(o); }).code(), 488);
  o.split.memory_limit = 1'000'000'000;  // what is asked for counts
  EXPECT_EQ(lower(o, report).graph.ranks, 1);
  o.split = {};
  o.split.plan_file = plan;  // and a plan is obeyed
  EXPECT_GT(lower(o, report).graph.ranks, 1);
}

}  // namespace
}  // namespace braid
