// Meshes as text, states that several axes cut in turn, plans on meshes, and every conversion on two axes.
#include "split/mesh.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <set>

#include "ir/error_numbers.h"
#include "ir/interpreter.h"
#include "split/conversion_costs.h"
#include "tests/frontend/models.h"
#include "tests/frontend/sharding/chosen.h"
#include "tests/frontend/sharding/proof.h"

namespace braid::frontend::sharding {
namespace {

using ::testing::HasSubstr;

TEST(MeshText, RoundTrips) {
  for (const char* text : {"dp=2, tp=4", "tp=8", "a=2, b=1, c_3=2"})
    EXPECT_EQ(to_string(parse_mesh(text, "mesh")), text);
  const Mesh mesh = parse_mesh(" dp=2,tp=4 ", "mesh");
  EXPECT_EQ(mesh.ranks(), 8);
  EXPECT_EQ(mesh.stride(0), 4);
  EXPECT_EQ(mesh.stride(1), 1);
}

TEST(MeshText, ErrorsSayWhatIsWrong) {
  const auto message = [](const std::string& text) {
    const ir::UserError error = error_of([&] { parse_mesh(text, "--mesh"); });
    EXPECT_EQ(error.code(), errors::kSplitRequest);
    return std::string(error.what());
  };
  EXPECT_THAT(message(""), HasSubstr("'' is no axis with a size"));
  EXPECT_THAT(message("dp"), HasSubstr("'dp' is no axis with a size"));
  EXPECT_THAT(message("2=2"), HasSubstr("'2=2' is no axis with a size"));
  EXPECT_THAT(message("dp=0"), HasSubstr("the size of axis 'dp' is '0'"));
  EXPECT_THAT(message("dp=two"), HasSubstr("the size of axis 'dp' is 'two'"));
  EXPECT_THAT(message("dp=2,tp=4,dp=2"), HasSubstr("axis 'dp' is given twice"));
  EXPECT_THAT(message("dp=64,tp=64"), HasSubstr("more than 1024 ranks"));
}

TEST(MeshText, AllMeshesOfANumberOfRanks) {
  const auto texts = [](int ranks, int axes) {
    std::vector<std::string> all;
    for (const Mesh& mesh : meshes_of(ranks, axes)) all.push_back(to_string(mesh));
    return all;
  };
  EXPECT_EQ(texts(8, 2), (std::vector<std::string>{"dp=2, tp=4", "dp=4, tp=2"}));
  EXPECT_EQ(texts(8, 3), (std::vector<std::string>{"dp=2, ep=2, tp=2"}));
  EXPECT_EQ(texts(7, 2), (std::vector<std::string>{}));
  EXPECT_EQ(meshes_of(64, 3).size(), 10u);
}

TEST(MeshText, StatesRoundTrip) {
  const Mesh line = Mesh::line(4), world{{{"world", 4}}}, grid{{{"dp", 2}, {"tp", 4}}};
  const auto same = [](const std::string& text, const Mesh& mesh) {
    const auto spec = parse_mesh_spec(text, mesh);
    ASSERT_TRUE(spec) << text;
    EXPECT_EQ(to_string(*spec, mesh), text);
  };
  for (const char* text : {"R", "S(0)", "S(2:768+768+768)", "P(sum)"}) same(text, line);
  for (const char* text :
       {"R", "S(0) on dp", "S(1:12+6) on tp", "S(0:12+6) on dp, S(0:6+3) on tp", "P(max) on tp"})
    same(text, grid);
  // Programs without named axes have the axis `world`.
  EXPECT_EQ(parse_mesh_spec("S(1)", world), (MeshSpec{Spec::split(1)}));
  for (const char* text :
       {"S(0)", "S(0) on ep", "S(0) on dp, S(1) on dp", "S(0) on dp,", "S() on dp", "S(0)on dp", " "})
    EXPECT_FALSE(parse_mesh_spec(text, grid)) << text;
}

TEST(MeshStates, AreCutInTurn) {
  const Mesh mesh = parse_mesh("a=2,b=3", "mesh");
  const auto cut = [&](const Spec& a, const Spec& b, std::vector<std::int64_t> sizes) {
    const auto result = cut_in_turn({a, b}, sizes, mesh);
    return result ? to_string(*result, mesh) : "none";
  };
  EXPECT_EQ(cut(Spec::split(0), Spec::split(0), {12}), "S(0) on a, S(0) on b");
  EXPECT_EQ(cut(Spec::split(0), Spec::split(0), {8}), "none");  // 8 is no multiple of 6
  EXPECT_EQ(cut(Spec::split(0), Spec::split(1), {2, 3}), "S(0) on a, S(1) on b");
  EXPECT_EQ(cut(Spec::split(0, {12, 6}), Spec::split(0, {12, 6}), {18}), "S(0:12+6) on a, S(0:6+3) on b");
  // The parts of a are whole blocks of b, and the other way round.
  EXPECT_EQ(cut(Spec::split(0), Spec::split(0, {3, 3, 3, 3}), {12}), "S(0) on a, S(0:3+3) on b");
  EXPECT_EQ(cut(Spec::split(0, {2, 2, 2}), Spec::split(0), {6}), "S(0:2+2+2) on a, S(0) on b");
  EXPECT_EQ(cut(Spec::split(0, {2, 4}), Spec::split(0), {6}), "none");
  EXPECT_EQ(cut(Spec::pending(ir::ReduceKind::sum), Spec::pending(ir::ReduceKind::max), {6}), "none");
}

// ---- plans

constexpr const char* kMlp =
    "g (float[4, 8] x, float[8, 12] w, float[12, 8] v) => (float[4, 8] y) "
    "{ h = MatMul(x, w) r = Relu(h) p = MatMul(r, v) y = Neg(p) }";

// Data parallel along dp, Megatron's split along tp. The weights are inputs here, so that they are cut at run
// time.
constexpr const char* kMlpPlan =
    "plan 1\nmesh [dp=2, tp=2]\n"
    "\"x\" -> \"h\" = S(0) on dp\n\"w\" -> \"h\" = S(1) on tp\n\"v\" -> \"p\" = S(0) on tp\n"
    "\"h\" = S(0) on dp, S(1) on tp\n\"r\" = S(1) on tp, S(0) on dp\n\"p\" = S(0) on dp, P(sum) on tp\n"
    "\"p\" -> \"y\" = S(0) on dp\n\"y\" = S(0) on dp\n";

ir::Schedule with_plan(const std::string& graph, const std::string& plan, int ranks) {
  auto request = std::make_shared<SplitRequest>();
  request->plan = plan;
  request->plan_file = "the.plan";
  ImportOptions options;
  options.ranks = ranks;
  options.split = request;
  return import_text(graph, options);
}

TEST(MeshPlans, RoundTrip) {
  const MeshPlan plan = parse_mesh_plan(kMlpPlan, "plan");
  EXPECT_EQ(plan.mesh, parse_mesh("dp=2,tp=2", ""));
  EXPECT_EQ(plan.of_value("h"), (MeshSpec{Spec::split(0), Spec::split(1)}));
  EXPECT_EQ(parse_mesh_plan(to_string(plan), "plan"), plan);
  EXPECT_EQ(to_string(parse_mesh_plan(to_string(plan), "plan")), to_string(plan));
}

// Each key of any axis has a line, in the order of all keys. On an axis without the key it is whole, or as
// the value is produced.
TEST(MeshPlans, TextSaysWhatEveryAxisSays) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    std::mt19937_64 random(seed);
    MeshPlan plan(parse_mesh("dp=2,ep=3,tp=2", ""));
    std::set<std::string> values;
    std::set<std::pair<std::string, Plan::Reader>> readers;
    for (Plan& axis : plan.axes) {
      for (int k = 0; k < 4; ++k) {
        const Spec spec =
            random() % 4 == 0 ? Spec::replicated() : Spec::split(static_cast<int>(random() % 3));
        const std::string value = fmt::format("v{}", random() % 5);
        if (random() % 2 == 0) {
          axis.values[value] = spec;
          values.insert(value);
        } else {
          const Plan::Reader reader{random() % 3 == 0 ? "" : fmt::format("n{}", random() % 2),
                                    static_cast<int>(random() % 3) - 1};
          axis.readers[{value, reader}] = spec;
          readers.insert({value, reader});
        }
      }
    }
    std::string text = "plan 1\nmesh [dp=2, ep=3, tp=2]\n";
    for (const std::string& value : values)
      text += fmt::format("\"{}\" = {}\n", value, to_string(plan.of_value(value), plan.mesh));
    for (const auto& [value, reader] : readers) {
      MeshSpec spec;
      for (const Plan& axis : plan.axes) {
        const Spec own = reader.node.empty() ? Spec::replicated() : axis.of_value(value);
        spec.push_back(axis.of_reader(value, reader.node, reader.input, own));
      }
      text += fmt::format(
          "\"{}\" -> {}{} = {}\n", value, reader.node.empty() ? "output" : "\"" + reader.node + "\"",
          reader.input < 0 ? "" : fmt::format("[{}]", reader.input), to_string(spec, plan.mesh));
    }
    EXPECT_EQ(to_string(plan), text) << "seed " << seed;
  }
}

