#include <fmt/format.h>

#include "ir/parser.h"
#include "passes/plan_memory.h"
#include "tests/codegen_cuda/cases.h"
#include "tests/support/ops.h"

namespace braid::test {
namespace {

using ir::BodyBuilder;
using ir::DType;
using ir::Expr;
using ir::OpCode;
using ir::TensorBox;
using ir::ValueId;

constexpr DType kAll[] = {DType::f32, DType::f64, DType::f16,    DType::bf16, DType::i8,
                          DType::i16, DType::i32, DType::i64,    DType::u8,   DType::u16,
                          DType::u32, DType::u64, DType::boolean};

// Every opcode that the type has, one output each.
ir::Schedule every_opcode(DType dtype) {
  Net net;
  TensorBox x = net.input("x", dtype, {3, 8}), y = net.input("y", dtype, {8});
  int k = 0;
  const auto out = [&](TensorBox t) { net.lowering.output(fmt::format("out{}", k++), t); };
  for (OpCode code : ops_of(dtype, 1)) out(net.unary(code, x));
  for (OpCode code : ops_of(dtype, 2)) out(net.binary(code, x, y));
  for (DType to : kAll) {
    if (to == dtype) continue;
    out(net.lowering.cast(x, to));
    if (ir::size_of(to) == ir::size_of(dtype)) {
      out(net.lowering.pointwise(
          {x}, [&](BodyBuilder& b, std::span<const ValueId> v) { return b.bitcast(v[0], to); }));
    }
  }
  out(net.lowering.generate({3, 8}, [&](BodyBuilder& b, std::span<const Expr> i) {
    const ValueId a = net.lowering.load(b, x, i), c = net.lowering.load(b, y, i.subspan(1));
    return b.where(b.binary(OpCode::eq, a, c), a, c);
  }));
  return net.finish();
}

// Literals of every kind, exactly.
ir::Schedule literals(DType dtype) {
  Net net;
  TensorBox x = net.input("x", dtype, {4});
  int k = 0;
  std::vector<ir::Literal> values;
  if (ir::is_float(dtype)) {
    for (double v : {0.1, -0.0, 1e-40, 3.4e38, 65504.0, -1.5, 1.0 / 3, HUGE_VAL, -HUGE_VAL, std::nan("")})
      values.push_back(v);
  } else if (dtype == DType::i64) {
    values = {std::int64_t{INT64_MIN}, std::int64_t{INT64_MAX}, std::int64_t{-3}};
  } else {
    values = {std::int64_t{INT32_MIN}, std::int64_t{INT32_MAX}, std::int64_t{-3}};
  }
  for (const ir::Literal& v : values) {
    net.lowering.output(
        fmt::format("out{}", k++), net.lowering.generate({4}, [&](BodyBuilder& b, std::span<const Expr> i) {
          const ValueId rounded =
              ir::is_float(dtype) ? b.constant_of(dtype, std::get<double>(v)) : b.constant(dtype, v);
          return b.binary(OpCode::max, net.lowering.load(b, x, i), rounded);
        }));
  }
  return net.finish();
}

// Views with and without even strides, a broadcast, a masked load (padding), a dynamic size.
ir::Schedule indexing() {
  Net net;
  const Expr n = net.graph.add_dim("n", {1, 9});
  TensorBox x = net.input("x", DType::f32, {n, 4, 6}), y = net.input("y", DType::f32, {6});
  net.lowering.output(
      "transposed", net.binary(OpCode::add, net.lowering.permute(x, {2, 0, 1}),
                               net.lowering.generate({6, n, 4}, [&](BodyBuilder& b, std::span<const Expr> i) {
                                 return b.cast(b.index(i[0] * 100 + i[2]), DType::f32);
                               })));
  net.lowering.output("broadcast", net.binary(OpCode::mul, x, y));
  net.lowering.output("reshaped", net.unary(OpCode::neg, net.lowering.reshape(x, {n * 3, 8})));
  net.lowering.output("reversed", net.unary(OpCode::neg, net.lowering.slice(x, 2, 5, 3, -2)));
  net.lowering.output("padded", net.lowering.generate({n, 8}, [&](BodyBuilder& b, std::span<const Expr> i) {
    const ValueId inside = b.binary(
        OpCode::logical_and, b.binary(OpCode::ge, b.index(i[1]), b.constant(DType::i64, std::int64_t{1})),
        b.binary(OpCode::lt, b.index(i[1]), b.constant(DType::i64, std::int64_t{7})));
    const std::vector<Expr> at = {i[0], 0, i[1] - 1};
    return net.lowering.load(b, x, at, inside);
  }));
  net.lowering.output("halves", net.lowering.generate({n, 6}, [&](BodyBuilder& b, std::span<const Expr> i) {
    const std::vector<Expr> at = {i[0], floor_div(i[1], 2), mod(i[1] * 5 + i[0], 6)};
    return net.lowering.load(b, x, at);
  }));
  return net.finish();
}

// Operands whose contiguous dimension is not that of the result.
ir::Schedule transposes(DType dtype) {
  Net net;
  const Expr a = net.graph.add_dim("a", {1, 150}), b = net.graph.add_dim("b", {1, 150});
  const TensorBox x = net.input("x", dtype, {a, 3, b}), y = net.input("y", dtype, {b, 3, a}),
                  z = net.input("z", dtype, {3, b, a}), square = net.input("square", dtype, {128, 128});
  const auto turned = [&](TensorBox t, std::vector<int> order) {
    return net.lowering.permute(t, std::move(order));
  };
  net.lowering.output("square_turned", net.unary(OpCode::abs, turned(square, {1, 0})));
  net.lowering.output("turned", net.unary(OpCode::abs, turned(x, {2, 1, 0})));
  net.lowering.output("sum", net.binary(OpCode::max, turned(x, {2, 1, 0}), y));
  net.lowering.output(
      "two", net.binary(OpCode::min, net.binary(OpCode::max, turned(z, {1, 0, 2}), y), turned(x, {2, 1, 0})));
  return net.finish();
}

ir::Schedule gather() {
  Net net;
  TensorBox table = net.input("table", DType::f32, {10, 4}), ids = net.input("ids", DType::i64, {5});
  net.lowering.set_origin("/embed/Gather");
  net.lowering.output("rows", net.lowering.generate({5, 4}, [&](BodyBuilder& b, std::span<const Expr> i) {
    const ValueId id = b.check_index(net.lowering.load(b, ids, i.first(1)), 10);
    const std::vector<Expr> at = {b.as_index(id), i[1]};
    return net.lowering.load(b, table, at);
  }));
  return net.finish();
}

// More than 2^31 possible elements: 64-bit indices; and two sizes that must be equal.
ir::Schedule wide_and_guarded() {
  Net net;
  const Expr n = net.graph.add_dim("n", {1, std::int64_t{1} << 33}), m = net.graph.add_dim("m", {1, 100});
  TensorBox x = net.input("x", DType::i32, {n, 2}), y = net.input("y", DType::i32, {m, 2});
  net.lowering.require_equal(n, m + 1);
  net.lowering.output("out", net.unary(OpCode::neg, x));
  net.lowering.output("other", net.unary(OpCode::abs, y));
  return net.finish();
}

}  // namespace

void add_elementwise_cases(std::vector<Case>& out) {
  for (DType dtype : kAll) {
    out.push_back({fmt::format("opcodes_{}", to_string(dtype)), [dtype] { return every_opcode(dtype); }});
  }
  for (DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64}) {
    out.push_back({fmt::format("literals_{}", to_string(dtype)), [dtype] { return literals(dtype); }});
  }
  out.push_back({"indexing", indexing});
  out.push_back({"outputs_to_copy", [] {
                   ir::Schedule schedule = ir::parse_schedule(kOutputsToCopy);
                   passes::PlanMemory().run(schedule);
                   return schedule;
                 }});
  for (DType dtype : {DType::u8, DType::f16, DType::f32, DType::f64})
    out.push_back({fmt::format("transposes_{}", to_string(dtype)), [dtype] { return transposes(dtype); }});
  out.push_back({"gather", gather});
  out.push_back({"wide_and_guarded", wide_and_guarded});
}

}  // namespace braid::test
