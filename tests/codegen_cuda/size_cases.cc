// Dimensions that may be 0 or 1, in every kind of kernel: rows, columns and folds of that length, products of
// nothing, collectives of one element or none.
#include <fmt/format.h>

#include <cmath>

#include "ir/parser.h"
#include "passes/default_passes.h"
#include "passes/expand_attention.h"
#include "passes/runner.h"
#include "tests/codegen_cuda/cases.h"

namespace braid::test {
namespace {

using ir::BodyBuilder;
using ir::DType;
using ir::Expr;
using ir::OpCode;
using ir::ReduceKind;
using ir::TensorBox;
using ir::ValueId;

constexpr std::int64_t kMost = 3;  // of each dimension, unless a kernel needs more

class SmallNet : public Net {
 public:
  explicit SmallNet(std::int64_t most = kMost)
      : a(graph.add_dim("a", {0, most})),
        b(graph.add_dim("b", {0, most})),
        c(graph.add_dim("c", {0, most})) {}

  // Through the default passes, as a program of a user.
  ir::Schedule optimised() {
    ir::Schedule schedule = finish();
    schedule.plan.reset();
    passes::run_passes(schedule, passes::default_passes());
    return schedule;
  }

  Expr a, b, c;
};

TensorBox softmax(Net& net, TensorBox x, int axis, bool realised) {
  TensorBox highest = net.lowering.reduce(x, ReduceKind::max, {axis}, true);
  TensorBox powers = net.unary(OpCode::exp, net.binary(OpCode::sub, x, highest));
  if (realised) powers = net.lowering.realize(powers);
  return net.binary(OpCode::div, powers, net.lowering.reduce(powers, ReduceKind::sum, {axis}, true));
}

// Each way to fold, along each axis and all of them; `most` decides between a warp and a block per row.
ir::Schedule folds(DType dtype, std::int64_t most) {
  SmallNet net(most);
  TensorBox x = net.input("x", dtype, {net.a, net.b, net.c});
  for (ReduceKind kind : {ReduceKind::sum, ReduceKind::prod, ReduceKind::max, ReduceKind::min}) {
    const std::string name(to_string(kind));
    net.lowering.output(name + "_last", net.lowering.reduce(x, kind, {2}, true));
    net.lowering.output(name + "_middle", net.lowering.reduce(net.unary(OpCode::abs, x), kind, {1}, false));
    net.lowering.output(name + "_all", net.lowering.reduce(x, kind, {0, 1, 2}, false));
  }
  return net.optimised();
}

// In fused nodes, in which a row of one element may be written in place of what all threads read.
ir::Schedule rows(bool realised, std::int64_t most) {
  SmallNet net(most);
  TensorBox x = net.input("x", DType::f32, {net.a, net.b, net.c});
  TensorBox scaled = net.binary(OpCode::mul, x, net.lowering.scalar(DType::f32, 0.5));
  net.lowering.output("last", softmax(net, scaled, 2, realised));
  net.lowering.output("middle", softmax(net, net.lowering.realize(net.unary(OpCode::neg, x)), 1, realised));
  TensorBox sums = net.lowering.realize(net.lowering.reduce(x, ReduceKind::sum, {2}, false));
  TensorBox total = net.lowering.realize(net.lowering.reduce(sums, ReduceKind::max, {1}, true));
  net.lowering.output("nested", net.binary(OpCode::sub, sums, total));
  return net.optimised();
}

// A static row of one element or none, with members that take the bytes of their operands.
ir::Schedule short_rows(std::int64_t columns) {
  Net net;
  const Expr rows = net.graph.add_dim("rows", {0, 4});
  TensorBox x = net.input("x", DType::f32, {rows, columns});
  TensorBox scores = net.lowering.realize(net.unary(OpCode::neg, x));
  TensorBox scaled =
      net.lowering.realize(net.binary(OpCode::mul, scores, net.lowering.scalar(DType::f32, 0.3)));
  TensorBox highest = net.lowering.reduce(scaled, ReduceKind::max, {1}, true);
  TensorBox powers = net.lowering.realize(net.unary(OpCode::exp, net.binary(OpCode::sub, scaled, highest)));
  TensorBox sum = net.lowering.reduce(powers, ReduceKind::sum, {1}, true);
  net.lowering.output("y", net.binary(OpCode::add, net.binary(OpCode::div, powers, sum), scaled));
  return net.finish_fused();
}

enum class SizesEpilogue { none, bias, relu, bias_relu, bias_gelu, residual };

ValueId gelu_by_tanh(BodyBuilder& b, ValueId x) {
  const auto f = [&](double v) { return b.constant_of(b.dtype(x), v); };
  const ValueId cube = b.binary(OpCode::mul, b.binary(OpCode::mul, x, x), x);
  const ValueId inner = b.binary(OpCode::mul, f(0.7978845608028654),
                                 b.binary(OpCode::add, x, b.binary(OpCode::mul, f(0.044715), cube)));
  return b.binary(OpCode::mul, b.binary(OpCode::mul, f(0.5), x),
                  b.binary(OpCode::add, f(1.0), b.unary(OpCode::tanh, inner)));
}

// [a, b] x [b, c], with what follows it as the frontend lowers it; also transposed, as a column-major result.
ir::Schedule product(DType dtype, SizesEpilogue epilogue) {
  SmallNet net;
  TensorBox x = net.input("x", dtype, {net.a, net.b}), w = net.input("w", dtype, {net.b, net.c});
  TensorBox bias = net.input("bias", dtype, {net.c}), residual = net.input("residual", dtype, {net.a, net.c});
  net.lowering.set_origin("/mlp/MatMul");
  TensorBox y = net.lowering.matmul(x, w);
  if (epilogue == SizesEpilogue::bias || epilogue == SizesEpilogue::bias_relu ||
      epilogue == SizesEpilogue::bias_gelu)
    y = net.binary(OpCode::add, y, bias);
  if (epilogue == SizesEpilogue::residual) y = net.binary(OpCode::add, y, residual);
  if (epilogue == SizesEpilogue::relu || epilogue == SizesEpilogue::bias_relu)
    y = net.binary(OpCode::max, y, net.lowering.scalar(dtype, 0.0));
  if (epilogue == SizesEpilogue::bias_gelu) {
    y = net.lowering.pointwise(
        {y}, [&](BodyBuilder& b, std::span<const ValueId> v) { return gelu_by_tanh(b, v[0]); });
  }
  net.lowering.output("y", y);
  net.lowering.output("transposed", net.lowering.permute(net.lowering.matmul(x, w), {1, 0}));
  return net.optimised();
}

// Batches that one stride describes, and that none does.
ir::Schedule batches(DType dtype) {
  SmallNet net;
  TensorBox x = net.input("x", dtype, {2, net.a, 3, net.b}), w = net.input("w", dtype, {2, 3, net.b, net.c});
  TensorBox moved = net.lowering.permute(x, {0, 2, 1, 3});
  net.lowering.output("pointers", net.lowering.matmul(moved, w));
  TensorBox z = net.input("z", dtype, {net.a, 2, net.b}), v = net.input("v", dtype, {net.a, net.b, net.c});
  net.lowering.output("strides", net.lowering.matmul(z, v));
  net.lowering.output("shared", net.lowering.matmul(z, net.input("u", dtype, {net.b, 4})));
  return net.optimised();
}

// A static axis of size 0: the sums are empty whatever the sizes.
ir::Schedule product_of_nothing() {
  SmallNet net;
  TensorBox x = net.input("x", DType::f32, {net.a, 0}), w = net.input("w", DType::f32, {0, net.c});
  TensorBox bias = net.input("bias", DType::f32, {net.c});
  net.lowering.output("y", net.binary(OpCode::add, net.lowering.matmul(x, w), bias));
  net.lowering.output("integers", net.lowering.matmul(net.input("i", DType::i32, {net.a, 0}),
                                                      net.input("j", DType::i32, {0, net.c})));
  return net.optimised();
}

// Attention of one key: rows of one element, whose first member overwrites the sums of the product, which all
// threads read.
constexpr const char* kOneKey = R"(graph g
dim a in [0, 4]
storage $scores: activation [4*a]
input %q: f32[a, 8]
input %k: f32[8, 1]
%sum: f32[a, 1] on $scores = gemm %q, %k
fused fused_weights {
  %scaled mutates %sum = pointwise [a] { %0 = load %sum[i0] %1 = constant f32 0.3 %2 = mul %0, %1 store %2 at i0 }
  %most: f32[a] = reduction max [a] over [1] { %0 = load %scaled[i0] store %0 at i0 }
  %raised: f32[a, 1] = pointwise [a] {
    %0 = load %scaled[i0] %1 = load %most[i0] %2 = sub %0, %1 %3 = exp %2 store %3 at i0
  }
  %total: f32[a] = reduction sum [a] over [1] { %0 = load %raised[i0] store %0 at i0 }
  %y: f32[a, 1] output = pointwise [a] {
    %0 = load %raised[i0] %1 = load %total[i0] %2 = div %0, %1 %3 = load %scaled[i0] %4 = add %2, %3 store %4 at i0
  }
}
output %y)";

// The same where the plan puts a result in place of an operand.
constexpr const char* kInPlace = R"(graph g
dim a in [0, 4]
input %x: f32[a, 1]
%scores: f32[a, 1] = pointwise { %0 = load %x %1 = neg %0 store %1 }
fused fused_weights {
  %scaled: f32[a, 1] = pointwise [a] { %0 = load %scores[i0] %1 = constant f32 0.3 %2 = mul %0, %1 store %2 at i0 }
  %most: f32[a] = reduction max [a] over [1] { %0 = load %scaled[i0] store %0 at i0 }
  %y: f32[a, 1] = pointwise [a] { %0 = load %scaled[i0] %1 = load %most[i0] %2 = sub %0, %1 store %2 at i0 }
}
%z: f32[a, 1] output = pointwise { %0 = load %scaled %1 = load %y %2 = sub %0, %1 store %2 }
output %z)";

