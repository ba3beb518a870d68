#include "codegen/cuda/forms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "codegen/cuda/kernel.h"
#include "codegen/cuda/scalar.h"
#include "ir/element.h"
#include "ir/error.h"

namespace braid::codegen::cuda {
namespace {

using ir::DType;
using ir::Instr;
using ir::LoopBody;
using ir::OpCode;
using Form = LoopPlan::Form;
using Level = LoopPlan::Level;
using Member = LoopPlan::Member;

bool is_half(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }
bool computes_in_f32(DType dtype) { return dtype == DType::f32 || is_half(dtype); }

// Literals of half types are rounded to the type.
double literal_value(const Instr& instr) {
  return ir::round_to(instr.dtype, std::holds_alternative<double>(instr.literal)
                                       ? std::get<double>(instr.literal)
                                       : static_cast<double>(std::get<std::int64_t>(instr.literal)));
}

Form form_of_quotient(const LoopPlan& plan, const Member& m, std::size_t k) {
  const Instr& instr = m.loops.body.instrs[k];
  const ir::ValueId divisor = instr.operands[1];
  const Instr& by = m.loops.body[divisor];
  if (by.code == OpCode::constant)
    return literal_reciprocal(literal_value(by)) != 0 ? Form::literal_product : Form::ieee;
  const Level of_divisor = m.values[static_cast<std::size_t>(divisor.index)].level;
  // Without packs, only what is the same for a whole row is computed less often than the quotient.
  const bool of_row = of_divisor == Level::point && plan.by_rows();
  if (of_divisor >= m.values[k].level || (plan.pack == 1 && !of_row)) return Form::ieee;
  const bool is_f16 =
      by.dtype == DType::f16 || (by.code == OpCode::cast && m.loops.body.operand_dtype(by) == DType::f16);
  return is_f16 ? Form::product : Form::scaled_product;
}

// Whether the relative error of the result is at most about those of the operands, added.
bool keeps_relative_error(OpCode code) {
  switch (code) {
    case OpCode::mul:
    case OpCode::div:
    case OpCode::neg:
    case OpCode::abs:
    case OpCode::min:
    case OpCode::max:
    case OpCode::sqrt:
    case OpCode::rsqrt:
    case OpCode::reciprocal:
    case OpCode::where:
      return true;
    default:
      return false;
  }
}

// Finds the values of a body that reach its result only through a rounding to a half type. No operation
// before the rounding makes a small relative error large.
class HalfUses {
 public:
  HalfUses(const LoopBody& body, bool result_is_rounded) : body_(body), rounded_(body.instrs.size(), true) {
    for (const Instr& instr : body.instrs) {
      ir::for_each_symbol(instr.index, [&](ir::Expr s) {
        if (s.is_symbol(ir::SymbolKind::value)) rounded_[static_cast<std::size_t>(s.symbol_number())] = false;
      });
    }
    if (!result_is_rounded) rounded_[static_cast<std::size_t>(body.result.index)] = false;
    for (std::size_t k = body.instrs.size(); k-- > 0;) {
      const Instr& user = body.instrs[k];
      const bool rounds = user.code == OpCode::cast && is_half(user.dtype);
      const bool passes = keeps_relative_error(user.code) && user.dtype == DType::f32 && rounded_[k];
      if (rounds || passes) continue;
      for (ir::ValueId v : user.operands) rounded_[static_cast<std::size_t>(v.index)] = false;
    }
  }

  bool rounded(std::size_t k) const { return is_half(body_.instrs[k].dtype) || rounded_[k]; }

  // Whether the value is only added to literals of at least 1/2, and all such sums are rounded. Then a small
  // absolute error is enough.
  bool only_in_rounded_sums(std::size_t value) const {
    if (body_.result.index == static_cast<int>(value)) return false;
    for (std::size_t k = value + 1; k < body_.instrs.size(); ++k) {
      const Instr& user = body_.instrs[k];
      bool in_index = false;
      ir::for_each_symbol(user.index, [&](ir::Expr s) {
        in_index |= s.is_symbol(ir::SymbolKind::value) && s.symbol_number() == static_cast<int>(value);
      });
      const auto uses =
          std::count(user.operands.begin(), user.operands.end(), ir::ValueId{static_cast<int>(value)});
      if (in_index || (uses > 0 && !is_rounded_sum(user, k, value))) return false;
    }
    return true;
  }

 private:
  bool is_rounded_sum(const Instr& user, std::size_t k, std::size_t value) const {
    if ((user.code != OpCode::add && user.code != OpCode::sub) || user.dtype != DType::f32 || !rounded_[k])
      return false;
    const std::size_t other = user.operands[0].index == static_cast<int>(value) ? 1 : 0;
    const Instr& literal = body_[user.operands[other]];
    return literal.code == OpCode::constant && std::fabs(literal_value(literal)) >= 0.5;
  }

