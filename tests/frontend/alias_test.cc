// Outputs in the memory of inputs: which layouts they get, that nothing of a cache is copied, that results
// are those of the copying program, and which requests are refused. The interpreter fills a cache beyond its
// elements with NaN.
#include "frontend/alias.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <random>

#include "driver/compile.h"
#include "ir/capacity.h"
#include "ir/effects.h"
#include "ir/error_numbers.h"
#include "ir/interpreter.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "tests/frontend/models.h"
#include "tests/paths.h"
#include "tests/support/random.h"
#include "tests/support/random_tensors.h"

namespace braid::frontend {
namespace {

using ir::Expr;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ir::UserError alias_error(const std::string& graph, const ImportOptions& options) {
  return error_of([&] { import_text(graph, options); });
}

bool share_memory(const ir::Schedule& schedule, std::size_t output, std::size_t input) {
  return ir::root_storage(schedule.graph, schedule.graph.outputs[output].buffer) ==
         ir::root_storage(schedule.graph, schedule.graph.inputs[input].buffer);
}

// Returns the element count of each access that writes into the memory of an input.
std::vector<Expr> written_into(const ir::Schedule& schedule, std::size_t input) {
  const ir::StorageId root = ir::root_storage(schedule.graph, schedule.graph.inputs[input].buffer);
  std::vector<Expr> counts;
  for (ir::OpId op : ir::execution_order(schedule)) {
    for (const ir::Access& access : ir::effects(schedule.graph, op).accesses) {
      if (access.region.storage == root && access.writes()) counts.push_back(ir::numel(access.view.sizes));
    }
  }
  return counts;
}

const std::string kCache =
    "g (float[batch, 2, past, 3] old, float[batch, 2, 1, 3] new) => (float[b, 2, total, 3] all, float[b, 2, "
    "t, 3] twice) { "
    "all = Concat <axis = 2> (old, new) twice = Add(all, all) }";
const ImportOptions kGrows = {.dims = {{"batch", {1, 4}}, {"past", {0, 7}}}, .aliases = {{"all", "old"}}};

// Nothing is added to some: their copies are what writes them, whatever others do.
TEST(Alias, WhatIsPassedThroughIsWrittenOnce) {
  const ir::Schedule schedule = import_text(
      "g (float[4] a, float[2, 3] old, float[1, 3] new, float[5] c) => (float[4] x, float[3, 3] all, "
      "float[5] y) { "
      "x = Identity(a) all = Concat <axis = 0> (old, new) y = Identity(c) }",
      {.aliases = {{"x", "a"}, {"all", "old"}, {"y", "c"}}});
  ir::verify(schedule);
  for (std::size_t k : {0, 1}) EXPECT_TRUE(share_memory(schedule, k, k)) << k;
  EXPECT_THAT(written_into(schedule, 0), ElementsAre(Expr(4)));
  EXPECT_THAT(written_into(schedule, 1), ElementsAre(Expr(3)));
  EXPECT_THAT(written_into(schedule, 3), ElementsAre(Expr(5)));
}

TEST(Alias, ACacheGetsTheLayoutOfItsCapacities) {
  const ir::Schedule schedule = import_text(kCache, kGrows);
  const ir::Graph& graph = schedule.graph;
  EXPECT_TRUE(share_memory(schedule, 0, 0));
  EXPECT_THAT(ir::capacities(graph, graph.inputs[0].buffer).value(), ElementsAre(4, 2, 8, 3));
  EXPECT_THAT(ir::capacities(graph, graph.outputs[0].buffer).value(), ElementsAre(4, 2, 8, 3));
  EXPECT_FALSE(ir::capacities(graph, graph.inputs[1].buffer).has_value());
  EXPECT_FALSE(ir::capacities(graph, graph.outputs[1].buffer).has_value());
  EXPECT_EQ(ir::max_bytes(graph, graph.inputs[0].buffer), 4 * 2 * 8 * 3 * 4);
  const std::string text = ir::print(schedule);
  EXPECT_THAT(text, HasSubstr("strides [48, 24, 3, 1]"));
  EXPECT_EQ(ir::print(ir::parse_schedule(text)), text);
}

TEST(Alias, OnlyTheNewElementsAreWritten) {
  ir::Schedule schedule = import_text(kCache, kGrows);
  const Expr batch = schedule.graph.dims[0];
  EXPECT_THAT(written_into(schedule, 0), ElementsAre(batch * 6));
  optimise(schedule, {});
  EXPECT_THAT(written_into(schedule, 0), ElementsAre(batch * 6));
  EXPECT_TRUE(ir::verify(schedule).empty());
}

TEST(Alias, AnOutputThatIsNoAliasStaysDense) {
  ir::Schedule schedule = import_text(
      "g (float[2, past, 3] old, float[2, 1, 3] new) => (float[2, total, 3] all, float[2, other, 3] more) { "
      "all = Concat "
      "<axis = 1> (old, new) more = Concat <axis = 1> (old, new, new) }",
      {.dims = {{"past", {0, 7}}}, .aliases = {{"more", "old"}}});
  optimise(schedule, {});
  const ir::Graph& graph = schedule.graph;
  EXPECT_TRUE(share_memory(schedule, 1, 0));
  EXPECT_THAT(ir::capacities(graph, graph.outputs[1].buffer).value(), ElementsAre(2, 9, 3));
}

TEST(Alias, OutputTakesTheMemoryOfAnInputThatGrowsInItsFirstDimension) {
  const ir::Schedule schedule = import_text(
      "g (float[past, 2, 3] old, float[1, 2, 3] new) => (float[total, 2, 3] all) { all = Concat <axis = 0> "
      "(old, new) }",
      {.dims = {{"past", {0, 7}}}, .aliases = {{"all", "old"}}});
  EXPECT_TRUE(share_memory(schedule, 0, 0));
  EXPECT_THAT(written_into(schedule, 0), ElementsAre(Expr(6)));
  EXPECT_THAT(ir::capacities(schedule.graph, schedule.graph.inputs[0].buffer).value(), ElementsAre(8, 2, 3));
}

TEST(Alias, OutputOfTheSameSizesTakesTheMemoryDense) {
  const ir::Schedule schedule = import_text("g (float[n, 3] x) => (float[n, 3] y) { y = Neg(x) }",
                                            {.dims = {{"n", {0, 7}}}, .aliases = {{"y", "x"}}});
  EXPECT_TRUE(share_memory(schedule, 0, 0));
  EXPECT_FALSE(ir::capacities(schedule.graph, schedule.graph.inputs[0].buffer).has_value());
}

// --------------------------------------------------------------------------------------------------- refused

struct Refused {
  const char* name;
  std::string graph;
  ImportOptions options;
  std::string why;
};

class RefusedAlias : public ::testing::TestWithParam<Refused> {};

TEST_P(RefusedAlias, SaysWhy) {
  const ir::UserError error = alias_error(GetParam().graph, GetParam().options);
  EXPECT_EQ(error.code(), errors::kAlias);
  EXPECT_THAT(error.what(), HasSubstr(GetParam().why));
}

const std::map<std::string, ir::Bounds> kPast = {{"past", {0, 7}}};

INSTANTIATE_TEST_SUITE_P(
    Alias, RefusedAlias,
    ::testing::Values(
        Refused{"UnknownInput",
                "g (float[2] x) => (float[2] y) { y = Neg(x) }",
                {.aliases = {{"y", "cache"}}},
                "cache"},
        Refused{"UnknownOutput",
                "g (float[2] x) => (float[2] y) { y = Neg(x) }",
                {.aliases = {{"z", "x"}}},
                "no output"},
        Refused{"ReadAfterwards",
                "g (float[2] x) => (float[2] y, float[2] z) { y = Neg(x) z = Exp(x) }",
                {.aliases = {{"y", "x"}}},
                "reads the input after the output is written"},
        Refused{"Types",
                "g (float[2] x) => (double[2] y) { y = Cast <to = 11> (x) }",
                {.aliases = {{"y", "x"}}},
                "types differ, f64 and f32"},
        Refused{
            "Ranks",
            "g (float[2, 3] x) => (float[6] y) { s = Constant <value = int64[1] {6}> () y = Reshape(x, s) }",
            {.aliases = {{"y", "x"}}},
            "ranks differ"},
        Refused{"PastComesSecond",
                "g (float[2, past, 3] old, float[2, 1, 3] new) => (float[2, t, 3] all) { all = Concat <axis "
                "= 1> (new, old) }",
                {.dims = kPast, .aliases = {{"all", "old"}}},
                "different offsets along axis 0"},
        Refused{"PastComesSecondAlongTheFirstAxis",
                "g (float[past, 3] old, float[1, 3] new) => (float[t, 3] all) { all = Concat <axis = 0> "
                "(new, old) }",
                {.dims = kPast, .aliases = {{"all", "old"}}},
                "'all.part.1' reads the input after the output is written"},
        Refused{"MovedWithin",
                "g (float[3, 3] x) => (float[3, 3] y) { y = Transpose(x) }",
                {.aliases = {{"y", "x"}}},
                "reads one and writes the other"},
        Refused{"APartOfThePast",
                "g (float[2, past, 3] old, float[2, 1, 3] new) => (float[2, t, 3] all) { z = Constant <value "
                "= int64[1] {0}> () "
                "e = Constant <value = int64[1] {1}> () a = Constant <value = int64[1] {0}> () half = "
                "Slice(old, z, e, a) "
                "two = Concat <axis = 0> (half, half) all = Concat <axis = 1> (two, new) }",
                {.dims = kPast, .aliases = {{"all", "old"}}},
                "begins with the whole input"},
        Refused{"Computed",
                "g (float[2, past, 3] old, float[2, 1, 3] new) => (float[2, t, 3] all) { n = Neg(old) all = "
                "Concat <axis = 1> "
                "(n, new) }",
                {.dims = kPast, .aliases = {{"all", "old"}}},
                "begins with the whole input"},
        Refused{"TwoOutputsInOneInput",
                "g (float[2, past, 3] old, float[2, 1, 3] new) => (float[2, t, 3] a, float[2, t, 3] b) { a = "
                "Concat <axis = 1> "
                "(old, new) n = Neg(new) b = Concat <axis = 1> (old, n) }",
                {.dims = kPast, .aliases = {{"a", "old"}, {"b", "old"}}},
                "output 'a' already does"},
        Refused{"TooMuchRoom",
                "g (float[a, 1] x) => (float[1, a] y) { y = Transpose(x) }",
                {.dims = {{"a", {0, 1LL << 40}}}, .aliases = {{"y", "x"}}},
                "exceeds 64 bits"}),
    [](const auto& info) { return std::string(info.param.name); });

// --------------------------------------------------------------------------------------------- random caches

// A cache with one growing axis and other readers of its old and new contents.
struct RandomCache {
  std::string graph;
  ImportOptions options;
  std::map<std::string, std::int64_t> sizes;  // of the dimensions
};

RandomCache random_cache(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
  RandomCache c;
  const std::int64_t rank = 1 + below(4), axis = below(static_cast<std::uint64_t>(rank));
  std::string old, fresh;
  const auto add_dim = [&](const std::string& name, std::int64_t low) {
    const std::int64_t most = low + 1 + below(4);
    c.options.dims[name] = {low, most};
    c.sizes[name] = low + below(static_cast<std::uint64_t>(most - low + 1));
  };
  add_dim("past", 0);
  const bool one = below(2) == 0;
  if (!one) add_dim("count", below(2));
  for (std::int64_t k = 0; k < rank; ++k) {
    std::string size = std::to_string(1 + below(3));
    if (k != axis && below(3) == 0) {
      size = "d" + std::to_string(k);
      add_dim(size, 1);
    }
    const std::string comma = k == 0 ? "" : ", ";
    old += comma + (k == axis ? "past" : size);
    fresh += comma + (k == axis ? (one ? "1" : "count") : size);
  }
  const std::string a = std::to_string(axis);
  // Sizes of outputs are inferred; their names occur nowhere else.
  const auto result = [&](const std::string& name) {
    std::string text = "float[";
    for (std::int64_t k = 0; k < rank; ++k) text += (k == 0 ? "" : ", ") + name + "_" + std::to_string(k);
    return text + "] " + name;
  };
  std::string outputs = result("present"), nodes = "present = Concat <axis = " + a + "> (past_, new) ";
  if (below(2) == 0) nodes = "moved = Neg(new) present = Concat <axis = " + a + "> (past_, moved) ";
  if (below(2) == 0) {
    outputs += ", " + result("after");
    nodes += "after = Exp(present) ";
  }
  if (below(2) == 0) {
    outputs += ", float[s] sum";
    nodes += "axes = Constant <value = int64[1] {" + a +
             "}> () sum_ = ReduceSum(present, axes) f = Constant <value = int64[1] "
             "{-1}> () sum = Reshape(sum_, f) ";
  }
  if (below(2) == 0) {  // the old contents, read after the new ones are written
    outputs += ", " + result("before");
    nodes += "before = Mul(past_, past_) ";
  }
  if (below(2) == 0) {  // a second tensor that begins with the cache, but has memory of its own
    outputs += ", " + result("other");
    nodes += "turned = Sin(new) other = Concat <axis = " + a + "> (past_, turned) ";
  }
  c.graph = "g (float[" + old + "] past_, float[" + fresh + "] new) => (" + outputs + ") { " + nodes + "}";
  return c;
}

void expect_equal(const std::vector<ir::Tensor>& got, const std::vector<ir::Tensor>& want,
                  const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (std::size_t k = 0; k < got.size(); ++k) {
    EXPECT_EQ(got[k].sizes, want[k].sizes) << what << ", output " << k;
    EXPECT_EQ(got[k].bytes, want[k].bytes) << what << ", output " << k;
  }
}

TEST(Alias, RandomCachesGiveWhatTheCopyingProgramGives) {
  const std::uint64_t first = test::first_seed();
  for (std::uint64_t seed = first; seed < first + static_cast<std::uint64_t>(test::random_cases(300));
       ++seed) {
    const RandomCache c = random_cache(seed);
    const std::string what = "seed " + std::to_string(seed) + ": " + c.graph;
    SCOPED_TRACE(what);
    const ir::Schedule copying = import_text(c.graph, c.options);
    ImportOptions options = c.options;
    options.aliases = {{"present", "past_"}};
    ir::Schedule growing = import_text(c.graph, options);
    EXPECT_TRUE(share_memory(growing, 0, 0));
    EXPECT_EQ(written_into(growing, 0).size(), 1u);
    EXPECT_TRUE(ir::verify(growing).empty());
    const std::vector<ir::Tensor> inputs = test::random_inputs(copying.graph, c.sizes, seed);
    const std::vector<std::vector<ir::Tensor>> given = {inputs};
    const std::vector<ir::Tensor> want = ir::run(copying, given).outputs[0];
    expect_equal(ir::run(growing, given).outputs[0], want, what);
    optimise(growing, {});
    EXPECT_TRUE(ir::verify(growing).empty());
    expect_equal(ir::run(growing, given, {.use_plan = true}).outputs[0], want, what + " (optimised)");
    const std::string text = ir::print(growing);
    EXPECT_EQ(ir::print(ir::parse_schedule(text)), text);
  }
}

// ------------------------------------------------------------------------------------ caches of a fixed size

struct FixedCache {
  const char* name;
  std::string graph;
  std::vector<std::int64_t> first;  // positions, for a batch of 2
};

class FixedCaches : public ::testing::TestWithParam<FixedCache> {};

// The new rows alone are written, and what follows the update reads them and the old ones.
TEST_P(FixedCaches, WriteOnlyTheirNewRows) {
  const ImportOptions copying_options{.dims = {{"batch", {1, 3}}, {"n", {1, 4}}}};
  ImportOptions options = copying_options;
  options.aliases = {{"present", "past_"}};
  const ir::Schedule copying = import_text(GetParam().graph, copying_options, 24);
  ir::Schedule growing = import_text(GetParam().graph, options, 24);
  EXPECT_TRUE(share_memory(growing, 0, 0));
  const auto calls = [](const ir::Schedule& schedule) {
    int count = 0;
    for (ir::OpId op : ir::execution_order(schedule)) {
      const auto* kernel = schedule.graph[op].as<ir::ExternKernel>();
      count += kernel != nullptr && kernel->callee == "write_rows" ? 1 : 0;
    }
    return count;
  };
  EXPECT_EQ(calls(growing), 1);
  EXPECT_EQ(calls(copying), 0);
  std::vector<ir::Tensor> inputs = test::random_inputs(copying.graph, {{"batch", 2}, {"n", 3}}, 5);
  inputs[2] = ir::make_tensor(ir::DType::i64, {2}, GetParam().first);
  const std::vector<std::vector<ir::Tensor>> given = {inputs};
  const std::vector<ir::Tensor> want = ir::run(copying, given).outputs[0];
  expect_equal(ir::run(growing, given).outputs[0], want, "as lowered");
  optimise(growing, {});
  EXPECT_EQ(calls(growing), 1);
  EXPECT_TRUE(ir::verify(growing).empty());
  expect_equal(ir::run(growing, given, {.use_plan = true}).outputs[0], want, "optimised");
}

INSTANTIATE_TEST_SUITE_P(Alias, FixedCaches,
                         ::testing::Values(FixedCache{"Linear",
                                                      "g (float[batch, 2, 8, 3] past_, float[batch, 2, n, 3] "
                                                      "new, int64[batch] at) => (float[batch, 2, 8, 3] "
                                                      "present, float[batch, 2, 8, 3] after) { present = "
                                                      "TensorScatter <axis = 2> (past_, new, at) after = "
                                                      "Exp(present) }",
                                                      {5, 0}},
                                           FixedCache{"Ring",
                                                      "g (float[batch, 8, 3] past_, float[batch, n, 3] new, "
                                                      "int64[batch] at) => (float[batch, 8, 3] present, "
                                                      "float[batch, 8, 3] after) { present = TensorScatter "
                                                      "<axis = 1, mode = \"circular\"> (past_, new, at) "
                                                      "after = Exp(present) }",
                                                      {6, 21}},
                                           FixedCache{"LastAxis",
                                                      "g (float[batch, 3, 8] past_, float[batch, 3, n] new, "
                                                      "int64[batch] at) => (float[batch, 3, 8] present, "
                                                      "float[batch, 3, 8] after) { present = TensorScatter "
                                                      "<axis = 2> (past_, new, at) after = Exp(present) }",
                                                      {0, 4}}),
                         [](const auto& info) { return std::string(info.param.name); });

// -------------------------------------------------------------------------------------------- planted faults

// A program that grows a cache, changed in one place: the verifier or the results say so.
TEST(Alias, FaultsInAGrowingCacheAreFound) {
  const ir::Schedule copying = import_text(kCache, {.dims = kGrows.dims});
  const std::string text = ir::print(import_text(kCache, kGrows));
  const std::vector<std::vector<ir::Tensor>> given = {
      test::random_inputs(copying.graph, {{"batch", 3}, {"past", 5}}, 7)};
  const std::vector<ir::Tensor> want = ir::run(copying, given).outputs[0];
  ASSERT_EQ(ir::run(ir::parse_schedule(text), given).outputs[0][0].bytes, want[0].bytes);
  const struct {
    const char *what, *from, *to;
    bool verified;  // refused before it runs
  } faults[] = {
      {"the past is overwritten", "in %all at 3*past strides", "in %all at 0 strides", false},
      {"one position too far", "in %all at 3*past strides", "in %all at 3*past + 3 strides", false},
      {"one position too early", "in %all at 3*past strides", "in %all at 3*past - 3 strides", false},
      {"a head's stride without the room", "in %all at 3*past strides [48, 24, 3, 1]",
       "in %all at 3*past strides [48, 21, 3, 1]", false},
      {"less room than positions", "f32[batch, 2, past, 3] strides [48, 24, 3, 1]",
       "f32[batch, 2, past, 3] strides [36, 18, 3, 1]", true},
      {"strides out of order", "f32[batch, 2, past, 3] strides [48, 24, 3, 1]",
       "f32[batch, 2, past, 3] strides [24, 48, 3, 1]", true},
      {"other strides of the output", "f32[batch, 2, past + 1, 3] strides [48, 24, 3, 1] on $all",
       "f32[batch, 2, past + 1, 3] strides [42, 21, 3, 1] on $all", true},
  };
  for (const auto& fault : faults) {
    SCOPED_TRACE(fault.what);
    std::string changed = text;
    const std::size_t at = changed.find(fault.from);
    ASSERT_NE(at, std::string::npos) << text;
    changed.replace(at, std::string(fault.from).size(), fault.to);
    const ir::Schedule schedule = ir::parse_schedule(changed);
    if (fault.verified) {
      EXPECT_FALSE(ir::verify(schedule).empty()) << changed;
      continue;
    }
    EXPECT_NE(ir::run(schedule, given).outputs[0][0].bytes, want[0].bytes);
  }
  // Only the new part is stored: with a copy of the past, which the alias left out, the order shows it.
  std::string copies = text;
  const std::string past =
      "%again: f32[batch, 2, past, 3] in %all strides [48, 24, 3, 1] = pointwise { %0 = load %old store %0 "
      "}\n";
  copies.insert(copies.find("%all.part.1"), past);
  EXPECT_GT(written_into(ir::parse_schedule(copies), 0).size(), 1u);
}

// -------------------------------------------------------------------------------------------------- decoders

// Models of tests/models/decoders.py: attention spelled out, shared key heads, ONNX's operator, other layouts
// of caches.
class Decoders : public ::testing::TestWithParam<const char*> {};

TEST_P(Decoders, CopyNothingOfTheirCaches) {
  const std::string path = paths::test_models("decoders/" + std::string(GetParam()) + ".onnx");
  ImportOptions options{.dims = {{"batch", {1, 2}}, {"sequence", {1, 1}}, {"past", {0, 15}}}};
  const bool stacked = GetParam() == std::string("stacked");
  for (const char* layer : {"0", "1"}) {
    for (const char* what : {"key", "value"}) {
      if (stacked && what == std::string("value")) continue;
      if (stacked) what = "both";
      options.aliases.emplace_back(fmt::format("present.{}.{}", layer, what),
                                   fmt::format("past.{}.{}", layer, what));
    }
  }
  ir::Schedule schedule = import_model(path, options);
  optimise(schedule, {});
  const ir::Graph& graph = schedule.graph;
  for (std::size_t k = 1; k < graph.inputs.size(); ++k) {
    // One element of each head per token, in one loop or two (halves of a rotary embedding); no copy of old
    // elements.
    std::int64_t elements = 0;
    for (const Expr& written : written_into(schedule, k)) elements += ir::bounds(written).max;
    EXPECT_GT(elements, 0) << graph.inputs[k].name;
    EXPECT_LE(elements, (stacked ? 2 : 1) * 2 * 4 * 8) << graph.inputs[k].name;
    // And only attention reads it.
    const ir::StorageId root = ir::root_storage(graph, graph.inputs[k].buffer);
    for (ir::OpId op : ir::execution_order(schedule)) {
      for (const ir::Access& access : ir::effects(graph, op).accesses) {
        if (access.region.storage == root && !access.writes()) {
          EXPECT_NE(graph[op].as<ir::Attention>(), nullptr)
              << graph[op].name << " reads " << graph.inputs[k].name;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Alias, Decoders,
                         ::testing::Values("gpt2", "llama", "attention", "time_first", "transposed",
                                           "multi_head", "stacked"));

}  // namespace
}  // namespace braid::frontend