// Elements are left out by a number that wraps: 0 to 199 of every 256.
constexpr const char* kWrappingBound = R"(graph g
dim a in [0, 600]
input %x: f32[a, 512]
%y: f32[512] output = reduction sum [512] over [a] {
  %0 = index u8 i1 %1 = index u8 200 %2 = lt %0, %1
  %3 = load %x[512*i1 + i0] if %2 %4 = constant f32 0.0 %5 = where %2, %3, %4 store %5
}
output %y
)";

ir::Schedule planned_text(const char* text) {
  ir::Schedule schedule = ir::parse_schedule(text, "case");
  passes::run_passes(schedule, passes::parse_pass_list("plan_memory"));
  return schedule;
}

// With `keys`, as many, whatever the sizes: the first step of a decoder has one.
ir::Schedule attention(bool masked, std::int64_t heads, std::int64_t keys = -1) {
  SmallNet net;
  if (keys >= 0) net.b = keys;
  ir::Lowering& l = net.lowering;
  const TensorBox query = net.input("query", DType::f32, {2, heads, net.a, 4});
  const TensorBox key = net.input("key", DType::f32, {2, heads, net.b, 4});
  const TensorBox value = net.input("value", DType::f32, {2, heads, net.b, net.c});
  ir::Attention kernel;
  kernel.scale = 0.5;
  ir::Lowering::AttentionViews views;
  views.query = query, views.key = key, views.value = value;
  if (masked) views.mask = net.input("mask", DType::f32, {1, 1, net.a, net.b});
  l.output("y", l.attention(std::move(kernel), std::move(views)));
  ir::Schedule schedule = net.finish();
  schedule.plan.reset();
  passes::ExpandAttention().run(schedule);
  passes::run_passes(schedule, passes::default_passes());
  return schedule;
}

