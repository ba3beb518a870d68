// Products that lower_precision computes in bf16, f16 and int8, as C++ programs: with the steps after them,
// views, batches, every kind of rows. The rewritten text says what is right; the text before it says how far
// the roundings may lead.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "driver/compile.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "passes/lower_precision.h"
#include "passes/pass_context.h"
#include "tests/codegen/compiled.h"
#include "tests/support/compute_threads.h"
#include "tests/support/random.h"
#include "tests/support/random_attention.h"

namespace braid::test {
namespace {

using Random = std::mt19937_64;

std::int64_t between(Random& random, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
}

struct PrecisionCase {
  std::string text, type;
  std::int64_t m = 1;
};

// Two products with something between and after them, which read the same rows or one another's results.
PrecisionCase random_case(std::uint64_t seed) {
  Random random(seed);
  PrecisionCase c;
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

std::int64_t pick(Random& random, std::vector<std::int64_t> of) { return of[random() % of.size()]; }

// Two convolutions: the first of images whose channels come first or last, with bias, activation and
// residual; the second of the first one's result, or of the same images.
PrecisionCase random_convolutions(std::uint64_t seed) {
  Random random(seed);
  PrecisionCase c;
  c.type = std::vector<std::string>{"bf16", "f16", "int8"}[random() % 3];
  c.m = between(random, 1, 2);
  const bool first = random() % 2 == 0, transposed = c.type != "int8" && random() % 5 == 0;
  const std::int64_t groups = pick(random, {1, 1, 1, 2, 8}), channels = groups * pick(random, {1, 3, 4, 16}),
                     filters = groups * pick(random, {1, 2, 16, 24});
  std::int64_t in[2], out[2], taps[2], stride[2], dilation[2], pad[2];
  for (int d = 0; d < 2; ++d) {
    taps[d] = pick(random, {1, 1, 2, 3, 3});
    stride[d] = pick(random, {1, 1, 2});
    dilation[d] = pick(random, {1, 1, 1, 2});
    const std::int64_t extent = (taps[d] - 1) * dilation[d] + 1;
    pad[d] = random() % 2 == 0 ? 0 : between(random, 0, taps[d] - 1);
    in[d] = extent + between(random, 1, 9);
    out[d] = transposed ? (in[d] - 1) * stride[d] + extent - 2 * pad[d]
                        : (in[d] + 2 * pad[d] - extent) / stride[d] + 1;
    if (out[d] < 1) pad[d] = 0, out[d] = (in[d] - 1) * stride[d] + extent;
  }
  const auto images = [&](std::int64_t of, const std::int64_t(&size)[2]) {
    return first ? fmt::format("m, {}, {}, {}", of, size[0], size[1])
                 : fmt::format("m, {}, {}, {}", size[0], size[1], of);
  };
  const auto view = [&](std::int64_t of, const std::int64_t(&size)[2]) {
    const std::int64_t pixels = size[0] * size[1];
    return first ? fmt::format("[m, {}, {}, {}] strides [{}, {}, 1, {}]", size[0], size[1], of, of * pixels,
                               size[1], pixels)
                 : fmt::format("[m, {}, {}, {}] strides [{}, {}, {}, 1]", size[0], size[1], of, of * pixels,
                               size[1] * of, of);
  };
  const auto channel = first ? 1 : 3;
  std::string& t = c.text;
  t = fmt::format("graph main  dim m in [1, 3]\ninput %x: f32[{}]\n", images(channels, in));
  // [groups * m, c, taps...] as in ONNX.
  const std::int64_t c_in = channels / groups, m_out = filters / groups, all = taps[0] * taps[1];
  t += fmt::format("constant %w: f32[{}, {}, {}, {}] = splat(0.5)\n", filters, c_in, taps[0], taps[1]);
  t += fmt::format("constant %v: f32[{}, 5] = splat(0.5)\nconstant %bias: f32[{}] = splat(0.5)\n", filters,
                   filters);
  t += fmt::format("input %d: f32[{}]\n%e: f32[{}] = pointwise {{ %0 = load %d  %1 = tanh %0  store %1 }}\n",
                   images(filters, out), images(filters, out));
  std::string source = "%x";
  if (random() % 2 == 0) {
    t += fmt::format("%t: f32[{}] = pointwise {{ %0 = load %x  %1 = tanh %0  store %1 }}\n",
                     images(channels, in));
    source = "%t";
  }
  t += fmt::format(
      "%y: f32[{}] = convolution {}{} {}, %w [{}, {}, {}, {}, {}] strides [{}, {}, 1, {}, {}] "
      "stride [{}, {}] dilation [{}, {}] pad [{}, {}] into %y {}\n",
      images(filters, out), transposed ? "transposed " : "", source, view(channels, in), groups, taps[0],
      taps[1], c_in, m_out, m_out * c_in * all, taps[1], all, c_in * all, stride[0], stride[1], dilation[0],
      dilation[1], pad[0], pad[1], view(filters, out));
  std::string body = "%0 = load %y ";
  int value = 0;
  if (random() % 3 != 0) {
    body += fmt::format(" %1 = load %bias[i{}]  %2 = add %0, %1 ", channel);
    value = 2;
  }
  if (random() % 3 == 0) {
    body += fmt::format(" %{} = load %e  %{} = add %{}, %{} ", value + 1, value + 2, value, value + 1);
    value += 2;
  }
  if (random() % 2 == 0) {
    body += fmt::format(" %{} = {} %{} ", value + 1, random() % 2 == 0 ? "tanh" : "sigmoid", value);
    ++value;
  }
  t += fmt::format("%r: f32[{}] = pointwise {{ {} store %{} }}\n", images(filters, out), body, value);
  const std::int64_t five = 5;
  t +=
      fmt::format("%z: f32[{}] = convolution %r {}, %v [1, 1, 1, {}, 5] strides [0, 0, 0, 5, 1] into %z {}\n",
                  images(five, out), view(filters, out), filters, view(five, out));
  t += "output %z\n";
  if (random() % 2 == 0) t += "output %r\n";
  return c;
}

// Runs every case with these sizes of dimension m, where -1 stands for its own.
void compare_with_text(int count, PrecisionCase (*random_case)(std::uint64_t),
                       std::vector<std::int64_t> sizes) {
  Compiled programs;
  std::map<std::string, PrecisionCase> cases;
  std::map<std::string, ir::Schedule> wide, narrow;
  for (int i = 0; i < random_cases(count); ++i) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(i);
    const std::string name = fmt::format("seed{}", seed);
    const PrecisionCase c = random_case(seed);
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
    const ComputeThreads threads_of_case(1 + static_cast<int>(name.size() % 2));
    for (const std::int64_t size : sizes) {
      const std::int64_t m = size < 0 ? c.m : size;
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
        // A sum between two steps of the narrow type may be rounded to either, as its order is free.
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
}

TEST(LowerPrecision, RandomProgramsComputeWhatTheirTextSays) { compare_with_text(30, random_case, {0, -1}); }

TEST(LowerPrecision, RandomConvolutionsComputeWhatTheirTextSays) {
  compare_with_text(40, random_convolutions, {-1});
}

// Convolutions of one shape by other weights, whose results are halves with channels first, and to which a
// matrix is added, as in a model in halves.
TEST(LowerPrecision, ConvolutionsOfHalvesStoreHalvesInAnyLayout) {
  for (const std::string type : {"f16", "bf16"}) {
    for (const bool first : {true, false}) {
      SCOPED_TRACE(type + (first ? ", channels first" : ", channels last"));
      const std::string in = first ? "2, 3, 6, 5" : "2, 6, 5, 3", out = first ? "2, 4, 5, 4" : "2, 5, 4, 4";
      const std::string a = first ? "[2, 6, 5, 3] strides [90, 5, 1, 30]" : "[2, 6, 5, 3]";
      const std::string y = first ? "[2, 5, 4, 4] strides [80, 4, 1, 20]" : "[2, 5, 4, 4]";
      std::string text = fmt::format("graph main\ninput %x: {}[{}]\ninput %e: f32[{}]\n", type, in, out);
      for (const char* name : {"u", "v"}) {
        text += fmt::format("constant %w{}: {}[1, 2, 2, 3, 4] = splat(0.5)\n", name, type);
        text += fmt::format(
            "%{}: {}[{}] = convolution %x {}, %w{} into %{} {} epilogue {{ %0 = acc f32  "
            "%1 = load %e[{}]  %2 = add %0, %1  %3 = cast {} %2  return %3 }}\n",
            name, type, out, a, name, name, y,
            first ? "80*i0 + 4*i1 + i2 + 20*i3" : "80*i0 + 16*i1 + 4*i2 + i3", type);
      }
      text += "output %u\noutput %v\n";
      Compiled programs("-O1 -march=native");
      ir::Schedule schedule = ir::parse_schedule(text);
      ASSERT_EQ(ir::verify(schedule).size(), 0U) << text;
      fill_constants(schedule.graph, 5);
      programs.add_schedule("main", schedule);
      programs.build();
      const std::vector<ir::Tensor> inputs = random_inputs(schedule.graph, {}, 7);
      const std::vector<ir::Tensor> want = ir::run(schedule, {{inputs}}).outputs[0];
      rt::Program program = programs.open("main");
      const std::vector<ir::Tensor> got = programs.run(program, inputs);
      for (std::size_t k = 0; k < want.size(); ++k)
        expect_close(got[k], want[k], type == "f16" ? 1e-3 : 8e-3, fmt::format("output {}", k));
    }
  }
}

// Scores that differ much, in two blocks of keys: the first block's sums are scaled when a later one has a
// larger maximum.
TEST(LowerPrecision, BlocksOfKeysAreScaledToOneMaximum) {
  Compiled programs("-O1 -march=native");
  ir::Schedule schedule = ir::parse_schedule(R"(graph main
input %q: bf16[1, 2, 40, 32]  input %k: bf16[1, 2, 300, 32]  input %v: bf16[1, 2, 300, 32]
%a: bf16[1, 2, 40, 32] = attention %q, %k, %v scale 3.0
output %a
)");
  const ir::Schedule written = schedule;
  optimise(schedule, {});
  programs.add_schedule("main", schedule);
  programs.build();
  const std::vector<ir::Tensor> inputs = random_inputs(written.graph, {}, 11);
  const std::vector<ir::Tensor> want = ir::run(written, {{inputs}}).outputs[0];
  rt::Program program = programs.open("main");
  expect_close(programs.run(program, inputs)[0], want[0], 1e-2, "a");
}

// By how much more than of scores that are scaled by 1 / sqrt(depth) the errors of rounded operands are.
double growth_of_scores(const ir::Graph& graph) {
  double growth = 1;
  for (const ir::Operation& op : graph.ops) {
    if (const auto* k = op.as<ir::Attention>())
      growth = std::max(growth, k->scale * std::sqrt(static_cast<double>(k->query.sizes[3].constant())));
  }
  return growth;
}

// Attention in halves, with several blocks of queries and keys in every second program; results have the same
// bits for every number of threads.
TEST(LowerPrecision, RandomAttentionComputesWhatItsTextSays) {
  Compiled programs("-O1 -march=native");
  struct Program {
    std::string name;
    std::uint64_t seed;
    std::string type;
    RandomWindows random;
    ir::Schedule narrow;
  };
  std::vector<Program> cases;
  for (int i = 0; i < random_cases(40); ++i) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(i);
    Program p{fmt::format("seed{}", seed),
              seed,
              i % 4 == 3 ? "f16" : "bf16",
              random_attention(seed, ir::DType::f32, i % 2 == 0),
              {}};
    p.narrow = p.random.schedule;
    passes::PassContext context;
    passes::LowerPrecision{.type = p.type, .always = true}.run(p.narrow, context);
    ASSERT_EQ(ir::verify(p.narrow).size(), 0U) << ir::print(p.narrow);
    ir::Schedule schedule = p.narrow;
    optimise(schedule, {});
    programs.add_schedule(p.name, schedule);
    cases.push_back(std::move(p));
  }
  programs.build();
  int narrow = 0;
  for (const Program& p : cases) {
    SCOPED_TRACE(p.name + "\n" + ir::print(p.narrow));
    const std::vector<std::vector<ir::Tensor>> inputs = {
        random_inputs(p.random.schedule.graph, p.random.dims, p.seed)};
    const std::vector<ir::Tensor> text = ir::run(p.narrow, inputs).outputs[0],
                                  exact = ir::run(p.random.schedule, inputs).outputs[0];
    std::vector<std::vector<ir::Tensor>> got;
    for (const int threads : {1, 3}) {
      const ComputeThreads threads_of_case(threads);
      rt::Program program = programs.open(p.name);
      got.push_back(programs.run(program, inputs[0]));
    }
    EXPECT_EQ(got[0][0].bytes, got[1][0].bytes);
    // Intermediate probabilities may be rounded, and the result is, so the two may differ by two of the
    // type's steps.
    const double step = p.type == "bf16" ? 8e-3 : 1e-3;
    expect_close(got[0][0], text[0], 2 * step, "text");
    expect_close(got[0][0], exact[0], 8 * step * growth_of_scores(p.random.schedule.graph), "exact");
    for (const ir::OpId op : execution_order(p.narrow)) {
      const auto* k = p.narrow.graph[op].as<ir::Attention>();
      narrow += k != nullptr && p.narrow.graph[k->query.buffer].dtype != ir::DType::f32;
    }
    if (HasFailure()) break;
  }
  EXPECT_GT(narrow, static_cast<int>(cases.size()) / 2);
}

// Operations that the caller keeps stay as they are, whatever they would gain.
TEST(LowerPrecision, KeepsWhatIsAskedFor) {
  const std::string text = R"(graph main
input %x: f32[64, 256]
constant %w: f32[256, 512] = splat(0.5)
%y: f32[64, 512] = gemm %x, %w
%z: f32[64, 512] = gemm %x, %w
output %y
output %z
)";
  ir::Schedule schedule = ir::parse_schedule(text);
  passes::PassContext context;
  const passes::LowerPrecision pass{.type = "bf16", .always = true, .keep = {"y"}};
  const std::vector<passes::PrecisionChoice> choices = pass.choices(schedule, context);
  ASSERT_EQ(choices.size(), 2U);
  EXPECT_EQ(choices[0].reason, "asked for");
  EXPECT_EQ(choices[1].reason, "");
  ASSERT_TRUE(passes::LowerPrecision(pass).run(schedule, context));
  std::vector<std::string> wide;
  for (const ir::OpId op : execution_order(schedule)) {
    const auto* gemm = schedule.graph[op].as<ir::Gemm>();
    if (gemm != nullptr && schedule.graph[gemm->a.buffer].dtype == ir::DType::f32)
      wide.push_back(schedule.graph[op].name);
  }
  EXPECT_THAT(wide, ::testing::ElementsAre("y"));
}

// The cast of a product's result joins its epilogue, and a loop's cast joins the loop: no f32 is stored
// between.
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
