// Candidates of a split: what is chosen, that plans can be read again, that bounds hold and results are those of the plain model.
#include "driver/split.h"

#include <fmt/format.h>

#include <cctype>
#include <cstring>
#include <functional>
#include <random>
#include <set>
#include <sstream>
#include <tuple>

#include "analysis/costs/embedded_machines.h"
#include "analysis/measure.h"
#include "driver/plain_program.h"
#include "frontend/sharding/bounds.h"
#include "frontend/sharding/machine_costs.h"
#include "frontend/sharding/work.h"
#include "ir/interpreter.h"
#include "ir/printer.h"
#include "tests/frontend/models.h"
#include "tests/frontend/sharding/chosen.h"

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

// Candidates are priced with any bytes in the parts of large weights; what is returned has its own, unless nobody needs them.
TEST_F(SplitModel, LargeWeightsAreCutOfTheChosenPlan) {
  CompileOptions o = options(network(2, 3, 128));  // weights of 128 KiB
  const std::vector<ir::Tensor> plain = outputs_of(lower(o), numbers({3, 128}));
  o.split.tensor_ranks = 2;
  SplitReport report, of_sizes;
  const ir::Schedule split = lower_split(o, report);
  for (const ir::Tensor& result : outputs_of(split, numbers({3, 128}))) EXPECT_EQ(result, plain[0]);
  o.split.weights = false;
  const ir::Schedule sizes = lower_split(o, of_sizes);
  EXPECT_EQ(to_string(report), to_string(of_sizes));
  ASSERT_EQ(sizes.graph.storages.size(), split.graph.storages.size());
  int cut = 0, any = 0;
  for (std::size_t k = 0; k < split.graph.storages.size(); ++k) {
    const auto &own = split.graph.storages[k].data.per_rank, &other = sizes.graph.storages[k].data.per_rank;
    ASSERT_EQ(own.size(), other.size());
    for (std::size_t r = 0; r < own.size(); ++r) EXPECT_EQ(own[r].size(), other[r].size());
    if (own.size() < 2) continue;
    ++cut;
    any += other[0].data() == other[1].data() ? 1 : 0;
    EXPECT_NE(own[0].data(), own[1].data());
  }
  EXPECT_EQ(cut, 4);
  EXPECT_EQ(any, 4);
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
  for (const SplitCandidate& other : report.candidates) {
    ASSERT_TRUE(other.refused.empty()) << other.refused;
    EXPECT_LE(chosen.simulated, other.skipped ? other.floor : other.simulated);
  }
  EXPECT_GT(report.gap(), 0);
}

// Without sizes a candidate that must be longer than the runner-up is not simulated; with sizes, here the same ones, all are.
TEST_F(SplitModel, WhatIsNotSimulatedWouldNotBeChosen) {
  int left_out = 0;
  for (const char* machine : {"cpu", "h100"}) {
    for (const int rows : {16, 256, 2048}) {
      for (const int hidden : {64, 256}) {
        CompileOptions o = options(network(2, rows, hidden));
        o.machine = machine;
        o.split.devices = 8;
        SplitReport some, all;
        const ir::Schedule chosen = lower_split(o, some);
        o.split.sizes.emplace_back();
        EXPECT_EQ(ir::print(lower_split(o, all)), ir::print(chosen));
        EXPECT_EQ(some.chosen, all.chosen);
        EXPECT_EQ(some.runner_up(), all.runner_up());
        ASSERT_EQ(some.candidates.size(), all.candidates.size());
        for (std::size_t k = 0; k < some.candidates.size(); ++k) {
          const SplitCandidate &a = some.candidates[k], &b = all.candidates[k];
          EXPECT_EQ(a.plan, b.plan);
          EXPECT_LE(b.skipped, a.skipped);
          if (!a.skipped) {
            EXPECT_EQ(a.simulated, b.simulated);
          }
          if (!a.skipped || b.skipped) continue;
          ++left_out;
          EXPECT_LE(a.floor, b.simulated) << machine << " " << rows << " " << hidden << " " << a.name;
          EXPECT_NE(to_string(some).find(fmt::format("over {:.3f}", a.floor.us())), std::string::npos);
        }
      }
    }
  }
  EXPECT_GT(left_out, 0);
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
        EXPECT_GT(report.lower_bound().ps, 0);
        for (const SplitCandidate& c : report.candidates) {
          ASSERT_TRUE(c.refused.empty()) << c.refused;
          EXPECT_LE(report.lower_bound(), c.skipped ? c.floor : c.simulated)
              << machine << " " << rows << " " << ranks << " " << c.name;
        }
      }
    }
  }
}

