#include <fmt/format.h>

#include "codegen/cuda/gemm.h"
#include "ir/parser.h"
#include "passes/default_passes.h"
#include "passes/expand_attention.h"
#include "passes/expand_convolutions.h"
#include "passes/merge_products.h"
#include "passes/pad_results.h"
#include "passes/plan_memory.h"
#include "passes/runner.h"
#include "tests/codegen_cuda/cases.h"

namespace braid::test {
namespace {

using ir::BodyBuilder;
using ir::DType;
using ir::Expr;
using ir::OpCode;
using ir::TensorBox;
using ir::ValueId;

ir::Gemm* last_gemm(ir::Graph& graph) {
  for (std::size_t k = graph.ops.size(); k-- > 0;) {
    if (auto* gemm = graph.ops[k].as<ir::Gemm>()) return gemm;
  }
  return nullptr;
}

// Gives the last GEMM an epilogue over its accumulator and its output's indices.
void set_epilogue(Net& net,
                  const std::function<ValueId(BodyBuilder&, ValueId acc, std::span<const Expr> index)>& make,
                  DType acc = DType::f32) {
  ir::Gemm& gemm = *last_gemm(net.graph);
  BodyBuilder b(*net.graph.pool);
  std::vector<Expr> index;
  for (std::size_t k = 0; k < gemm.out.sizes.size(); ++k) index.push_back(net.graph.pool->index(k));
  const ValueId result = make(b, b.acc(acc), index);
  const DType out = net.graph[gemm.out.buffer].dtype;
  gemm.epilogue = b.finish(b.cast(result, out));
}

ValueId gelu_tanh(BodyBuilder& b, ValueId x) {
  const auto f = [&](double v) { return b.constant_of(b.dtype(x), v); };
  const ValueId cube = b.binary(OpCode::mul, b.binary(OpCode::mul, x, x), x);
  const ValueId inner = b.binary(OpCode::mul, f(0.7978845608028654),
                                 b.binary(OpCode::add, x, b.binary(OpCode::mul, f(0.044715), cube)));
  return b.binary(OpCode::mul, b.binary(OpCode::mul, f(0.5), x),
                  b.binary(OpCode::add, f(1.0), b.unary(OpCode::tanh, inner)));
}

// [rows, 12] x [12, 8] with an epilogue.
enum class Epilogue { none, bias, relu, bias_gelu, residual, exact_gelu };
ir::Schedule with_epilogue(DType dtype, Epilogue kind) {
  Net net;
  const Expr rows = net.graph.add_dim("rows", {1, 10});
  TensorBox x = net.input("x", dtype, {rows, 12}), w = net.input("w", dtype, {12, 8});
  TensorBox bias = net.input("bias", dtype, {8}), residual = net.input("residual", dtype, {rows, 8});
  net.lowering.set_origin("/mlp/MatMul");
  TensorBox y = net.lowering.matmul(x, w);
  const auto loaded = [&](BodyBuilder& b, const TensorBox& t, std::span<const Expr> i) {
    return b.cast(net.lowering.load(b, t, i), DType::f32);
  };
  if (kind != Epilogue::none) {
    set_epilogue(net, [&](BodyBuilder& b, ValueId acc, std::span<const Expr> i) -> ValueId {
      switch (kind) {
        case Epilogue::bias:
          return b.binary(OpCode::add, acc, loaded(b, bias, i.subspan(1)));
        case Epilogue::relu:
          return b.binary(OpCode::max, acc, b.constant_of(DType::f32, 0));
        case Epilogue::bias_gelu:
          return gelu_tanh(b, b.binary(OpCode::add, loaded(b, bias, i.subspan(1)), acc));
        case Epilogue::exact_gelu: {
          const ValueId e =
              b.unary(OpCode::erf, b.binary(OpCode::mul, acc, b.constant_of(DType::f32, 0.7071067811865476)));
          return b.binary(OpCode::mul, b.binary(OpCode::mul, acc, b.constant_of(DType::f32, 0.5)),
                          b.binary(OpCode::add, e, b.constant_of(DType::f32, 1)));
        }
        default:
          return b.binary(OpCode::add, b.binary(OpCode::add, acc, loaded(b, bias, i.subspan(1))),
                          loaded(b, residual, i));
      }
    });
  }
  net.lowering.output("y", y);
  return net.finish();
}

// Attention's two products: operands are views of one tensor, batch and heads do not merge.
ir::Schedule attention_products(DType dtype, int heads) {
  Net net;
  const Expr batch = net.graph.add_dim("batch", {1, 4}), seq = net.graph.add_dim("seq", {1, 8});
  const int width = heads * 4;
  TensorBox qkv = net.input("qkv", dtype, {batch, seq, 3 * width});
  std::vector<TensorBox> parts;
  for (int p = 0; p < 3; ++p) {
    TensorBox part = net.lowering.slice(qkv, 2, p * width, width);
    parts.push_back(net.lowering.permute(net.lowering.reshape(part, {batch, seq, heads, 4}), {0, 2, 1, 3}));
  }
  TensorBox scores = net.lowering.matmul(parts[0], net.lowering.permute(parts[1], {0, 1, 3, 2}));
  TensorBox mixed = net.lowering.matmul(net.unary(OpCode::abs, scores), parts[2]);
  net.lowering.output("scores", net.unary(OpCode::neg, scores));
  net.lowering.output("y",
                      net.lowering.reshape(net.lowering.permute(mixed, {0, 2, 1, 3}), {batch, seq, width}));
  return net.finish();
}

// Batches are innermost in all operands, which are no matrices then; the right one is the same for all of the
// first dimension.
ir::Schedule interleaved_products(int n) {
  const std::string text = fmt::format(R"(graph main
dim batch in [1, 3]
input %x: f16[4, {0}, {0}, batch]
input %w: f16[{0}, {0}, batch]
%y: f16[4, {0}, {0}, batch] = gemm %x [4, batch, {0}, {0}] strides [{1}*batch, 1, {0}*batch, batch], %w [4, batch, {0}, {0}] strides [0, 1, {0}*batch, batch] into %y [4, batch, {0}, {0}] strides [{1}*batch, 1, {0}*batch, batch]
output %y
)",
                                       n, n * n);
  ir::Schedule schedule = ir::parse_schedule(text, "interleaved");
  passes::PlanMemory().run(schedule);
  return schedule;
}

// One token against a cache: two of four products depend on the cache's length.
ir::Schedule decode_products() {
  Net net;
  const Expr past = net.graph.add_dim("past", {1, 2000});
  TensorBox x = net.input("x", DType::f32, {1, 24}), k = net.input("k", DType::f32, {past, 16}),
            v = net.input("v", DType::f32, {past, 16});
  TensorBox q = net.lowering.matmul(x, net.input("wq", DType::f32, {24, 16}));
  TensorBox scores = net.lowering.matmul(q, net.lowering.permute(k, {1, 0}));
  TensorBox mixed = net.lowering.matmul(net.unary(OpCode::abs, scores), v);
  net.lowering.output("y", net.lowering.matmul(mixed, net.input("wo", DType::f32, {16, 12})));
  return net.finish();
}

// Types and strides that the library does not take: a kernel of our own.
ir::Schedule naive(DType dtype) {
  Net net;
  TensorBox x = net.input("x", dtype, {2, 3, 5}), w = net.input("w", dtype, {5, 4});
  net.lowering.output("y", net.lowering.matmul(x, w));
  return net.finish();
}

// No matrices, in a batch of a size that is known: no step of it may be taken for that of one matrix.
ir::Schedule empty_batch() {
  Net net;
  TensorBox x = net.input("x", DType::f32, {1, 2, 3}), w = net.input("w", DType::f32, {0, 3, 4});
  net.lowering.output("y", net.lowering.matmul(net.unary(OpCode::neg, x), w));
  return net.finish();
}

// One matrix for all batches (stride 0), a vector operand, and weights; two equal products share one prepared
// object.
ir::Schedule broadcast_and_weights() {
  Net net;
  TensorBox x = net.input("x", DType::f32, {3, 2, 4, 6});
  TensorBox w = net.constant("w", DType::f32, {2, 6, 5}, 1), v = net.constant("v", DType::f32, {5}, 2);
  TensorBox y = net.lowering.matmul(x, w), z = net.lowering.matmul(net.unary(OpCode::neg, x), w);
  net.lowering.output("y", net.binary(OpCode::add, y, z));
  net.lowering.output("dot", net.lowering.matmul(net.lowering.reshape(y, {24, 5}), v));
  return net.finish();
}

std::string whole_numbers(int count) {
  std::string out;
  for (int k = 0; k < count; ++k) out += fmt::format("{}{}", k == 0 ? "" : ", ", (k * 5 + k / 7) % 7 - 3);
  return "[" + out + "]";
}

// Logits of 13 columns, made in parts of two rows each, by weights that are also an embedding.
ir::Schedule padded_results() {
  ir::Schedule schedule = ir::parse_schedule(fmt::format(R"(graph main  dim seq in [1, 9]  input %i: i64[seq]
constant %w: f16[13, 8] = {}
%x: f16[seq, 8] = pointwise {{ %0 = load %i[i0]  %1 = constant i64 3  %2 = bit_and %0, %1  %3 = check_index %2, 13  %4 = load %w[8*%3 + i1]  store %4 }}
%y: f16[seq, 13] output = gemm %x, transpose(%w)
output %y
)",
                                                         whole_numbers(104)));
  passes::PassContext context;
  passes::PadResults{.slowdown = 1e15, .part_bytes = 64}.run(schedule, context);
  passes::run_passes(schedule, passes::default_passes());
  return schedule;
}

