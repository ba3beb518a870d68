// Candidates of a split: what is chosen, that plans can be read again, that bounds hold and results are those of the plain model.
#include "driver/split.h"

#include <fmt/format.h>

#include <cstring>

#include "ir/interpreter.h"
#include "ir/printer.h"
#include "tests/frontend/models.h"

namespace braid {
namespace {

using frontend::TemporaryFolder;

std::string weight(const std::string& name, int rows, int columns) {
  std::string values;
  for (int i = 0; i < rows * columns; ++i) values += (i ? ", " : "") + std::to_string((i * 7 + 3) % 5 - 2);
  return fmt::format("float[{},{}] {} = {{{}}}", rows, columns, name, values);
}

// `layers` pairs of products with a residual, of whole numbers.
std::string network(int layers, int rows, int hidden) {
  std::string weights, nodes, x = "x";
  for (int l = 0; l < layers; ++l) {
    weights += (l ? ", " : "") + weight(fmt::format("up{}", l), hidden, 2 * hidden) + ", " +
               weight(fmt::format("down{}", l), 2 * hidden, hidden);
    nodes += fmt::format(
        "u{0} = MatMul({1}, up{0})\n r{0} = Relu(u{0})\n d{0} = MatMul(r{0}, down{0})\n y{0} = Add({1}, "
        "d{0})\n",
        l, x);
    x = fmt::format("y{}", l);
  }
  return fmt::format("g (float[{0},{1}] x) => (float[{0},{1}] y) <{2}> {{\n{3}y = Neg({4}) }}", rows, hidden,
                     weights, nodes, x);
}

class SplitModel : public ::testing::Test {
 protected:
  CompileOptions options(const std::string& text) {
    CompileOptions o;
    o.model = folder_.write("model.onnx", frontend::parse_model(text, 18));
    return o;
  }
  TemporaryFolder folder_;
};

std::vector<ir::Tensor> outputs_of(const ir::Schedule& schedule, const ir::Tensor& x) {
  const std::vector<std::vector<ir::Tensor>> inputs(static_cast<std::size_t>(schedule.graph.ranks), {x});
  std::vector<ir::Tensor> all;
  for (std::vector<ir::Tensor>& outputs : ir::run(schedule, inputs).outputs) all.push_back(outputs.at(0));
  return all;
}

ir::Tensor numbers(std::vector<std::int64_t> sizes) {
  ir::Tensor tensor = ir::make_tensor(ir::DType::f32, std::move(sizes));
  std::vector<float> values(static_cast<std::size_t>(tensor.numel()));
  for (std::size_t k = 0; k < values.size(); ++k)
    values[k] = static_cast<float>(static_cast<int>(k * 5 % 7) - 3);
  std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

TEST_F(SplitModel, TpObeysAndComputesThePlainModel) {
  CompileOptions o = options(network(2, 3, 8));
  const std::vector<ir::Tensor> plain = outputs_of(lower(o), numbers({3, 8}));
  for (const int ranks : {2, 4}) {
    o.split.tensor_ranks = ranks;
    SplitReport report;
    const ir::Schedule split = lower_split(o, report);
    EXPECT_EQ(split.graph.ranks, ranks);
    int collectives = 0;
    for (const auto& layer : report.plan.layers) collectives += layer.collectives;
    EXPECT_GE(collectives, 2);
    const std::vector<ir::Tensor> results = outputs_of(split, numbers({3, 8}));
    ASSERT_EQ(results.size(), static_cast<std::size_t>(ranks));
    for (const ir::Tensor& result : results) EXPECT_EQ(result, plain[0]);
  }
}

TEST_F(SplitModel, DevicesMayAnswerThatOneIsFaster) {
  CompileOptions o = options(network(2, 3, 8));
  o.machine = "h100";
  o.split.devices = 4;
  SplitReport report;
  EXPECT_EQ(lower_split(o, report).graph.ranks, 1);
  EXPECT_EQ(report.candidates[static_cast<std::size_t>(report.chosen)].name, "not split");
  EXPECT_EQ(report.plan_text(), "plan 1\nranks 1\n");
  EXPECT_NE(to_string(report).find("one device is the fastest"), std::string::npos);
}

TEST_F(SplitModel, DevicesSplitWhatIsLarge) {
  CompileOptions o = options(network(1, 512, 256));
  o.machine = "cpu";
  o.split.devices = 2;
  SplitReport report;
  EXPECT_EQ(lower_split(o, report).graph.ranks, 2);
  ASSERT_GE(report.candidates.size(), 2u);
  const SplitCandidate& chosen = report.candidates[static_cast<std::size_t>(report.chosen)];
  for (const SplitCandidate& other : report.candidates) EXPECT_LE(chosen.simulated, other.simulated);
  EXPECT_GT(report.gap(), 0);
}

TEST_F(SplitModel, BoundsAreBelowWhatIsSimulated) {
  for (const char* machine : {"cpu", "h100"}) {
    for (const int rows : {1, 64, 512}) {
      for (const int ranks : {2, 4}) {
        CompileOptions o = options(network(2, rows, 64));
        o.machine = machine;
        o.split.tensor_ranks = ranks;
        SplitReport report;
        lower_split(o, report);
        EXPECT_GT(report.lower_bound.ps, 0);
        for (const SplitCandidate& c : report.candidates) {
          ASSERT_TRUE(c.refused.empty()) << c.refused;
          EXPECT_LE(report.lower_bound, c.simulated)
              << machine << " " << rows << " " << ranks << " " << c.name;
        }
      }
    }
  }
}

TEST_F(SplitModel, APlanIsReadAgain) {
  CompileOptions o = options(network(2, 3, 8));
  o.split.tensor_ranks = 2;
  SplitReport report, again;
  const std::string chosen = ir::print(lower_split(o, report));
  o.split = {};
  o.split.plan_file = folder_.write("model.plan", report.plan_text());
  EXPECT_EQ(ir::print(lower_split(o, again)), chosen);
  EXPECT_EQ(again.plan_text(), report.plan_text());
  EXPECT_EQ(again.candidates.at(0).simulated,
            report.candidates[static_cast<std::size_t>(report.chosen)].simulated);
}

TEST_F(SplitModel, AMeshIsObeyedAndItsPlanReadAgain) {
  CompileOptions o = options(network(2, 4, 8));
  const std::vector<ir::Tensor> plain = outputs_of(lower(o), numbers({4, 8}));
  for (const char* mesh : {"dp=2,tp=2", "a=2,b=2,c=2", "tp=4"}) {
    o.split = {};
    o.split.mesh = mesh;
    SplitReport report, again;
    const ir::Schedule split = lower_split(o, report);
    EXPECT_EQ(split.graph.ranks, mesh[0] == 'a' ? 8 : 4);
    for (const ir::Tensor& result : outputs_of(split, numbers({4, 8}))) EXPECT_EQ(result, plain[0]) << mesh;
    EXPECT_FALSE(report.plan.splits_nothing());
    o.split = {};
    o.split.plan_file = folder_.write("model.plan", report.plan_text());
    EXPECT_EQ(ir::print(lower_split(o, again)), ir::print(split)) << report.plan_text();
    EXPECT_EQ(again.plan_text(), report.plan_text());
  }
}

TEST_F(SplitModel, DevicesTryMeshes) {
  CompileOptions o = options(network(1, 512, 256));
  o.machine = "cpu";
  o.split.devices = 4;
  SplitReport report;
  const ir::Schedule split = lower_split(o, report);
  const SplitCandidate& chosen = report.candidates[static_cast<std::size_t>(report.chosen)];
  EXPECT_EQ(split.graph.ranks, chosen.ranks);
  int meshes = 0;
  for (const SplitCandidate& c : report.candidates) {
    EXPECT_LE(chosen.simulated, c.simulated);
    if (c.name.find("dp=2, tp=2") != std::string::npos) ++meshes;
  }
  EXPECT_GE(meshes, 1) << to_string(report);
}

TEST_F(SplitModel, TheSameTwice) {
  CompileOptions o = options(network(3, 16, 32));
  o.split.tensor_ranks = 4;
  SplitReport first, second;
  EXPECT_EQ(ir::print(lower_split(o, first)), ir::print(lower_split(o, second)));
  EXPECT_EQ(to_string(first), to_string(second));
}

TEST_F(SplitModel, RequestsThatContradictEachOtherAreRefused) {
  const CompileOptions good = options(network(1, 3, 8));
  const auto code = [](const CompileOptions& o) { return frontend::error_of([&] { lower(o); }).code(); };
  CompileOptions o = good;
  o.split = {2, 2, ""};
  EXPECT_EQ(code(o), 484);
  o.split = {0, 2, "x.plan"};
  EXPECT_EQ(code(o), 484);
  o.split = {0, 2, ""};
  o.split.mesh = "dp=2,tp=2";
  EXPECT_EQ(code(o), 484);
  for (const char* mesh : {"dp=2,dp=2", "dp", "dp=0", "dp=2000"}) {
    o.split = {};
    o.split.mesh = mesh;
    EXPECT_EQ(code(o), 484) << mesh;
  }
  o = good;
  o.split.devices = 2;
  o.import.ranks = 2;
  EXPECT_EQ(code(o), 484);
  o = good;
  o.split.devices = 2;
  o.model = "program.braid";
  EXPECT_EQ(code(o), 484);
  o = good;
  o.split.plan_file = folder_.file("none.plan");
  EXPECT_EQ(code(o), 1);
}

}  // namespace
}  // namespace braid