// A layer with norms, attention over `heads` and two products.
std::string layer(int sequence, int hidden, int heads) {
  std::string weights = fmt::format(
      "int64[1] last = {{-1}}, int64[4] apart = {{1, {}, {}, {}}}, int64[3] together = {{1, {}, {}}}",
      sequence, heads, hidden / heads, sequence, hidden);
  for (const char* name : {"wq", "wk", "wv", "wo"}) weights += ", " + weight(name, hidden, hidden);
  weights += ", " + weight("up", hidden, 2 * hidden) + ", " + weight("down", 2 * hidden, hidden);
  return fmt::format(
      "g (float[1,{0},{1}] x) => (float[1,{0},{1}] y) <{2}> {{\n"
      "m = ReduceMean(x, last)\n n = Sub(x, m)\n"
      "q = MatMul(n, wq)\n k = MatMul(n, wk)\n v = MatMul(n, wv)\n"
      "q4 = Reshape(q, apart)\n k4 = Reshape(k, apart)\n v4 = Reshape(v, apart)\n"
      "qt = Transpose<perm = [0, 2, 1, 3]>(q4)\n kt = Transpose<perm = [0, 2, 3, 1]>(k4)\n"
      "vt = Transpose<perm = [0, 2, 1, 3]>(v4)\n"
      "s = MatMul(qt, kt)\n p = Softmax<axis = -1>(s)\n c = MatMul(p, vt)\n"
      "ct = Transpose<perm = [0, 2, 1, 3]>(c)\n c3 = Reshape(ct, together)\n a = MatMul(c3, wo)\n"
      "r = Add(x, a)\n m2 = ReduceMean(r, last)\n n2 = Sub(r, m2)\n u = MatMul(n2, up)\n g = Relu(u)\n"
      "d = MatMul(g, down)\n y = Add(r, d) }}",
      sequence, hidden, weights);
}

// One token's, whose caches of `past` rows are returned with a new one.
std::string cached_layer(int past, int hidden, int heads) {
  std::string weights = fmt::format("int64[4] apart = {{1, 1, {}, {}}}, int64[3] together = {{1, 1, {}}}",
                                    heads, hidden / heads, hidden);
  for (const char* name : {"wq", "wk", "wv", "wo"}) weights += ", " + weight(name, hidden, hidden);
  weights += ", " + weight("head", 3 * hidden, hidden);
  return fmt::format(
      "g (float[1,1,{0}] x, float[1,{1},{2},{3}] past_k, float[1,{1},{2},{3}] past_v) =>\n"
      "  (float[1,1,{4}] y, float[1,{1},{5},{3}] present_k, float[1,{1},{5},{3}] present_v) <{6}> {{\n"
      "q = MatMul(x, wq)\n k = MatMul(x, wk)\n v = MatMul(x, wv)\n"
      "q4 = Reshape(q, apart)\n k4 = Reshape(k, apart)\n v4 = Reshape(v, apart)\n"
      "qt = Transpose<perm = [0, 2, 1, 3]>(q4)\n kt = Transpose<perm = [0, 2, 1, 3]>(k4)\n"
      "vt = Transpose<perm = [0, 2, 1, 3]>(v4)\n"
      "present_k = Concat<axis = 2>(past_k, kt)\n present_v = Concat<axis = 2>(past_v, vt)\n"
      "across = Transpose<perm = [0, 1, 3, 2]>(present_k)\n"
      "s = MatMul(qt, across)\n p = Softmax<axis = -1>(s)\n c = MatMul(p, present_v)\n"
      "ct = Transpose<perm = [0, 2, 1, 3]>(c)\n c3 = Reshape(ct, together)\n a = MatMul(c3, wo)\n"
      "r = Add(x, a)\n t = Transpose<perm = [1, 0]>(head)\n y = MatMul(r, t) }}",
      hidden, heads, past, hidden / heads, 3 * hidden, past + 1, weights);
}