// Copies, parts of larger tensors, repeated and reversed reads.
ir::Schedule copies() {
  SmallNet net;
  ir::Lowering& l = net.lowering;
  TensorBox x = net.input("x", DType::f32, {net.a, net.b}), y = net.input("y", DType::f32, {net.a, net.b});
  l.output("rows", l.concat({x, net.unary(OpCode::neg, y)}, 0));
  l.output("columns", l.concat({net.unary(OpCode::abs, x), y, x}, 1));
  l.output("turned", l.permute(net.unary(OpCode::neg, x), {1, 0}));
  l.output("flat", l.reshape(net.binary(OpCode::add, x, y), {net.a * net.b}));
  l.output("same", x);
  return net.optimised();
}

// One element per rank or none: through NCCL, or by kernels that read peers' memory.
ir::Schedule collectives(ir::Algorithm algorithm) {
  SmallNet net;
  net.graph.ranks = 2;
  const ir::GroupId world = net.graph.add_group("world", {0, 1});
  TensorBox x = net.lowering.realize(net.unary(OpCode::neg, net.input("x", DType::f32, {net.a, net.b})));
  net.lowering.output("all_reduce", net.lowering.all_reduce(x, world, ReduceKind::sum));
  TensorBox gathered = net.lowering.all_gather(net.unary(OpCode::abs, x), world, 0);
  net.lowering.output("all_gather", gathered);
  net.lowering.output("reduce_scatter", net.lowering.reduce_scatter(net.unary(OpCode::neg, gathered), world,
                                                                    0, ReduceKind::sum));
  ir::Schedule schedule = net.optimised();
  for (const ir::ScheduleNode& node : schedule.nodes) {
    if (node.members.empty()) {
      if (auto* k = schedule.graph[node.op].as<ir::CollectiveKernel>()) k->algorithm = algorithm;
    }
  }
  return schedule;
}

}  // namespace