  const LoopBody& body_;
  std::vector<bool> rounded_;
};

// The integer part of a quotient such as 7.5 / 3 changes with its last bit.
bool takes_integer_part(const Instr& instr) {
  switch (instr.code) {
    case OpCode::floor:
    case OpCode::ceil:
    case OpCode::round:
    case OpCode::mod:
    case OpCode::fmod:
      return true;
    case OpCode::cast:
      return !ir::is_float(instr.dtype);
    default:
      return false;
  }
}

// By member, the values whose integer part is taken, also by later members.
std::vector<std::vector<bool>> values_of_integers(const LoopPlan& plan) {
  std::vector<std::vector<bool>> out;
  for (const Member& m : plan.members) out.emplace_back(m.values.size());
  for (std::size_t m = plan.members.size(); m-- > 0;) {
    const Member& member = plan.members[m];
    const LoopBody& body = member.loops.body;
    for (std::size_t k = body.instrs.size(); k-- > 0;) {
      const Instr& user = body.instrs[k];
      if (out[m][k] || takes_integer_part(user))
        for (ir::ValueId v : user.operands) out[m][static_cast<std::size_t>(v.index)] = true;
      const int writer = member.values[k].writer;
      if (out[m][k] && writer >= 0) {
        const auto w = static_cast<std::size_t>(writer);
        out[w][static_cast<std::size_t>(plan.members[w].loops.body.result.index)] = true;
      }
    }
  }
  return out;
}

Form form_of(const LoopPlan& plan, const Member& m, const HalfUses& uses, std::size_t k) {
  const Instr& instr = m.loops.body.instrs[k];
  if (!computes_in_f32(instr.dtype)) return Form::ieee;
  switch (instr.code) {
    case OpCode::div:
      return form_of_quotient(plan, m, k);
    case OpCode::exp:
      return uses.rounded(k) ? Form::for_half : Form::ieee;
    case OpCode::erf:
      return instr.dtype == DType::f32 && uses.only_in_rounded_sums(k) ? Form::for_half : Form::ieee;
    case OpCode::sqrt:
    case OpCode::rsqrt:
    case OpCode::reciprocal:
    case OpCode::sigmoid:
      return Form::refined;
    default:
      return Form::ieee;
  }
}

std::string_view name(Form form) {
  switch (form) {
    case Form::ieee:
      return "ieee";
    case Form::literal_product:
      return "literal_product";
    case Form::product:
      return "product";
    case Form::scaled_product:
      return "scaled_product";
    case Form::refined:
      return "refined";
    case Form::for_half:
      return "for_half";
  }
  return {};
}

}  // namespace

float literal_reciprocal(double divisor) {
  const double magnitude = std::fabs(divisor);
  return magnitude >= 0x1p-126 && magnitude <= 0x1p126 ? static_cast<float>(1 / divisor) : 0.0f;
}

void choose_forms(const ir::Graph& graph, LoopPlan& plan) {
  const std::vector<std::vector<bool>> of_integers = values_of_integers(plan);
  for (std::size_t n = 0; n < plan.members.size(); ++n) {
    Member& m = plan.members[n];
    // A fold adds what is not rounded.
    const HalfUses uses(m.loops.body, is_half(graph[m.out].dtype) && !m.loops.is_reduction());
    for (std::size_t k = 0; k < m.values.size(); ++k)
      m.values[k].form = of_integers[n][k] ? Form::ieee : form_of(plan, m, uses, k);
  }
}

std::string form_text(const ir::LoopBody& body, std::size_t k, Form form) {
  const Instr& instr = body.instrs[k];
  const std::string x = KernelBuilder::value(body, instr.operands[0]);
  switch (form) {
    case Form::product:
      return fmt::format("math::cheap::product({}, r{})", x, instr.operands[1].index);
    case Form::scaled_product:
      return fmt::format("math::cheap::quotient({}, r{})", x, instr.operands[1].index);
    case Form::literal_product: {
      const double factor = literal_reciprocal(literal_value(body[instr.operands[1]]));
      return fmt::format("math::cheap::product({}, {})", x, literal(DType::f32, factor));
    }
    case Form::refined:
      return fmt::format("math::cheap::{}({})", ir::to_string(instr.code), x);
    case Form::for_half:
      return fmt::format("math::cheap::{}_for_half({})", ir::to_string(instr.code), x);
    case Form::ieee:
      break;
  }
  throw ir::InternalError("a value computed as IEEE says has no other text");
}

std::string reciprocal_text(const Member& member, std::size_t divisor) {
  for (std::size_t k = divisor + 1; k < member.values.size(); ++k) {
    const Form form = member.values[k].form;
    if (form != Form::product && form != Form::scaled_product) continue;
    if (member.loops.body.instrs[k].operands[1].index != static_cast<int>(divisor)) continue;
    return fmt::format(
        fmt::runtime(form == Form::product
                         ? "const float r{0} = math::cheap::reciprocal_in_range(to_float(v{0}));"
                         : "const math::cheap::Reciprocal r{0}(v{0});"),
        divisor);
  }
  return {};
}

std::string forms_text(const ir::Graph& graph, const LoopPlan& plan) {
  std::string out;
  for (const Member& m : plan.members) {
    for (std::size_t k = 0; k < m.values.size(); ++k) {
      if (m.values[k].form == Form::ieee) continue;
      out += fmt::format("{} %{} {} {}\n", graph[m.out].name, k, ir::to_string(m.loops.body.instrs[k].code),
                         name(m.values[k].form));
    }
  }
  return out;
}

}  // namespace braid::codegen::cuda