TEST(MeshPlans, OfDataAndTensorParallelProducts) {
  const ir::Schedule schedule = with_plan(kMlp, kMlpPlan, 4);
  int collectives = 0;
  for (const ir::Operation& op : schedule.graph.ops) collectives += op.as<ir::CollectiveKernel>() != nullptr;
  EXPECT_EQ(collectives, 2);  // the sum over tp, and the gather of the batch over dp for the whole output
  std::vector<ir::Tensor> inputs;
  for (const auto& sizes : {std::vector<std::int64_t>{4, 8}, {8, 12}, {12, 8}})
    inputs.push_back(random_tensor(ir::DType::f32, sizes, -4, 4, false, static_cast<unsigned>(sizes[0])));
  const ir::Tensor expected =
      ir::run(import_text(kMlp), std::vector<std::vector<ir::Tensor>>{inputs}).outputs[0][0];
  const auto outputs = ir::run(schedule, std::vector<std::vector<ir::Tensor>>(4, inputs)).outputs;
  for (const auto& of_rank : outputs) EXPECT_EQ(of_rank[0], expected);
}

TEST(MeshPlans, ThatDoNotFitNameLineTensorAndAxis) {
  const auto message = [](const std::string& text, int ranks, int code) {
    const ir::UserError error = error_of([&] { with_plan(kMlp, text, ranks); });
    EXPECT_EQ(error.code(), code) << error.what();
    return std::string(error.what());
  };
  const std::string head = "plan 1\nmesh [dp=2, tp=2]\n";
  EXPECT_THAT(message(head + "\"h\" = S(1) on xp\n", 4, errors::kPlanSyntax),
              HasSubstr("line 3: the mesh has no axis 'xp', only dp=2, tp=2"));
  EXPECT_THAT(message(head + "\"h\" = S(1) on tp, S(0) on tp\n", 4, errors::kPlanSyntax),
              HasSubstr("line 3: axis 'tp' is given twice"));
  EXPECT_THAT(message(head + "\"h\" = S(1)\n", 4, errors::kPlanSyntax),
              HasSubstr("on which axis of dp=2, tp=2 is it S(1)"));
  EXPECT_THAT(message("plan 1\nmesh [dp=2, dp=2]\n", 4, errors::kSplitRequest),
              HasSubstr("axis 'dp' is given twice"));
  EXPECT_THAT(message(kMlpPlan, 8, errors::kPlanMismatch),
              HasSubstr("the plan is for 4 ranks, but there are 8"));
  EXPECT_THAT(message(head + "\"q\" = S(0) on tp\n", 4, errors::kPlanMismatch),
              HasSubstr("line 3 of the plan: the model has no value 'q'"));
  // 4 rows are cut into 2 and 4 parts.
  EXPECT_THAT(
      message("plan 1\nmesh [dp=2, tp=4]\n\"x\" = S(0) on dp, S(0) on tp\n\"h\" = S(0) on dp, S(0) on tp\n"
              "\"h\" -> \"r\" = R\n",
              8, errors::kPlanMismatch),
      HasSubstr("cannot be S(0) on axis tp: after the axes before, dimension 0 of size 2 cannot be cut"));
  EXPECT_THAT(message(head + "\"r\" = P(sum) on tp\n", 4, errors::kPlanMismatch),
              HasSubstr("on axis tp: the node of 'r' cannot take or compute its states"));
}

