// Programs of the same weights that are split together (SplitOptions::with).
#include <fmt/format.h>

#include <cctype>
#include <functional>
#include <set>
#include <sstream>
#include <tuple>

#include "driver/split_report.h"
#include "tests/driver/split_models.h"

namespace braid {
namespace {

using test::network;
using test::numbers;
using test::outputs_of;
using test::SplitModel;

// A prefill and a decode of the same weights. `names` follows all names of nodes and activations.
std::string of_rows(int layers, int rows, int hidden, const std::string& names = "") {
  std::string text = network(layers, rows, hidden);
  for (const char letter : std::string("urd")) {
    for (int l = 0; l < layers; ++l) {
      const std::string name = fmt::format("{}{}", letter, l);
      for (std::size_t at = 0; (at = text.find(name, at)) != std::string::npos;
           at += name.size() + names.size()) {
        const bool word = std::isalnum(static_cast<unsigned char>(text[at - 1])) == 0;
        if (word) text.insert(at + name.size(), names);
      }
    }
  }
  return text;
}

class SplitPair : public SplitModel {
 protected:
  std::string file(const std::string& name, const std::string& text) {
    return folder_.write(name, frontend::parse_model(text, 18));
  }
  static SplitReport chosen(const std::string& model, std::int64_t steps, const std::string& with,
                            std::int64_t with_steps, int devices = 2) {
    CompileOptions o;
    o.model = model;
    o.machine = "cpu";
    o.split.tensor_ranks = devices;
    o.split.sizes = {{{}, steps}};
    o.split.with = {{with, {}, {}, {{}, with_steps}}};
    SplitReport report;
    lower(o, report);
    return report;
  }
  // Lines about weights.
  static std::vector<std::string> layout(const std::string& plan) {
    std::vector<std::string> lines;
    std::istringstream stream(plan);
    for (std::string line; std::getline(stream, line);) {
      if (line.starts_with("\"up") || line.starts_with("\"down"))
        lines.push_back(line.substr(0, line.find(' ')) + line.substr(line.find('=')));
    }
    return lines;
  }
};

TEST_F(SplitPair, FilesInAnotherOrderHaveTheSamePlans) {
  const std::string a = file("a.onnx", of_rows(2, 256, 64)), b = file("b.onnx", of_rows(2, 1, 64));
  const SplitReport one = chosen(a, 1, b, 100), other = chosen(b, 100, a, 1);
  ASSERT_EQ(one.candidates.size(), other.candidates.size());
  EXPECT_EQ(one.chosen, other.chosen);
  for (std::size_t k = 0; k < one.candidates.size(); ++k) {
    EXPECT_EQ(one.candidates[k].simulated, other.candidates[k].simulated);
    EXPECT_EQ(one.candidates[k].predicted, other.candidates[k].predicted);
  }
  EXPECT_EQ(one.lower_bound(), other.lower_bound());
  EXPECT_LE(one.lower_bound(), one.chosen_one()->simulated);
  EXPECT_EQ(one.plan.text, other.plan.with.at(0).text);
  EXPECT_EQ(other.plan.text, one.plan.with.at(0).text);
  EXPECT_EQ(layout(one.plan.text).size(), 4u);
  EXPECT_EQ(layout(one.plan.text), layout(other.plan.text));
  EXPECT_EQ(one.shared_weights, 4);
  EXPECT_EQ(one.shared_bytes, 4 * 64 * 128 * 4);
  const std::vector<SplitShare> all = shares(one);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ((all[0].own + all[1].own).ps, one.plan.predicted.ps);
  const SplitCandidate& best = *one.chosen_one();
  EXPECT_EQ(best.simulated.ps, all[0].steps.at(0).ps + 100 * all[1].steps.at(0).ps);
}

TEST_F(SplitPair, NamesOfNodesAndActivationsDecideNothing) {
  const std::string a = file("a.onnx", of_rows(2, 256, 64)), b = file("b.onnx", of_rows(2, 1, 64));
  const std::string renamed = file("renamed.onnx", of_rows(2, 256, 64, "_of_prefill"));
  const SplitReport one = chosen(a, 1, b, 100), other = chosen(renamed, 1, b, 100);
  EXPECT_NE(one.plan.text, other.plan.text);
  EXPECT_EQ(one.plan.with.at(0).text, other.plan.with.at(0).text);
  EXPECT_EQ(layout(one.plan.text), layout(other.plan.text));
  EXPECT_EQ(one.chosen, other.chosen);
  EXPECT_EQ(one.plan.predicted, other.plan.predicted);
}

// Weights of other names, in both files, change the names in the plans.
TEST_F(SplitPair, NamesOfWeightsDecideNothing) {
  const auto replaced = [](std::string text, const std::vector<std::pair<std::string, std::string>>& names) {
    for (const auto& [from, to] : names) {
      for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
        text.replace(at, from.size(), to);
    }
    return text;
  };
  const std::vector<std::pair<std::string, std::string>> names = {
      {"up0", "zeta"}, {"down0", "alpha"}, {"up1", "beta"}, {"down1", "omega"}};
  std::vector<std::pair<std::string, std::string>> back;
  for (const auto& [from, to] : names) back.push_back({to, from});
  const auto lines = [](const std::string& text) {
    std::multiset<std::string> all;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) all.insert(line);
    return all;
  };
  const std::string prefill = of_rows(2, 256, 64), decode = of_rows(2, 1, 64);
  const SplitReport one = chosen(file("a.onnx", prefill), 1, file("b.onnx", decode), 100);
  const SplitReport other =
      chosen(file("c.onnx", replaced(prefill, names)), 1, file("d.onnx", replaced(decode, names)), 100);
  EXPECT_EQ(one.chosen, other.chosen);
  EXPECT_EQ(one.plan.predicted, other.plan.predicted);
  EXPECT_EQ(lines(one.plan.text), lines(replaced(other.plan.text, back)));
  EXPECT_EQ(lines(one.plan.with.at(0).text), lines(replaced(other.plan.with.at(0).text, back)));
}

TEST_F(SplitPair, ProgramsComputeThePlainModels) {
  const std::string a = file("a.onnx", of_rows(2, 6, 8)), b = file("b.onnx", of_rows(2, 1, 8));
  for (const auto& [model, with, rows] : {std::tuple(a, b, 6), std::tuple(b, a, 1)}) {
    CompileOptions o;
    o.model = model;
    const std::vector<ir::Tensor> plain = outputs_of(lower(o), numbers({rows, 8}));
    o.split.tensor_ranks = 2;
    o.split.with = {{with, {}, {}, {}}};
    SplitReport report;
    for (const ir::Tensor& result : outputs_of(lower(o, report), numbers({rows, 8})))
      EXPECT_EQ(result, plain[0]);
  }
}

TEST_F(SplitPair, LimitsOfMemoryHoldForEachProgram) {
  const std::string a = file("a.onnx", of_rows(1, 2, 64)), b = file("b.onnx", of_rows(1, 512, 64));
  CompileOptions o;
  o.model = a;
  o.split.devices = 2;
  o.split.with = {{b, {}, {}, {}}};
  o.split.memory_limit = 200'000;  // of b alone more are needed
  SplitReport report;
  const ir::UserError error = frontend::error_of([&] { lower(o, report); });
  EXPECT_EQ(error.code(), 488);
  o.split.memory_limit = 2'000'000;
  lower(o, report);
  const SplitCandidate& best = *report.chosen_one();
  EXPECT_GT(best.with.at(0).bytes, best.bytes);
}

TEST_F(SplitPair, AlternativesAreNotPricedAndItIsSaid) {
  CompileOptions o;
  o.model = file("a.onnx", of_rows(1, 2, 64));
  o.split.tensor_ranks = 2;
  o.split.explain = true;
  o.split.with = {{file("b.onnx", of_rows(1, 512, 64)), {}, {}, {}}};
  SplitReport report;
  lower(o, report);
  ASSERT_FALSE(report.plan.conversions.empty());
  for (const split::PlanConversion& c : report.plan.conversions) {
    EXPECT_FALSE(c.otherwise);
    EXPECT_NE(c.unpriced.find("share their weights"), std::string::npos) << c.unpriced;
  }
}

TEST_F(SplitPair, ProgramsThatDoNotFitTogetherAreRefused) {
  const std::string a = file("a.onnx", of_rows(1, 2, 8)), b = file("b.onnx", of_rows(1, 4, 8));
  std::string changed = of_rows(1, 4, 8);
  changed.replace(changed.find("{1,"), 3, "{9,");
  const auto refused = [&](const std::function<void(CompileOptions&)>& change, int code, const char* what) {
    CompileOptions o;
    o.model = a;
    o.split.devices = 2;
    o.split.with = {{b, {}, {}, {}}};
    change(o);
    SplitReport report;
    const ir::UserError error = frontend::error_of([&] { lower(o, report); });
    EXPECT_EQ(error.code(), code) << error.message();
    EXPECT_NE(error.message().find(what), std::string::npos) << error.message();
  };
  refused([&](CompileOptions& o) { o.split.with[0].model = file("c.onnx", changed); }, 494,
          "have different bytes");
  refused([&](CompileOptions& o) { o.split.with[0].model = a; }, 494, "given already");
  refused([&](CompileOptions& o) { o.split.with.push_back(o.split.with[0]); }, 494, "given already");
  refused([&](CompileOptions& o) { o.split.with[0].model = folder_.file("none.onnx"); }, 1,
          "cannot read the file");
  refused([&](CompileOptions& o) { o.split.with[0].model = "m.rank{rank}.onnx"; }, 494, "plain ONNX model");
  refused([&](CompileOptions& o) { o.split.with[0].sizes.dims["n"] = 3; }, 484,
          "the dimension has no bounds");
  refused([&](CompileOptions& o) { o.split.configuration = "c"; }, 484, "--with and --configuration");
  refused(
      [&](CompileOptions& o) {
        o.split.devices = 0;
        o.split.plan_file = "plan";
      },
      484, "--with and --plan");
}

}  // namespace
}  // namespace braid