std::vector<SizeCase> size_cases() {
  std::vector<SizeCase> out;
  const auto add = [&](std::string name, std::vector<std::int64_t> sizes, double tolerance,
                       std::function<ir::Schedule()> build) {
    out.push_back({"sizes_" + std::move(name), std::move(sizes), tolerance, std::move(build)});
  };
  const std::vector<std::int64_t> small = {0, 1, 3};
  for (DType dtype : {DType::f32, DType::f16, DType::i64, DType::u8})
    add(fmt::format("folds_{}", to_string(dtype)), small, 0, [dtype] { return folds(dtype, kMost); });
  add("folds_of_blocks", {0, 1, 40}, 1e-5, [] { return folds(DType::f32, 600); });
  for (bool realised : {false, true}) {
    add(fmt::format("rows_{}", realised), small, 1e-5, [=] { return rows(realised, kMost); });
    add(fmt::format("long_rows_{}", realised), {0, 1, 40}, 1e-5, [=] { return rows(realised, 600); });
  }
  for (std::int64_t columns : {0, 1, 2})
    add(fmt::format("short_rows_{}", columns), {0, 1, 4}, 1e-5, [=] { return short_rows(columns); });
  add("one_key", {0, 1, 4}, 1e-5, [] { return planned_text(kOneKey); });
  add("wrapping_bound", {0, 1, 600}, 0, [] { return planned_text(kWrappingBound); });
  add("one_in_place", {0, 1, 4}, 1e-5, [] { return planned_text(kInPlace); });
  constexpr std::pair<const char*, SizesEpilogue> kEpilogues[] = {
      {"none", SizesEpilogue::none},           {"bias", SizesEpilogue::bias},
      {"relu", SizesEpilogue::relu},           {"bias_relu", SizesEpilogue::bias_relu},
      {"bias_gelu", SizesEpilogue::bias_gelu}, {"residual", SizesEpilogue::residual}};
  constexpr std::pair<DType, double> kTypes[] = {
      {DType::f32, 1e-5}, {DType::f16, 4e-3}, {DType::bf16, 3e-2}, {DType::f64, 1e-12}};
  for (const auto& [dtype, tolerance] : kTypes) {
    for (const auto& [name, epilogue] : kEpilogues) {
      add(fmt::format("product_{}_{}", name, to_string(dtype)), small, tolerance,
          [dtype = dtype, epilogue = epilogue] { return product(dtype, epilogue); });
    }
    add(fmt::format("batches_{}", to_string(dtype)), small, tolerance,
        [dtype = dtype] { return batches(dtype); });
  }
  for (DType dtype : {DType::i8, DType::i64})
    add(fmt::format("product_{}", to_string(dtype)), small, 0,
        [=] { return product(dtype, SizesEpilogue::none); });
  add("product_of_nothing", small, 1e-5, product_of_nothing);
  for (bool masked : {false, true}) {
    for (std::int64_t heads : {1, 2}) {
      add(fmt::format("attention_{}_{}", masked, heads), small, 1e-5,
          [=] { return attention(masked, heads); });
    }
  }
  for (std::int64_t keys : {0, 1}) {
    for (std::int64_t heads : {1, 2}) {
      add(fmt::format("attention_of_{}_keys_{}", keys, heads), {1, 3}, 1e-5,
          [=] { return attention(false, heads, keys); });
    }
  }
  add("copies", small, 0, copies);
  add("nccl", small, 0, [] { return collectives(ir::Algorithm::library); });
  add("one_shot", small, 0, [] { return collectives(ir::Algorithm::one_shot); });
  return out;
}

void add_size_cases(std::vector<Case>& out) {
  for (const SizeCase& c : size_cases()) out.push_back({c.name, c.build, {}, "sizes"});
}

}  // namespace braid::test