// ---- conversions

// Only one of several equal conversions is priced: sizes that all axes cut, that some cut, with blocks and
// with padding, and any costs of steps.
TEST(MeshConversions, AlikeOnesCostWhatEachCosts) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937_64 random(seed);
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    const int axes = 1 + static_cast<int>(below(3));
    Mesh mesh;
    for (int a = 0; a < axes; ++a)
      mesh.axes.push_back({std::string(1, static_cast<char>('a' + a)), 2 + static_cast<int>(below(2))});
    const std::int64_t choices[] = {72, 72, 36, 6, 5};
    std::vector<ir::Expr> sizes;
    std::int64_t bytes = 4;
    for (int d = 0; d < 4; ++d) {
      const std::int64_t size = choices[below(5)];
      sizes.emplace_back(size);
      bytes *= size;
    }
    std::vector<Spec> specs = {Spec::replicated(), Spec::pending(ir::ReduceKind::sum),
                               Spec::pending(ir::ReduceKind::max), Spec::split(1, {36, 36}),
                               Spec::split(2, {12, 24})};
    for (int d = 0; d < 4; ++d) specs.push_back(Spec::split(d));
    IdVector<StateId, MeshSpec> states;
    for (int k = 0; k < 40; ++k) {
      MeshSpec& state = states.emplace_back();
      for (int a = 0; a < axes; ++a) state.push_back(specs[below(specs.size())]);
    }
    const StepCost cost = [&](const ConversionStep& step, int ranks) {
      std::uint64_t x = seed * 31 + static_cast<std::uint64_t>(step.bytes) * 7 +
                        static_cast<std::uint64_t>(step.kind) * 1009 +
                        static_cast<std::uint64_t>(step.axis) * 100003 + static_cast<std::uint64_t>(ranks);
      x *= 0x9e3779b97f4a7c15u;
      return static_cast<std::int64_t>(x >> 40);
    };
    const StateCodes codes(states);
    ConversionCosts known(states, codes, mesh, cost);
    const ConversionCosts::TensorId tensor = known.tensor(ir::DType::f32, bytes, sizes);
    for (const StateId from : states.ids()) {
      for (const StateId to : states.ids()) {
        const MeshSpec &a = states[from], &b = states[to];
        EXPECT_EQ(known(tensor, from, to), CheapestSteps(ir::DType::f32, bytes, sizes, mesh, cost).cost(a, b))
            << to_string(a, mesh) << " -> " << to_string(b, mesh);
      }
    }
  }
}