// Three products with a bias, whose slices are batches of other products, and two products with an odd number
// of columns, for a loop.
ir::Schedule merged_products(DType dtype) {
  std::string text = fmt::format("graph main  dim seq in [1, 9]  input %x: {}[seq, 6]\n", to_string(dtype));
  for (const char* name : {"q", "k", "v"}) {
    text += fmt::format(R"(constant %w{0}: {1}[6, 16] = {2}  constant %b{0}: {1}[16] = {3}
%{0}.sum: {1}[seq, 16] = gemm %x, %w{0}
%{0}: {1}[seq, 16] = pointwise {{ %0 = load %{0}.sum  %1 = load %b{0}[i1]  %2 = add %0, %1  store %2 }}
)",
                        name, to_string(dtype), whole_numbers(96), whole_numbers(16));
  }
  text += fmt::format(R"(constant %wg: {0}[6, 5] = {1}  constant %wu: {0}[6, 5] = {1}
%g: {0}[seq, 5] = gemm %x, %wg
%u: {0}[seq, 5] = gemm %x, %wu
%z: {0}[seq, 5] output = pointwise {{ %0 = load %g  %1 = abs %0  %2 = load %u  %3 = mul %1, %2  store %3 }}
%s: f32[2, seq, seq] output = gemm %q [2, seq, 8] strides [8, 16, 1], %k [2, 8, seq] strides [8, 1, 16]
%y: {0}[2, seq, 8] output = pointwise {{ %0 = load %v[8*i0 + 16*i1 + i2]  store %0 }}
output %z  output %s  output %y
)",
                      to_string(dtype), whole_numbers(30));
  ir::Schedule schedule = ir::parse_schedule(text);
  passes::MergeProducts{.steps_taken = codegen::cuda::post_ops_taken}.run(schedule);
  passes::run_passes(schedule, passes::default_passes());
  return schedule;
}