// `layers` of one token's, with queries and keys that are rotated by position and caches of `past` rows.
std::string rotated_layers(int layers, int past, int hidden, int heads) {
  const int size = hidden / heads;
  std::string weights = fmt::format(
      "int64[4] apart = {{1, 1, {}, {}}}, int64[3] together = {{1, 1, {}}}, int64[1] zero = {{0}}, int64[1] "
      "half = "
      "{{{}}}, int64[1] end = {{{}}}, int64[1] axis = {{3}}, int64[1] last = {{-1}}, {}, {}",
      heads, size, hidden, size / 2, size, weight("cosine", 1, size), weight("sine", 1, size));
  std::string given, results, nodes, x = "x";
  for (int l = 0; l < layers; ++l) {
    for (const char* name : {"wq", "wk", "wv", "wo"})
      weights += ", " + weight(fmt::format("{}{}", name, l), hidden, hidden);
    weights += ", " + weight(fmt::format("gate{}", l), hidden, 2 * hidden) + ", " +
               weight(fmt::format("up{}", l), hidden, 2 * hidden) + ", " +
               weight(fmt::format("down{}", l), 2 * hidden, hidden);
    given +=
        fmt::format(", float[1,{1},{2},{3}] past_k{0}, float[1,{1},{2},{3}] past_v{0}", l, heads, past, size);
    results += fmt::format(", float[1,{1},{2},{3}] present_k{0}, float[1,{1},{2},{3}] present_v{0}", l, heads,
                           past + 1, size);
    const auto rotated = [&](const char* t) {
      return fmt::format(
          "{1}a{0} = Slice({1}t{0}, zero, half, axis)\n {1}b{0} = Slice({1}t{0}, half, end, axis)\n"
          "{1}n{0} = Neg({1}b{0})\n {1}c{0} = Concat<axis = -1>({1}n{0}, {1}a{0})\n"
          "{1}f{0} = Mul({1}t{0}, cosine)\n {1}s{0} = Mul({1}c{0}, sine)\n {1}r{0} = Add({1}f{0}, {1}s{0})\n",
          l, t);
    };
    nodes += fmt::format(
        "m{0} = ReduceMean({1}, last)\n d{0} = Sub({1}, m{0})\n"
        "q{0} = MatMul(d{0}, wq{0})\n k{0} = MatMul(d{0}, wk{0})\n v{0} = MatMul(d{0}, wv{0})\n"
        "q4{0} = Reshape(q{0}, apart)\n k4{0} = Reshape(k{0}, apart)\n v4{0} = Reshape(v{0}, apart)\n"
        "qt{0} = Transpose<perm = [0, 2, 1, 3]>(q4{0})\n kt{0} = Transpose<perm = [0, 2, 1, 3]>(k4{0})\n"
        "vt{0} = Transpose<perm = [0, 2, 1, 3]>(v4{0})\n{2}{3}"
        "present_k{0} = Concat<axis = 2>(past_k{0}, kr{0})\n present_v{0} = Concat<axis = 2>(past_v{0}, "
        "vt{0})\n"
        "across{0} = Transpose<perm = [0, 1, 3, 2]>(present_k{0})\n"
        "s{0} = MatMul(qr{0}, across{0})\n p{0} = Softmax<axis = -1>(s{0})\n c{0} = MatMul(p{0}, "
        "present_v{0})\n"
        "ct{0} = Transpose<perm = [0, 2, 1, 3]>(c{0})\n c3{0} = Reshape(ct{0}, together)\n a{0} = "
        "MatMul(c3{0}, wo{0})\n"
        "r{0} = Add({1}, a{0})\n mm{0} = ReduceMean(r{0}, last)\n dd{0} = Sub(r{0}, mm{0})\n"
        "g{0} = MatMul(dd{0}, gate{0})\n gs{0} = Sigmoid(g{0})\n gg{0} = Mul(g{0}, gs{0})\n"
        "u{0} = MatMul(dd{0}, up{0})\n i{0} = Mul(gg{0}, u{0})\n o{0} = MatMul(i{0}, down{0})\n y{0} = "
        "Add(r{0}, o{0})\n",
        l, x, rotated("q"), rotated("k"));
    x = fmt::format("y{}", l);
  }
  return fmt::format("g (float[1,1,{0}] x{1}) => (float[1,1,{0}] y{2}) <{3}> {{\n{4}y = Neg({5}) }}", hidden,
                     given, results, weights, nodes, x);
}

