// No plan is simulated faster than its own bounds, and none than those of all plans.
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "analysis/costs/cost_model.h"
#include "analysis/measure.h"
#include "driver/plain_program.h"
#include "driver/split_report.h"
#include "ir/input_file.h"
#include "passes/forward_copies.h"
#include "passes/fuse_horizontal.h"
#include "split/bound_search.h"
#include "split/machine_costs.h"
#include "split/work.h"
#include "tests/driver/split_models.h"
#include "tests/frontend/sharding/chosen.h"
#include "tests/paths.h"

namespace braid {
namespace {

using test::layer;
using test::network;
using test::SplitModel;
using test::weight;

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

// Random steps over [rows, columns]: products, reductions, swapped halves, values that are read again later.
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

// Simulates plans and compares them with their own bounds and with the bounds of all plans.
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

  // Tries the cheapest plan and some that no sensible machine would want. `cells` limits the tables of a
  // space that is searched as a whole.
  void try_plans(const split::Mesh& mesh, unsigned seeds, std::size_t cells = std::size_t{1} << 22) {
    using namespace frontend::sharding;
    std::vector<std::pair<std::string, PlanBounds>> tried;
    PlanBounds all, far;
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
      // Whatever is left out.
      for (const std::size_t few : {0, 200, 2000}) {
        BoundSearch search(graph, space, costs_,
                           {.solve = solve, .cells = few, .attention_flops = attention_, .joins = joins_});
        const PlanBounds own = search.over_plans(cheapest.solution.choice);
        far = {std::max(far.loads, own.loads), std::max(far.order, own.order)};
      }
      // Looking closer is as having looked so from the beginning.
      BoundSearch closer(graph, space, costs_,
                         {.solve = solve, .cells = 0, .attention_flops = attention_, .joins = joins_});
      closer.relax(SplitSpace::kMostRelaxed);
      const PlanBounds near = closer.over_plans(cheapest.solution.choice);
      EXPECT_EQ(near.loads, all.loads);
      EXPECT_EQ(near.order, all.order);
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
      EXPECT_LE(far.order, own.order) << quiet_.machine << " " << to_string(mesh) << "\n" << plan;
      EXPECT_LE(far.loads, own.loads) << quiet_.machine << " " << to_string(mesh) << "\n" << plan;
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
  std::vector<split::ProductJoin> joins_;
};

// None is simulated faster than its own bounds, and none than those of all plans.
TEST_F(SplitModel, NoPlanIsFasterThanTheBounds) {
  using split::Mesh;
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

// A single kernel on one device may become two in a split program, if one part is split and the other is
// whole.
TEST_F(SplitModel, NoPlanOfHalvesOfAttentionIsFasterThanTheBounds) {
  using split::Mesh;
  Bounded::reset();
  for (const int inner : {64, 256}) {
    for (const int columns : {16, 256}) {
      SCOPED_TRACE(fmt::format("{} {}", inner, columns));
      const std::string text = fmt::format(
          "g (float[4,32,{0}] x, float[4,32,{1}] v) => (float[4,32,{1}] y) <{2}> {{\n"
          "q = MatMul(x, w)\n k = Transpose<perm = [0, 2, 1]>(x)\n s = MatMul(q, k)\n"
          "p = Softmax<axis = -1>(s)\n y = MatMul(p, v) }}",
          inner, columns, weight("w", inner, inner));
      for (const char* machine : {"cpu", "h100"}) {
        Bounded model(options(text), machine);
        for (const int ranks : {2, 4}) model.try_plans(Mesh::line(ranks), 12);
        EXPECT_TRUE(model.attends());
      }
    }
  }
  EXPECT_GT(Bounded::tightest, 0.7);
}

// No candidate that was simulated is faster.
void expect_bounded(const SplitReport& report) {
  for (const SplitCandidate& c : report.candidates) {
    if (!c.ran()) continue;
    EXPECT_LE(report.lower_bound(), c.simulated) << c.ranks << " " << c.name;
  }
}

// With --precision attention computes in the narrower type, too.
TEST_F(SplitModel, NoAttentionInANarrowerTypeIsFasterThanTheBounds) {
  for (const char* precision : {"bf16", "f16"}) {
    for (const int ranks : {1, 2}) {
      CompileOptions o = options(
          "g (float[4,2048,128] q, float[4,128,2048] k, float[4,2048,128] v) => (float[4,2048,128] y) {\n"
          "s = MatMul(q, k)\n p = Softmax<axis = -1>(s)\n y = MatMul(p, v) }");
      o.machine = "h100";
      o.precision = precision;
      o.split.devices = ranks;
      SplitReport report;
      lower(o, report);
      EXPECT_GT(report.lower_bound().ps, 0);
      SCOPED_TRACE(precision);
      expect_bounded(report);
    }
  }
}

// The driver knows the largest copy that fusion may take into other kernels. A larger one is launched alone.
TEST_F(SplitModel, BoundsCountTheLaunchOfALargeCopy) {
  const auto bound = [&](int rows) {
    CompileOptions o = options(fmt::format(
        "g (float[1,{0},256] past, float[1,1,256] new, float[1,16,{1}] x) => (float[1,{1},256] present, "
        "float[1,16,256] y) {{\n present = Concat<axis = 1>(past, new)\n y = MatMul(x, present) }}",
        rows, rows + 1));
    o.machine = "h100";
    o.split.devices = 1;
    SplitReport report;
    lower(o, report);
    expect_bounded(report);
    return report.load_bound.us();
  };
  const int most =
      static_cast<int>(passes::FuseHorizontal{}.small_points * passes::ForwardCopies{}.max_parts);
  const double launch = analysis::cost_model_for("h100")->machine().launch_us;
  EXPECT_GT(bound(most / 256 + 1), bound(most / 256) + launch / 2);
}

// Collectives with symmetric memory, with the library's kernels, and with the kernels that passes choose, on
// machines on which any of these is the fastest.
TEST_F(SplitModel, NoKernelOfACollectiveIsFasterThanTheBounds) {
  const std::string text = "g (float[2,64,128] x) => (float[2,64,128] y, float[2,64,512] z) <" +
                           weight("a", 128, 512) + ", " + weight("b", 512, 128) +
                           "> { z = MatMul(x, a)\n r = Relu(z)\n y = MatMul(r, b) }";
  const std::string machines = paths::source("analysis/costs/machines/");
  for (unsigned seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937 random(seed);
    nlohmann::json machine = nlohmann::json::parse(ir::read_text_file(machines + "h200.json"));
    const auto vary = [&](nlohmann::json& of, const char* key) {
      of[key] = of[key].get<double>() * std::ldexp(1, static_cast<int>(random() % 13) - 6);
    };
    nlohmann::json& collectives = machine["collectives"];
    vary(collectives, "link_gb_s");
    vary(collectives, "nvls_gb_s");
    for (const char* key : {"one_shot_us", "two_shot_us", "gb_s"}) vary(collectives["symmetric"], key);
    vary(machine["device"], "launch_us");
    if (seed % 2 == 0) collectives.erase("measured");
    const std::string file = folder_.write("machine.json", machine.dump());
    Bounded model(options(text), file.c_str());
    for (const int ranks : {2, 8}) model.try_plans(split::Mesh::line(ranks), 4);
  }
}

// A program that does less than the model says has no bounds: values that are only asked for their sizes, and
// values without elements, are not computed.
TEST_F(SplitModel, WhatIsNotComputedHasNoBounds) {
  const std::string cases[] = {
      "g (float[64,256] x) => (float[64,256] y) <" + weight("w", 256, 256) +
          "> { a = MatMul(x, w)\n s = Shape(a)\n f = Reshape(x, s)\n y = Neg(f) }",
      "g (float[2,0,16] x) => (float[2,0,8] y) <" + weight("v", 16, 8) + ", " + weight("w", 8, 8) +
          "> { a = MatMul(x, v)\n y = MatMul(a, w) }",
  };
  for (const std::string& text : cases) {
    for (const char* machine : {"cpu", "h100"}) {
      CompileOptions o = options(text);
      o.machine = machine;
      o.split.devices = 2;
      SplitReport report;
      lower(o, report);
      SCOPED_TRACE(fmt::format("{}\n{}", machine, text));
      expect_bounded(report);
    }
  }
}

// Rows so short that launches are most of the time.
TEST_F(SplitModel, NoPlanOfRandomStepsIsFasterThanTheBounds) {
  using split::Mesh;
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
  using split::parse_mesh;
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

TEST_F(SplitModel, BoundsAreBelowWhatIsSimulated) {
  for (const char* machine : {"cpu", "h100"}) {
    for (const int rows : {1, 64, 512}) {
      for (const int ranks : {2, 4}) {
        CompileOptions o = options(network(2, rows, 64));
        o.machine = machine;
        o.split.tensor_ranks = ranks;
        SplitReport report;
        lower(o, report);
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

}  // namespace
}  // namespace braid
