// Recurrent layers: calls of runtime/recurrence.h, with the activations as functors and the recurrent
// products as matrix products of the program.
#include <fmt/format.h>

#include "codegen/cpp/instr_text.h"
#include "codegen/cpp/program_emitter.h"
#include "ir/error.h"
#include "ir/typing.h"

namespace braid::codegen::cpp {

using namespace ir;

namespace {

// struct NAME { T operator()(T acc) const {...} };  without "struct NAME".
std::string functor_text(const LoopBody& body) {
  const std::string type = value_type(body.result_dtype());
  Writer w;
  w.open(fmt::format("  {} operator()({} acc) const {{", type, type));
  for (std::size_t k = 0; k < body.instrs.size(); ++k) {
    const Instr& instr = body.instrs[k];
    std::vector<std::string> operands;
    for (ValueId v : instr.operands) operands.push_back(fmt::format("v{}", v.index));
    std::string value;
    if (instr.code == OpCode::acc) {
      value = "acc";
    } else if (instr.code == OpCode::constant) {
      value = literal(instr.dtype, instr.literal);
    } else {
      value = arithmetic(instr, body.operand_dtype(instr), operands, std::nullopt);
    }
    w.line(fmt::format("const {} v{} = {};", value_type(instr.dtype), k, value));
  }
  w.line(fmt::format("return v{};", body.result.index));
  w.close("}");
  return w.text();
}

// Columns [from, from + count) of a matrix.
TensorRef columns(const TensorRef& matrix, Expr from, Expr count) {
  TensorRef part = matrix;
  part.offset = part.offset + from * part.strides[1];
  part.sizes[1] = count;
  return part;
}

// Its RecurrenceForm in runtime/recurrence.h.
std::string form_of(const Recurrence& k) {
  std::string form;
  for (const auto& [has, name] :
       std::initializer_list<std::pair<bool, const char*>>{{k.reverse, "reverse"},
                                                           {k.linear_before_reset, "linear_before_reset"},
                                                           {k.coupled, "coupled"},
                                                           {k.clip > 0, "clip"},
                                                           {k.initial_c.has_value(), "initial_c"},
                                                           {k.bias.has_value(), "bias"},
                                                           {k.peepholes.has_value(), "peepholes"},
                                                           {k.lengths.has_value(), "lengths"}}) {
    if (has) form += fmt::format("{}.{} = true", form.empty() ? "" : ", ", name);
  }
  return form;
}

}  // namespace

std::string ProgramEmitter::activation_functor(const LoopBody& body) {
  // The runtime has functors for these.
  if (body.instrs.size() == 2 && body.instrs[0].code == OpCode::acc && body.result.index == 1) {
    if (body.instrs[1].code == OpCode::sigmoid) return "Sigmoid";
    if (body.instrs[1].code == OpCode::tanh) return "Tanh";
  }
  const std::string text = functor_text(body);
  const auto [it, fresh] = functor_index_.try_emplace(text, functors_.size());
  if (fresh) functors_.push_back(text);
  return fmt::format("Activation{}", it->second);
}

std::pair<std::size_t, std::string> ProgramEmitter::recurrent_products(OpId id, const Recurrence& k) {
  const Expr hidden = k.weights.sizes[0];
  // The rows of a part are h, or what the layer puts into y of the step: both [batch, hidden], row-major.
  std::vector<std::pair<Expr, Expr>> parts = {{0, k.weights.sizes[1]}};
  if (k.cell == CellKind::gru && !k.linear_before_reset) parts = {{0, hidden * 2}, {hidden * 2, hidden}};
  std::string products;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    Gemm gemm;
    gemm.a = k.results[1];
    gemm.b = columns(k.weights, parts[p].first, parts[p].second);
    gemm.out = columns(k.results.back(), parts[p].first, parts[p].second);
    const GemmCall call = use_gemm(gemm, label(id), true);
    products += fmt::format("{}gemm_columns({}, {{rows, {}, work}}, {}, begin, end);", p == 0 ? "" : " else ",
                            call.index, address(gemm.b.buffer, gemm.b.offset),
                            call.packed.empty() ? "nullptr" : call.packed.substr(2));
    if (p == 0 && parts.size() > 1) products = "if (part == 0) " + products;
  }
  return {parts.size(), products};
}

void ProgramEmitter::emit(OpId id, const Recurrence& k) {
  const DType type = s_.graph[k.gates.buffer].dtype;
  const Expr hidden = k.weights.sizes[0];
  note({id}, fmt::format("{}{}", to_string(k.cell), k.reverse ? ", backwards" : ""));

  const TensorRef &y = k.results[0], &h = k.results[1], &work = k.results.back();
  const std::size_t first = gemms_.size();
  const auto [parts, products] = recurrent_products(id, k);
  const std::string element = storage_type(type), sum = value_type(accumulator_of(type));
  headers_.insert("runtime/recurrence.h");
  const std::string args = fmt::format("layer{}", recurrences_++);
  step_.push_back(
      fmt::format("RecurrenceArgs<{}, {}, RecurrenceForm{{{}}}> {};", element, sum, form_of(k), args));
  const auto set = [&](const char* field, const std::string& value) {
    step_.push_back(fmt::format("{}.{} = {};", args, field, value));
  };
  const auto operand = [&](const char* field, const TensorRef& ref, bool written = false) {
    set(field, address(ref.buffer, ref.offset, !written));
  };
  set("steps", size(k.gates.sizes[0]));
  set("batch", size(k.gates.sizes[1]));
  set("hidden", size(hidden));
  if (k.clip > 0) set("clip", literal(accumulator_of(type), k.clip));
  operand("gates", k.gates);
  operand("initial_h", k.initial_h);
  if (k.initial_c) operand("initial_c", *k.initial_c);
  if (k.bias) operand("bias", *k.bias);
  if (k.peepholes) operand("peepholes", *k.peepholes);
  if (k.lengths) {
    operand("lengths", *k.lengths);
    set("error", "&index_error_");
    set("site", fmt::format("{}", sites_.size()));
    sites_.push_back(label(id));
  }
  operand("y", y, true);
  operand("h", h, true);
  if (k.cell == CellKind::lstm) operand("c", k.results[2], true);
  operand("work", work, true);
  std::string functors;
  for (const LoopBody& body : k.activations) functors += fmt::format(", {}{{}}", activation_functor(body));
  step_.push_back(fmt::format(
      "run_{}({}, RecurrentProducts{{column_block({}, {}), [&]([[maybe_unused]] int part, const {}* "
      "rows, {}* work, int64_t begin, int64_t end) {{ {} }}}}{});",
      to_string(k.cell), args, first, parts, element, sum, products, functors));
  if (k.lengths) step_.push_back("if (!indices_ok(kIndexSites)) return false;");
}

}  // namespace braid::codegen::cpp