// Random steps over [rows, columns]: products, reductions, halves that change places, what is read later again.
std::string random_steps(unsigned seed, int rows, int columns) {
  std::mt19937 random(seed);
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  std::string weights = fmt::format(
      "int64[1] zero = {{0}}, int64[1] half = {{{}}}, int64[1] end = {{{}}}, int64[1] axis = {{1}}, int64[1] "
      "last = "
      "{{-1}}, {}",
      columns / 2, columns, weight("turn", 1, columns));
  std::string nodes;
  std::vector<std::string> made = {"x"};
  const auto one_of = [&] {  // mostly of the last ones
    const int back = std::min<int>(pick(pick(3) == 0 ? 6 : 2), static_cast<int>(made.size()) - 1);
    return made[made.size() - 1 - static_cast<std::size_t>(back)];
  };
  const int steps = 5 + pick(8);
  for (int k = 0; k < steps; ++k) {
    const std::string a = one_of(), b = one_of(), y = fmt::format("v{}", k);
    switch (pick(7)) {
      case 0:
      case 1:
      case 2:
        weights += ", " + weight(fmt::format("w{}", k), columns, columns);
        nodes += fmt::format("{} = MatMul({}, w{})\n", y, a, k);
        break;
      case 3:
        nodes += fmt::format("m{0} = ReduceMean({1}, last)\n {2} = Sub({3}, m{0})\n", k, a, y, b);
        break;
      case 4:
      case 5:
        nodes += fmt::format(
            "a{0} = Slice({1}, zero, half, axis)\n b{0} = Slice({1}, half, end, axis)\n"
            "c{0} = Concat<axis = -1>(b{0}, a{0})\n t{0} = Mul(c{0}, turn)\n {2} = Add({3}, t{0})\n",
            k, a, y, pick(3) == 0 ? b : a);
        break;
      default:
        nodes += fmt::format("{} = Add({}, {})\n", y, a, b);
    }
    made.push_back(y);
  }
  weights += ", " + weight("end_w", columns, columns);
  return fmt::format(
      "g (float[{0},{1}] x) => (float[{0},{1}] y) <{2}> {{\n{3}z = MatMul({4}, end_w)\n y = Add(z, {5}) }}",
      rows, columns, weights, nodes, made.back(), one_of());
}

// What is simulated of plans, beside their bounds and those of all plans.
class Bounded {
 public:
  Bounded(const CompileOptions& options, const char* machine)
      : quiet_(options), model_(options.model, options.import) {
    quiet_.machine = machine;
    costs_ = pass_context(quiet_).costs;
    attention_ = attention_flops(model_.lower(1, nullptr), *costs_);
    joins_ = product_joins(model_.lower(1, nullptr));
    joins += static_cast<int>(joins_.size());
  }