// The slow way: costs of all states sink until nothing changes.
std::optional<std::int64_t> cheapest_of_all(const MeshSpec& from, const MeshSpec& to, std::int64_t bytes,
                                            const std::vector<std::int64_t>& sizes, const Mesh& mesh,
                                            const StepCost& cost) {
  const std::size_t axes = mesh.axes.size();
  const auto parts = [&](const MeshSpec& state, std::size_t axis, int dim) {
    return state[axis].is_split() && (dim < 0 || state[axis].dim == dim) ? mesh.axes[axis].size : 1;
  };
  const auto fits = [&](const MeshSpec& state) {
    for (std::size_t k = 0; k < axes; ++k) {
      if (!state[k].is_split()) continue;
      std::int64_t left = sizes[static_cast<std::size_t>(state[k].dim)];
      for (std::size_t j = 0; j < k; ++j) left /= parts(state, j, state[k].dim);
      const auto alone = std::ranges::count_if(state, [&](const Spec& other) {
                           return other.is_split() && other.dim == state[k].dim;
                         }) == 1;
      const int ranks = mesh.axes[k].size;
      const Blocks blocks = state[k].blocks.empty() ? Blocks{left} : state[k].blocks;
      const bool even = std::ranges::all_of(blocks, [&](std::int64_t b) { return b % ranks == 0; });
      if (std::accumulate(blocks.begin(), blocks.end(), std::int64_t{0}) != left) return false;
      if (!even && !(state[k].blocks.empty() && alone && can_pad(left, ranks))) return false;
    }
    return true;
  };
  const auto moves = [&](const MeshSpec& state, std::size_t axis, const Spec& target) {
    for (std::size_t other = axis + 1; other < axes; ++other) {
      const Spec& theirs = state[other];
      if (state[axis].is_pending() && theirs.is_pending() && theirs.reduce != state[axis].reduce)
        return false;
      for (const Spec* own : {&state[axis], &target})
        if (own->is_split() && theirs.is_split() && own->dim == theirs.dim) return false;
    }
    return true;
  };
  std::map<MeshSpec, std::int64_t> known = {{from, 0}};
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& [state, before] : std::map(known)) {
      for (std::size_t axis = 0; axis < axes; ++axis) {
        std::vector<Spec> targets = {to[axis]};
        if (axis > 0) targets.insert(targets.end(), {Spec::replicated(), from[axis]});
        for (int dim = 0; axis > 0 && state[axis].is_pending() && dim < std::ssize(sizes); ++dim)
          targets.push_back(Spec::split(dim));
        for (const Spec& target : targets) {
          MeshSpec next = state;
          next[axis] = target;
          if (next == state || !moves(state, axis, target)) continue;
          if ((target.is_split() || !fits(from)) && !fits(next)) continue;
          std::int64_t own = bytes;
          for (std::size_t k = 0; k < axes; ++k) own /= k == axis ? 1 : parts(state, k, -1);
          auto steps = conversion_steps(state[axis], target, ir::DType::f32, own, mesh.axes[axis].size);
          if (!steps) continue;
          std::int64_t sum = before;
          for (ConversionStep& step : *steps) {
            step.axis = static_cast<int>(axis);
            step.stride = mesh.stride(step.axis);
            sum += cost(step, mesh.axes[axis].size);
          }
          const auto [entry, fresh] = known.try_emplace(next, sum);
          changed = changed || fresh || sum < entry->second;
          entry->second = std::min(entry->second, sum);
        }
      }
    }
  }
  const auto found = known.find(to);
  return found == known.end() ? std::nullopt : std::optional(found->second);
}

