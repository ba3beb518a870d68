// Products that lower_precision computes in bf16, f16 and int8, as C++ programs: what follows them, views, batches, every kind of
// rows. The rewritten text says what is right; the text before it, how far the roundings may lead.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <map>
#include <random>

#include "driver/compile.h"
#include "ir/parser.h"
#include "ir/verifier.h"
#include "passes/lower_precision.h"
#include "passes/pass_context.h"
#include "tests/codegen/compiled.h"
#include "tests/support/openmp_threads.h"
#include "tests/support/random.h"

namespace braid::test {
namespace {

using Random = std::mt19937_64;

std::int64_t between(Random& random, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
}

struct Case {
  std::string text, type;
  std::int64_t m = 1;
};

// Two products with something between and after them, which read the same rows or one another's results.
Case random_case(std::uint64_t seed) {
  Random random(seed);
  Case c;
  c.type = std::vector<std::string>{"bf16", "f16", "int8"}[random() % 3];
  c.m = random() % 4 == 0 ? between(random, 20, 70) : between(random, 1, 9);
  const std::int64_t k = between(random, 1, 80), n = between(random, 1, 140), p = between(random, 1, 40);
  const std::int64_t batch = random() % 3 == 0 ? between(random, 2, 3) : 0;
  const auto rows = [&](std::int64_t columns) {
    return batch > 0 ? fmt::format("{}, m, {}", batch, columns) : fmt::format("m, {}", columns);
  };
  const int column = batch > 0 ? 2 : 1;
  std::string& t = c.text;
  t = fmt::format("graph main  dim m in [0, 80]\ninput %x: f32[{}]\n", rows(k));
  const auto weights = [&](const char* name, std::int64_t rows_of, std::int64_t columns) -> std::string {
    const bool transposed = random() % 2 == 0;
    t += fmt::format("constant %{}: f32[{}, {}] = splat(0.5)\n", name, transposed ? columns : rows_of,
                     transposed ? rows_of : columns);
    const std::string strides = transposed ? fmt::format("1, {}", rows_of) : fmt::format("{}, 1", columns);
    return batch > 0 ? fmt::format("%{} [{}, {}, {}] strides [0, {}]", name, batch, rows_of, columns, strides)
                     : fmt::format("%{} [{}, {}] strides [{}]", name, rows_of, columns, strides);
  };
  const std::string w = weights("w", k, n), v = weights("v", n, p), u = weights("u", k, p);
  t += fmt::format("constant %bias: f32[{}] = splat(0.5)\n", n);
  std::string source = "%x";
  if (random() % 2 == 0) {
    t += fmt::format("%t: f32[{}] = pointwise {{ %0 = load %x  %1 = tanh %0  store %1 }}\n", rows(k));
    source = "%t";
  }
  t += fmt::format("%y: f32[{}] = gemm {}, {}\n", rows(n), source, w);
  std::string body = "%0 = load %y ";
  int value = 0;
  if (random() % 3 != 0) {
    body += fmt::format(" %1 = load %bias[i{}]  %2 = add %0, %1 ", column);
    value = 2;
  }
  if (random() % 2 == 0) {
    body += fmt::format(" %{} = {} %{} ", value + 1, random() % 2 == 0 ? "tanh" : "sigmoid", value);
    ++value;
  }
  t += fmt::format("%r: f32[{}] = pointwise {{ {} store %{} }}\n", rows(n), body, value);
  t += fmt::format("%z: f32[{}] = gemm %r, {}\n", rows(p), v);
  t += fmt::format("%s: f32[{}] = gemm {}, {}\n", rows(p), source, u);
  t += fmt::format("%q: f32[{}] = pointwise {{ %0 = load %z  %1 = load %s  %2 = add %0, %1  store %2 }}\n",
                   rows(p));
  t += "output %q\n";
  if (random() % 2 == 0) t += "output %r\n";
  return c;
}

TEST(LowerPrecision, RandomProgramsComputeWhatTheirTextSays) {
  const int given = omp_get_max_threads();
  Compiled programs;
  std::map<std::string, Case> cases;
  std::map<std::string, ir::Schedule> wide, narrow;
  for (int i = 0; i < random_cases(30); ++i) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(i);
    const std::string name = fmt::format("seed{}", seed);
    const Case c = random_case(seed);
    ir::Schedule schedule = ir::parse_schedule(c.text, name);
    ASSERT_EQ(ir::verify(schedule).size(), 0U) << c.text;
    fill_constants(schedule.graph, seed);
    wide.emplace(name, schedule);
    passes::PassContext context;
    ASSERT_TRUE((passes::LowerPrecision{.type = c.type, .always = true}.run(schedule, context))) << c.text;
    ASSERT_EQ(ir::verify(schedule).size(), 0U) << c.text;
    narrow.emplace(name, schedule);
    optimise(schedule, {});
    programs.add_schedule(name, schedule);
    cases.emplace(name, c);
  }
  programs.build();
  for (const auto& [name, c] : cases) {
    SCOPED_TRACE(name + "\n" + c.text);
    omp_set_num_threads(team_of(1 + static_cast<int>(name.size() % 2)));
    for (const std::int64_t m : {std::int64_t{0}, c.m}) {
      ir::Graph& graph = wide.at(name).graph;
      const std::vector<ir::Tensor> inputs = random_inputs(graph, {{"m", m}}, 3);
      const std::vector<std::vector<ir::Tensor>> ranks = {inputs};
      rt::Program program = programs.open(name);
      const std::vector<ir::Tensor> got = programs.run(program, inputs);
      const std::vector<ir::Tensor> text = ir::run(narrow.at(name), ranks).outputs[0],
                                    exact = ir::run(wide.at(name), ranks).outputs[0];
      for (std::size_t k = 0; k < got.size(); ++k) {
        const std::vector<float> g = got[k].values<float>(), t = text[k].values<float>(),
                                 e = exact[k].values<float>();
        ASSERT_EQ(g.size(), t.size());
        float largest = 0;
        for (const float x : e) largest = std::max(largest, std::fabs(x));
        // A sum that lies between two steps of the narrow type may be rounded to the other one, as its order is free.
        const float step = c.type == "bf16" ? 8e-3f : c.type == "f16" ? 1e-3f : 2e-2f;
        // The roundings are relative to the sums, of which an activation that limits them shows less.
        const float bound = c.type == "bf16" ? 1e-1f : c.type == "f16" ? 2e-2f : 3e-1f;
        for (std::size_t x = 0; x < g.size(); ++x) {
          ASSERT_NEAR(g[x], t[x], step * largest) << c.type << ", output " << k << ", element " << x;
          ASSERT_NEAR(g[x], e[x], bound * largest + 1e-6f) << c.type << ", output " << k << ", element " << x;
        }
      }
    }
  }
  omp_set_num_threads(given);
}

// The cast of a product's result joins its epilogue, and that of a loop's the loop: nothing of f32 is stored between.
TEST(LowerPrecision, CastsJoinWhatMakesTheRows) {
  ir::Schedule schedule = ir::parse_schedule(R"(graph main
input %x: f32[64, 256]
constant %w: f32[256, 512] = splat(0.5)  constant %v: f32[512, 256] = splat(0.5)  constant %b: f32[512] = splat(0.1)
%t: f32[64, 256] = pointwise { %0 = load %x  %1 = tanh %0  store %1 }
%y: f32[64, 512] = gemm %t, %w
%r: f32[64, 512] = pointwise { %0 = load %y  %1 = load %b[i1]  %2 = add %0, %1  %3 = tanh %2  store %3 }
%z: f32[64, 256] = gemm %r, %v
output %z
)");
  CompileOptions options;
  options.precision = "bf16";
  optimise(schedule, options);
  EXPECT_EQ(schedule.nodes.size(), 3U);
  ASSERT_TRUE(schedule.plan);
  std::vector<std::string> stored;
  for (ir::OpId op : execution_order(schedule)) {
    const ir::Buffer& out = schedule.graph[schedule.graph[op].outputs[0]];
    if (schedule.plan->placements.contains(out.storage)) stored.push_back(out.name);
  }
  EXPECT_THAT(stored, ::testing::ElementsAre("t.bf16", "r.bf16", "z"));
}

}  // namespace
}  // namespace braid::test