  // The cheapest plan and some that no sensible machine would want. `cells`: of the tables of a space that is searched as a whole.
  void try_plans(const frontend::sharding::Mesh& mesh, unsigned seeds,
                 std::size_t cells = std::size_t{1} << 22) {
    using namespace frontend::sharding;
    std::vector<std::pair<std::string, PlanBounds>> tried;
    PlanBounds all;
    analysis::Time least;
    model_.with_graph([&](const Graph& graph) {
      SpaceOptions options;
      options.cells = cells;
      const SplitSpace space(graph, mesh, options);
      large += space.large() ? 1 : 0;
      SolveOptions solve;
      if (mesh.size() > 1) solve.budget = std::int64_t{1} << 21;  // any plan will do, and any bound holds
      BoundSearch bounds(graph, space, costs_,
                         {.solve = solve, .attention_flops = attention_, .joins = joins_});
      const SplitChoice cheapest = choose_split(space, split_costs(costs_), solve);
      all = bounds.over_plans(cheapest.solution.choice);
      least = least_time(graph, mesh.ranks(), costs_, BoundOptions{.attention_flops = attention_});
      tried.push_back({to_string(cheapest.plan), bounds.of_plan(cheapest.solution.choice)});
      for (unsigned seed = 1; seed <= seeds; ++seed) {
        const SplitChoice choice = choose_split(space, test_costs(seed), solve);
        tried.push_back({to_string(choice.plan), bounds.of_plan(choice.solution.choice)});
      }
    });
    EXPECT_GT(all.order.ps, 0);
    EXPECT_GE(all.order, all.loads);
    for (const auto& [plan, own] : tried) {
      ir::Schedule schedule = model_.lower(mesh.ranks(), plan_request(plan, "").get());
      optimise(schedule, quiet_);
      const analysis::Time simulated =
          analysis::measure(schedule, *costs_, {.bounds = false, .planned = false}).makespan;
      EXPECT_LE(own.order, simulated) << quiet_.machine << " " << to_string(mesh) << "\n" << plan;
      EXPECT_LE(all.order, own.order) << quiet_.machine << " " << to_string(mesh) << "\n" << plan;
      EXPECT_LE(own.loads, own.order);
      EXPECT_LE(least, own.loads) << quiet_.machine << " " << to_string(mesh) << "\n" << plan;
      const auto share = [&](analysis::Time bound) {
        return static_cast<double>(bound.ps) / static_cast<double>(simulated.ps);
      };
      tightest = std::max(tightest, share(own.order));
      tightest_of_all = std::max(tightest_of_all, share(all.order));
      ++plans;
      split += plan.find("->") != std::string::npos ? 1 : 0;
    }
  }
  bool attends() const { return !attention_.empty(); }

  static inline int plans = 0, split = 0, large = 0, joins = 0;
  static inline double tightest = 0, tightest_of_all = 0;
  static void reset() { plans = split = large = joins = 0, tightest = tightest_of_all = 0; }

 private:
  CompileOptions quiet_;
  frontend::PlainModel model_;
  std::shared_ptr<const analysis::CostModel> costs_;
  std::map<std::string, double> attention_;
  std::vector<frontend::sharding::ProductJoin> joins_;
};