TEST(MeshConversions, AreTheCheapest) {
  int possible = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937_64 random(seed);
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    Mesh mesh;
    for (int a = 2 + static_cast<int>(below(2)); a > 0; --a)
      mesh.axes.push_back({std::string(1, static_cast<char>('a' + a)), 1 + static_cast<int>(below(4))});
    const std::int64_t choices[] = {0, 1, 5, 6, 12, 24, 48};
    std::vector<std::int64_t> sizes;
    std::vector<Spec> specs = {Spec::replicated(), Spec::pending(ir::ReduceKind::sum),
                               Spec::pending(ir::ReduceKind::max)};
    for (int dim = 0; dim <= static_cast<int>(seed % 3); ++dim) {
      const std::int64_t size = sizes.emplace_back(choices[below(7)]);
      specs.push_back(Spec::split(dim));
      if (size >= 12) specs.push_back(Spec::split(dim, {size / 2, size / 4, size / 4}));
    }
    const bool few = below(3) == 0;  // costs, many of which are equal
    const StepCost cost = [&](const ConversionStep& step, int ranks) {
      const std::uint64_t x =
          seed * 31 + static_cast<std::uint64_t>(step.bytes) * 7 +
          static_cast<std::uint64_t>(step.kind) * 1009 + static_cast<std::uint64_t>(step.axis) * 100003 +
          static_cast<std::uint64_t>(step.stride) * 77 + static_cast<std::uint64_t>(ranks);
      return static_cast<std::int64_t>((x * 0x9e3779b97f4a7c15u) >> (few ? 62 : 44));
    };
    const std::int64_t bytes = 4096;
    CheapestSteps found(ir::DType::f32, bytes, {sizes.begin(), sizes.end()}, mesh, cost);
    for (int k = 0; k < 20; ++k) {
      MeshSpec from, to;
      for (std::size_t a = 0; a < mesh.axes.size(); ++a) {
        from.push_back(specs[below(specs.size())]);
        to.push_back(specs[below(specs.size())]);
      }
      const auto expected = cheapest_of_all(from, to, bytes, sizes, mesh, cost);
      EXPECT_EQ(found.cost(from, to), expected) << to_string(from, mesh) << " -> " << to_string(to, mesh);
      possible += expected.has_value();
      const auto steps = found.steps(from, to);
      ASSERT_EQ(steps.has_value(), expected.has_value());
      std::int64_t sum = 0;
      for (std::size_t s = 0; steps && s < steps->size(); ++s)
        sum += cost((*steps)[s], mesh.axes[static_cast<std::size_t>((*steps)[s].axis)].size);
      EXPECT_EQ(sum, expected.value_or(0));
    }
  }
  EXPECT_GT(possible, 300);
}