// A product, one of a batch at addresses, one of a convolution and those of an attention.
ir::Schedule tensor_float_products() {
  ir::Schedule schedule = ir::parse_schedule(R"(graph main  dim rows in [1, 10]
input %x: f32[rows, 12]  input %w: f32[12, 8]  input %b: f32[8]
input %m: f32[2, 3, rows, 5]  input %n: f32[3, 2, 5, 6]
input %image: f32[1, rows, 4]  input %taps: f32[1, 3, 4, 6]  input %q: f32[1, 2, rows, 4]
%y: f32[rows, 8] = gemm tf32 %x, %w epilogue { %0 = acc f32  %1 = load %b[i1]  %2 = add %0, %1  return %2 }
%z: f32[2, 3, rows, 6] = gemm tf32 %m, %n [2, 3, 5, 6] strides [30, 60, 6, 1]
%c: f32[1, rows, 6] = convolution tf32 %image, %taps pad [1]
%a: f32[1, 2, rows, 4] = attention %q, %q, %q tf32
output %y  output %z  output %c  output %a
)");
  passes::ExpandAttention().run(schedule);
  passes::ExpandConvolutions{.min_terms = 0, .min_filters = 0}.run(schedule);
  passes::run_passes(schedule, passes::default_passes());
  return schedule;
}