// None is simulated faster than its own bounds, and none than those of all plans.
TEST_F(SplitModel, NoPlanIsFasterThanTheBounds) {
  using frontend::sharding::Mesh;
  Bounded::reset();
  int attended = 0;
  for (const std::string& text :
       {network(2, 64, 32), layer(16, 32, 4), layer(1, 64, 4), cached_layer(200, 32, 4),
        cached_layer(3, 64, 4), rotated_layers(2, 10'000, 64, 4)}) {
    for (const char* machine : {"cpu", "h100"}) {
      Bounded model(options(text), machine);
      for (const int ranks : {2, 4}) model.try_plans(Mesh::line(ranks), 12);
      attended += model.attends() ? 1 : 0;
    }
  }
  EXPECT_EQ(Bounded::plans, 6 * 2 * 2 * 13);
  EXPECT_EQ(Bounded::joins, 2 * 2 * 2 * 2);  // halves of queries and keys of each layer
  EXPECT_GE(Bounded::split, Bounded::plans / 2);
  EXPECT_EQ(Bounded::large, 0);
  EXPECT_GT(attended, 0);
  EXPECT_GT(Bounded::tightest, 0.7);  // a bound that says little would hold as well
}

// Rows so short that launches are most of the time.
TEST_F(SplitModel, NoPlanOfRandomStepsIsFasterThanTheBounds) {
  using frontend::sharding::Mesh;
  Bounded::reset();
  for (unsigned seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Bounded model(options(random_steps(seed, seed % 2 == 0 ? 1 : 8, 32)), "h100");
    for (const int ranks : {2, 4}) model.try_plans(Mesh::line(ranks), 3);
  }
  EXPECT_GT(Bounded::joins, 20);
  EXPECT_GT(Bounded::tightest, 0.9);
}

// The same on two and three axes, searched as a whole and not.
TEST_F(SplitModel, NoPlanOnSeveralAxesIsFasterThanTheBounds) {
  using frontend::sharding::parse_mesh;
  Bounded::reset();
  for (const std::string& text : {network(1, 256, 128), layer(16, 32, 4), cached_layer(200, 32, 4)}) {
    for (const char* machine : {"cpu", "h100"}) {
      Bounded model(options(text), machine);
      for (const std::size_t cells : {std::size_t{1} << 22, std::size_t{0}})
        model.try_plans(parse_mesh("dp=2,tp=2", "mesh"), 4, cells);
    }
  }
  // Three axes have too many states for more than a small model.
  for (const char* machine : {"cpu", "h100"}) {
    Bounded model(options(network(1, 256, 128)), machine);
    model.try_plans(parse_mesh("dp=2,ep=2,tp=2", "mesh"), 4, 0);
  }
  EXPECT_EQ(Bounded::plans, 3 * 2 * (5 + 5) + 2 * 5);
  EXPECT_GE(Bounded::split, Bounded::plans / 2);
  EXPECT_EQ(Bounded::large, 3 * 2 + 2);
  EXPECT_GT(Bounded::tightest, 0.7);
  EXPECT_GT(Bounded::tightest_of_all, 0.6);
}

TEST_F(SplitModel, HeadsThatDoNotDivideAreNamed) {
  CompileOptions o = options(layer(5, 24, 6));
  const auto error = [&](int ranks) {
    o.split.tensor_ranks = ranks;
    return frontend::error_of([&] { lower(o); });
  };
  EXPECT_EQ(error(4).code(), 487);  // BR0487
  EXPECT_NE(error(4).message().find("the 6 heads of 's' are not divisible by 4"), std::string::npos)
      << error(4).message();
  EXPECT_NE(error(4).hint().find("would do: 2, 3, 6;"), std::string::npos) << error(4).hint();
  for (const int ranks : {2, 3, 6}) {
    o.split.tensor_ranks = ranks;
    EXPECT_EQ(lower(o).graph.ranks, ranks);
  }
  // Others may leave attention whole.
  o.split = {};
  o.split.devices = 4;
  EXPECT_NO_THROW(lower(o));
  // Without attention: a dimension of some product.
  o = options(network(1, 5, 6));
  o.split.tensor_ranks = 5;  // the rows
  EXPECT_NO_THROW(lower(o));
  EXPECT_EQ(error(7).code(), 487);
  EXPECT_NE(error(7).message().find("such as that with 'up0' of 6 x 12"), std::string::npos)
      << error(7).message();
  EXPECT_NE(error(7).hint().find("2, 3, 4, 5, 6, 12"), std::string::npos) << error(7).hint();
}

TEST_F(SplitModel, StrictRefusesWhatIsReplicatedWithoutARule) {
  CompileOptions o = options(network(1, 64, 32));
  o.split.tensor_ranks = 2;
  o.split.strict = true;
  o.split.conversion_share = 100;
  EXPECT_NO_THROW(lower(o));
  o.split.conversion_share = 0;
  const ir::UserError error = frontend::error_of([&] { lower(o); });
  EXPECT_EQ(error.code(), 489);  // BR0489
  EXPECT_NE(error.message().find("'d0': P(sum) -> "), std::string::npos) << error.message();
  o = options("g (float[4,4] x) => (float[4,4] y) <" + weight("w", 4, 4) +
              "> { h = MatMul(x, w)\n z = RandomNormalLike<seed = 1.0>(h)\n y = Add(h, z) }");
  o.split.tensor_ranks = 2;
  EXPECT_NO_THROW(lower(o));
  o.split.strict = true;
  o.split.conversion_share = 100;
  const ir::UserError replicated = frontend::error_of([&] { lower(o); });
  EXPECT_EQ(replicated.code(), 489);
  EXPECT_NE(replicated.message().find("1 RandomNormalLike computed whole"), std::string::npos)
      << replicated.message();
}

// The weights are most of the memory: half of them fits into a device where the whole does not.
TEST_F(SplitModel, MemoryLimitsAreKept) {
  CompileOptions o = options(network(2, 4, 64));
  o.machine = "h100";  // on which splitting does not pay
  o.split.devices = 4;
  SplitReport free, limited;
  ASSERT_EQ(lower_split(o, free).graph.ranks, 1);
  const std::int64_t whole = free.candidates[static_cast<std::size_t>(free.chosen)].bytes;
  EXPECT_GT(whole, 4 * 2 * 2 * 64 * 128);
  o.split.memory_limit = whole - 1;
  EXPECT_GT(lower_split(o, limited).graph.ranks, 1);
  const SplitCandidate& chosen = limited.candidates[static_cast<std::size_t>(limited.chosen)];
  EXPECT_LE(chosen.bytes, whole - 1);
  EXPECT_GE(chosen.simulated, free.candidates[static_cast<std::size_t>(free.chosen)].simulated);
  for (const SplitCandidate& c : limited.candidates) EXPECT_TRUE(!c.refused.empty() || c.bytes <= whole - 1);
  // Exactly as much as it takes is enough.
  o.split.memory_limit = whole;
  EXPECT_EQ(lower_split(o, limited).graph.ranks, 1);
  o.split.memory_limit = whole / 6;
  const ir::UserError error = frontend::error_of([&] { lower(o); });
  EXPECT_EQ(error.code(), 488);  // BR0488
  EXPECT_NE(error.message().find("1 ranks: at least "), std::string::npos) << error.message();
  EXPECT_NE(error.message().find("'up0' R: 32.0 KiB"), std::string::npos) << error.message();
  EXPECT_NE(error.hint().find("8 ranks would do"), std::string::npos) << error.hint();
  o.split.devices = 8;
  EXPECT_EQ(lower_split(o, limited).graph.ranks, 8);
  o.split.devices = 7;  // padded parts are larger
  EXPECT_EQ(frontend::error_of([&] { lower(o); }).code(), 488);
  o.split.memory_limit = 100;
  EXPECT_NE(frontend::error_of([&] { lower(o); }).hint().find("no number of ranks"), std::string::npos);
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
  ASSERT_EQ(lower_split(o, report).graph.ranks, 1);
  const std::int64_t whole = report.candidates[static_cast<std::size_t>(report.chosen)].bytes;
  o.machine = machine(whole - 1);
  EXPECT_GT(lower_split(o, report).graph.ranks, 1);
  EXPECT_LT(report.candidates[static_cast<std::size_t>(report.chosen)].bytes, whole);
  const std::string plan = folder_.write("given.plan", report.plan_text());
  o.machine = machine(1000);
  EXPECT_EQ(frontend::error_of([&] { lower(o); }).code(), 488);
  o.split.memory_limit = 1'000'000'000;  // what is asked for counts
  EXPECT_EQ(lower_split(o, report).graph.ranks, 1);
  o.split = {};
  o.split.plan_file = plan;  // and a plan is obeyed
  EXPECT_GT(lower_split(o, report).graph.ranks, 1);
}

// Rows that are looked up while the program runs are no constants, nor is what is joined with something computed.
TEST_F(SplitModel, OnlyConstantsMoveForNothing) {
  using namespace frontend::sharding;
  const CompileOptions o =
      options("g (int64[4] ids, float[2,8] x) => (float[4,8] rows, float[8,8] joined, float[2,6] y) <" +
              weight("table", 6, 8) +
              "> { rows = Gather(table, ids)\n joined = Concat<axis = 0>(table, x)\n"
              "t = Transpose<perm = [1, 0]>(table)\n y = MatMul(x, t) }");
  frontend::PlainModel model(o.model, o.import);
  model.with_graph([&](const Graph& graph) {
    const auto moved = [&](const char* name) {
      return is_moved_constant(graph, graph.values[static_cast<std::size_t>(graph.find(name))]);
    };
    EXPECT_TRUE(moved("table"));
    EXPECT_TRUE(moved("t"));
    for (const char* name : {"ids", "x", "rows", "joined", "y"}) EXPECT_FALSE(moved(name)) << name;
    const SplitCosts costs = split_costs(pass_context(o).costs);
    for (const GraphNode& node : graph.nodes) {
      if (node.compile_time) continue;
      const Strategy whole{{{}, {}}, {{}}, -1, {}};
      const Cost cost = costs.node(graph, node, whole, 1);
      EXPECT_EQ(cost == 0, node.proto->op_type() == "Transpose") << node.proto->op_type();
    }
  });
}

// 51 columns over 2 ranks: padded, or the sum over the rows of the weights is split.
TEST_F(SplitModel, PlansWithoutPaddingAreTriedToo) {
  CompileOptions o = options(
      fmt::format("g (float[4,64] x) => (float[4,51] y) <{}> {{ y = MatMul(x, w) }}", weight("w", 64, 51)));
  o.split.tensor_ranks = 2;
  SplitReport report;
  const ir::Schedule split = lower_split(o, report);
  const auto without = [](const SplitCandidate& c) { return c.name.ends_with(", no padding"); };
  EXPECT_EQ(std::ranges::count_if(report.candidates, without), 1) << to_string(report);
  EXPECT_GT(report.candidates.size(), 1u);
  for (const SplitCandidate& c : report.candidates) {
    if (c.ran()) {
      EXPECT_GE(c.simulated, report.candidates[static_cast<std::size_t>(report.chosen)].simulated);
    }
  }
  o.split.tensor_ranks = 3;  // 51 is 3 * 17
  lower_split(o, report);
  EXPECT_EQ(std::ranges::count_if(report.candidates, without), 0) << to_string(report);
}

TEST_F(SplitModel, KeptLinesAreInThePlan) {
  CompileOptions o = options(network(1, 64, 32));
  o.split.devices = 4;
  o.split.keep_file = folder_.write("kept.plan", "plan 1\nranks 2\n\"u0\" = S(0)\n");
  SplitReport report;
  EXPECT_EQ(lower_split(o, report).graph.ranks, 2);
  EXPECT_NE(report.plan_text().find("\"u0\" = S(0)\n"), std::string::npos) << report.plan_text();
  o.split.devices = 3;
  EXPECT_EQ(frontend::error_of([&] { lower(o); }).code(), 484);
  o.split.devices = 2;
  o.split.keep_file = folder_.write("kept.plan", "plan 1\nranks 2\n\"u9\" = S(0)\n");
  const ir::UserError error = frontend::error_of([&] { lower(o); });
  EXPECT_EQ(error.code(), 482);
  EXPECT_NE(error.message().find("line 3: the model has no tensor 'u9'"), std::string::npos)
      << error.message();
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
    if (c.ran()) {
      EXPECT_LE(chosen.simulated, c.simulated);
    }
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
    lower_split(o, report);
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
  EXPECT_LE(one.lower_bound(), one.candidates[static_cast<std::size_t>(one.chosen)].simulated);
  EXPECT_EQ(one.plan.text, other.plan.with.at(0).text);
  EXPECT_EQ(other.plan.text, one.plan.with.at(0).text);
  EXPECT_EQ(layout(one.plan.text).size(), 4u);
  EXPECT_EQ(layout(one.plan.text), layout(other.plan.text));
  EXPECT_EQ(one.shared_weights, 4);
  EXPECT_EQ(one.shared_bytes, 4 * 64 * 128 * 4);
  const std::vector<SplitShare> all = shares(one);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ((all[0].own + all[1].own).ps, one.plan.predicted.ps);
  const SplitCandidate& best = one.candidates[static_cast<std::size_t>(one.chosen)];
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
    for (const ir::Tensor& result : outputs_of(lower_split(o, report), numbers({rows, 8})))
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
  const ir::UserError error = frontend::error_of([&] { lower_split(o, report); });
  EXPECT_EQ(error.code(), 488);
  o.split.memory_limit = 2'000'000;
  lower_split(o, report);
  const SplitCandidate& best = report.candidates[static_cast<std::size_t>(report.chosen)];
  EXPECT_GT(best.with.at(0).bytes, best.bytes);
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
    const ir::UserError error = frontend::error_of([&] { lower_split(o, report); });
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