// One model may split tensors of the same sizes in hundreds of ways.
TEST(MeshConversions, StatesMayBeMany) {
  const StepCost cost = [](const ConversionStep& step, int ranks) {
    return step.bytes * 7 + static_cast<std::int64_t>(step.kind) * 1009 + step.axis * 100003 + ranks;
  };
  const std::vector<ir::Expr> sizes = {4096, 64};
  for (const char* text : {"tp=2", "dp=2,tp=2"}) {
    const Mesh mesh = parse_mesh(text, "mesh");
    IdVector<StateId, MeshSpec> states;
    for (int k = 0; k < 899; ++k) {
      const std::int64_t first = 4 * (k + 1);
      states.push_back(MeshSpec(mesh.axes.size(), Spec::replicated()));
      states.back()[k % mesh.size()] = Spec::split(0, {first, 4096 - first});
    }
    const StateCodes codes(states);
    ConversionCosts known(states, codes, mesh, cost);
    CheapestSteps steps(ir::DType::f32, 4096 * 64 * 4, sizes, mesh, cost);
    const ConversionCosts::TensorId tensor = known.tensor(ir::DType::f32, 4096 * 64 * 4, sizes);
    for (const StateId k : states.ids()) {
      const StateId other{k.index * 31 % count_of(states)};
      const auto expected =
          CheapestSteps(ir::DType::f32, 4096 * 64 * 4, sizes, mesh, cost).cost(states[k], states[other]);
      ASSERT_TRUE(expected);
      EXPECT_EQ(known(tensor, k, other), expected);
      EXPECT_EQ(steps.cost(states[k], states[other]), expected);
    }
  }
}

// Converts h, a sum over the last dimension of x, which is pending where that dimension is split. Each axis
// is in every state, and is converted into every other one.
TEST(MeshConversions, GiveEveryStateFromEveryOther) {
  const std::string graph =
      "g (int64[12, 12, 12] x) => (int64[12, 12] y) { a = Constant <value = int64[1] {2}> () "
      "h = ReduceSum <keepdims = 0> (x, a) i = Identity(h) y = Neg(i) }";
  const ir::Tensor x = random_tensor(ir::DType::i64, {12, 12, 12}, -9, 9, false, 3);
  const ir::Tensor expected =
      ir::run(import_text(graph), std::vector<std::vector<ir::Tensor>>{{x}}).outputs[0][0];
  const Spec sum = Spec::pending(ir::ReduceKind::sum);
  const std::vector<Spec> states = {Spec::replicated(), Spec::split(0), Spec::split(1), sum};
  int count = 0;
  for (const char* text : {"a=2,b=2", "a=2,b=3", "a=3,b=2"}) {
    const Mesh mesh = parse_mesh(text, "mesh");
    for (std::size_t k = 0; k < 256; ++k) {
      const MeshSpec from = {states[k % 4], states[k / 4 % 4]}, to = {states[k / 16 % 4], states[k / 64]};
      bool possible = true;
      MeshSpec given;
      for (std::size_t axis = 0; axis < 2; ++axis) {
        possible &= conversion_steps(from[axis], to[axis], ir::DType::i64, 12, 2).has_value();
        given.push_back(from[axis].is_pending() ? Spec::split(2) : from[axis]);
      }
      if (!possible || !cut_in_turn(from, {12, 12}, mesh) || !cut_in_turn(to, {12, 12}, mesh)) continue;
      MeshPlan plan(mesh);
      for (std::size_t axis = 0; axis < 2; ++axis) {
        plan.axes[axis].readers[{"x", {"h", 0}}] = given[axis];
        plan.axes[axis].values["h"] = from[axis];
        plan.axes[axis].readers[{"h", {"i", 0}}] = to[axis];
        plan.axes[axis].values["i"] = to[axis];
        plan.axes[axis].readers[{"i", {"y", 0}}] = to[axis];
        plan.axes[axis].values["y"] = to[axis];
        plan.axes[axis].readers[{"y", {"", -1}}] = Spec::replicated();
      }
      const StepCost bytes = [](const ConversionStep& step, int) { return step.bytes; };
      const auto steps = CheapestSteps(ir::DType::i64, 12 * 12 * 8, {12, 12}, mesh, bytes).steps(from, to);
      EXPECT_TRUE(steps.has_value()) << to_string(from, mesh) << " to " << to_string(to, mesh);
      try {
        const ir::Schedule schedule = with_plan(graph, to_string(plan), mesh.ranks());
        const auto outputs = ir::run(schedule, std::vector<std::vector<ir::Tensor>>(
                                                   static_cast<std::size_t>(mesh.ranks()), {x}))
                                 .outputs;
        for (const auto& of_rank : outputs)
          EXPECT_EQ(difference(of_rank[0], expected, 0), "")
              << to_string(from, mesh) << " to " << to_string(to, mesh) << " on " << text;
        ++count;
      } catch (const std::exception& error) {
        ADD_FAILURE() << to_string(from, mesh) << " to " << to_string(to, mesh) << " on " << text << ": "
                      << error.what();
      }
    }
  }
  EXPECT_GT(count, 300);
}

}  // namespace
}  // namespace braid::frontend::sharding