// Rounded to a half type that is not the operands'.
ir::Schedule rounded_products(const std::string& in, const std::string& out) {
  ir::Schedule schedule = ir::parse_schedule(fmt::format(R"(graph main  dim rows in [1, 10]
input %x: {0}[rows, 12]  input %w: {0}[12, 8]  input %b: {1}[8]
%y: {1}[rows, 8] output = gemm %x, %w epilogue {{ %0 = acc f32  %1 = cast {1} %0  return %1 }}
%z: {1}[rows, 8] output = gemm %x, %w epilogue {{
  %0 = acc f32  %1 = load %b[i1]  %2 = cast f32 %1  %3 = add %0, %2  %4 = cast {1} %3  return %4 }}
output %y  output %z
)",
                                                         in, out));
  passes::run_passes(schedule, passes::default_passes());
  return schedule;
}

}  // namespace

void add_gemm_cases(std::vector<Case>& out) {
  constexpr std::pair<const char*, Epilogue> kKinds[] = {
      {"plain", Epilogue::none},        {"bias", Epilogue::bias},
      {"relu", Epilogue::relu},         {"bias_gelu", Epilogue::bias_gelu},
      {"residual", Epilogue::residual}, {"exact_gelu", Epilogue::exact_gelu}};
  for (const auto& [name, kind] : kKinds) {
    for (DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      out.push_back({fmt::format("gemm_{}_{}", name, to_string(dtype)),
                     [dtype, kind = kind] { return with_epilogue(dtype, kind); }});
    }
  }
  for (DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (int heads : {2, 3})
      out.push_back({fmt::format("attention_products_{}_{}", heads, to_string(dtype)),
                     [dtype, heads] { return attention_products(dtype, heads); }});
  }
  for (int size : {8, 40}) {
    out.push_back(
        {fmt::format("interleaved_products_{}", size), [size] { return interleaved_products(size); }});
  }
  out.push_back({"decode_products", decode_products});
  for (DType dtype : {DType::f64, DType::i32, DType::i8, DType::i64}) {
    out.push_back({fmt::format("gemm_naive_{}", to_string(dtype)), [dtype] { return naive(dtype); }});
  }
  for (DType dtype : {DType::f32, DType::f16})
    out.push_back(
        {fmt::format("merged_products_{}", to_string(dtype)), [dtype] { return merged_products(dtype); }});
  for (const auto& [in, to] : {std::pair{"f32", "f16"}, std::pair{"f32", "bf16"}, std::pair{"f16", "bf16"},
                               std::pair{"bf16", "f16"}})
    out.push_back({fmt::format("gemm_rounded_{}_{}", in, to), [in, to] { return rounded_products(in, to); }});
  out.push_back({"tensor_float_products", tensor_float_products});
  out.push_back({"padded_results", padded_results});
  out.push_back({"empty_batch", empty_batch});
  out.push_back({"broadcast_and_weights", broadcast_and_weights});
}

}  // namespace braid::test
