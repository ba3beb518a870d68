// Values of loop bodies as variables, each in the outermost loop where it can be computed.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "codegen/cpp/kernel_emitter.h"
#include "ir/error.h"

namespace braid::codegen::cpp {

using namespace ir;

std::string KernelEmitter::as_int(const Value& v) {
  return v.dtype == DType::i64 ? v.text : fmt::format("static_cast<int64_t>({})", v.text);
}

KernelEmitter::Value KernelEmitter::index_value(int k) {
  const Value v = values_.at(static_cast<std::size_t>(k));
  return v.from_truth ? define(v.dtype, fmt::format("opaque_index({})", v.text), v.level) : v;
}

bool KernelEmitter::from_truth(const LoopBody& body, const Instr& instr) const {
  if (instr.dtype == DType::boolean || instr.code == OpCode::load) return false;
  const auto truth = [&](ValueId v) {
    return body[v].dtype == DType::boolean || values_[static_cast<std::size_t>(v.index)].from_truth;
  };
  const std::span<const ValueId> operands(instr.operands);
  if (instr.code != OpCode::where) return std::any_of(operands.begin(), operands.end(), truth);
  return std::all_of(operands.begin() + 1, operands.end(),
                     [&](ValueId v) { return truth(v) || body[v].code == OpCode::constant; });
}

int KernelEmitter::level_of(Expr e) {
  int level = 0;
  for_each_symbol(e, [&](Expr s) {
    if (s.is_symbol(SymbolKind::value))
      level = std::max(level, values_.at(static_cast<std::size_t>(s.symbol_number())).level);
    if (!s.is_symbol(SymbolKind::index)) return;
    level = std::max(level, level_of_index(s.symbol_number()));
  });
  return level;
}

int KernelEmitter::level_of_index(int number) {
  if (number < nest_.outer) return 1;
  const auto at = std::find(order_.begin(), order_.end(), number);
  internal_check(at != order_.end(), "codegen: index i{} is used outside of its loop", number);
  return 2 + static_cast<int>(at - order_.begin());
}

std::vector<std::string>& KernelEmitter::lines(int level) {
  if (level == 0) return invariant_;
  if (level == 1) return outer_lines_;
  return inner_lines_[static_cast<std::size_t>(level - 2)];
}

KernelEmitter::Value KernelEmitter::define(DType dtype, const std::string& rhs, int level, bool reuse) {
  auto& known = level >= 2 ? group_known_ : known_;
  const std::string key = fmt::format("{}|{}|{}", level, to_string(dtype), rhs);
  if (reuse) {
    if (const auto found = known.find(key); found != known.end()) return found->second;
  }
  Value v{fmt::format("t{}", counter_++), level, dtype};
  lines(level).push_back(fmt::format("const {} {} = {};", value_type(dtype), v.text, rhs));
  if (reuse) known.emplace(key, v);
  return v;
}

KernelEmitter::Value KernelEmitter::load(const Instr& instr, const Value* mask) {
  for (const Register& r : registers_) {
    if (unmutated(graph_, r.buffer) == unmutated(graph_, instr.buffer) && r.index == instr.index) {
      member_work_ += r.work;
      member_smallest_ = std::min(member_smallest_, r.smallest);
      if (!mask) return r.value;
      Value v = define(instr.dtype, fmt::format("{} ? {} : {}", mask->text, r.value.text, zero(instr.dtype)),
                       std::max(mask->level, r.value.level));
      v.from_truth = true;
      return v;
    }
  }
  int level = std::max(level_of(instr.index), mask ? mask->level : 0);
  std::string rhs;
  bool made_here = false;
  std::int64_t bytes = size_of(instr.dtype);  // in memory
  if (const LocalBuffer* l = local(instr.buffer)) {
    const Scratch& s = scratches_.at(l->buffer);
    const Expr index = instr.index - l->origin;
    rhs = fmt::format("{}[{}]", s.name, text(index));
    made_here = true;
    if (s.type == "float") bytes = size_of(DType::f32);
  } else {
    const Param& p = param(instr.buffer);
    made_here = p.written;
    const bool plain = value_type(p.dtype) == storage_type(p.dtype) && p.dtype != DType::boolean;
    const Staged* block = mask ? nullptr : staged(instr);
    const std::string element =
        block ? block->element : fmt::format("{}[{}]", p.name, index_text(instr.index));
    rhs = plain ? element : fmt::format("load({})", element);
  }
  if (made_here) level = std::max(level, 1);
  // A possibly empty buffer may be read only inside a loop that runs.
  if (level == 0 && bounds(numel(graph_[instr.buffer].sizes)).min <= 0)
    level = static_cast<int>(order_.size()) + 1;
  if (level >= vector_level_) note_size(bytes);
  if (mask) {
    const std::string truth =
        lies_beside_another(instr) ? fmt::format("opaque_truth({})", mask->text) : mask->text;
    rhs = fmt::format("{} ? {} : {}", truth, rhs, zero(instr.dtype));
  }
  return define(instr.dtype, rhs, level, !made_here);
}

bool KernelEmitter::lies_beside_another(const Instr& load) const {
  if (vector_var_ < 0) return false;
  const std::optional<Expr> stride = stride_of(load.index, index_of(vector_var_));
  if (!stride || !stride->is_constant()) return false;
  const std::int64_t step = std::abs(stride->constant());
  if (step < 2) return false;
  // A loop inside the vectors is unrolled.
  if (order_.back() != vector_var_ && contains(load.index, index_of(order_.back()))) return true;
  const auto beside = [&](const Instr& other) {
    if (other.code != OpCode::load || other.operands.empty()) return false;
    const Expr distance = other.index - load.index;
    return unmutated(graph_, other.buffer) == unmutated(graph_, load.buffer) && distance.is_constant() &&
           !distance.is_constant(0) && std::abs(distance.constant()) < step;
  };
  return std::ranges::any_of(group_->members,
                             [&](const NestMember& m) { return std::ranges::any_of(m.body.instrs, beside); });
}

std::string KernelEmitter::zero(DType dtype) {
  return dtype == DType::boolean ? "false" : value_type(dtype) + "{0}";
}

KernelEmitter::Value KernelEmitter::checked_index(const NestMember& m, const Instr& instr,
                                                  const std::string& operand, int level) {
  const auto site = std::find(sites_.begin(), sites_.end(), m.op) - sites_.begin();
  const Value wide{operand, 0, m.body[instr.operands[0]].dtype};
  const std::string rhs =
      fmt::format("check_index({}, {}, error, site{})", as_int(wide), text(instr.index), site);
  return define(
      instr.dtype,
      instr.dtype == DType::i64 ? rhs : fmt::format("static_cast<{}>({})", value_type(instr.dtype), rhs),
      std::max(level, level_of(instr.index)));
}

std::optional<double> KernelEmitter::constant_exponent(const LoopBody& body, const Instr& instr) {
  if (instr.code != OpCode::pow) return std::nullopt;
  const Instr& e = body.instrs[static_cast<std::size_t>(instr.operands[1].index)];
  if (e.code != OpCode::constant) return std::nullopt;
  return std::visit([](auto number) { return static_cast<double>(number); }, e.literal);
}

KernelEmitter::Value KernelEmitter::computed(const Instr& instr, const Arithmetic& a, bool result,
                                             int level) {
  if (!result || a.rounding.empty()) return define(instr.dtype, a.rounded(), level);
  Value v = define(instr.dtype, a.text, level);
  v.unrounded = v.text;
  v.text = fmt::format("{}({})", a.rounding, v.unrounded);
  return v;
}

KernelEmitter::Value KernelEmitter::emit_body(const NestMember& m) {
  values_.assign(m.body.instrs.size(), {});
  member_work_ = 0;
  member_smallest_ = 8;
  for (std::size_t k = 0; k < m.body.instrs.size(); ++k) {
    const Instr& instr = m.body.instrs[k];
    std::vector<std::string> operands;
    int level = 0;
    for (ValueId v : instr.operands) {
      const Value& value = values_[static_cast<std::size_t>(v.index)];
      operands.push_back(value.text);
      level = std::max(level, value.level);
    }
    Value& out = values_[k];
    switch (instr.code) {
      case OpCode::constant: {
        out = {literal(instr.dtype, instr.literal), 0, instr.dtype};
        if (out.text.front() == '-') out.text = "(" + out.text + ")";
        break;
      }
      case OpCode::load:
        out =
            load(instr, instr.operands.empty() ? nullptr
                                               : &values_[static_cast<std::size_t>(instr.operands[0].index)]);
        break;
      case OpCode::index:
        out = define(instr.dtype,
                     fmt::format(fmt::runtime(instr.dtype == DType::i64 ? "{1}" : "static_cast<{0}>({1})"),
                                 value_type(instr.dtype), text(instr.index)),
                     level_of(instr.index));
        break;
      case OpCode::check_index:
        out = checked_index(m, instr, operands[0], level);
        break;
      case OpCode::acc:
        throw InternalError(
            fmt::format("codegen: '{}' has an accumulator outside of an epilogue", graph_[m.op].name));
      default:
        out = computed(instr,
                       unrounded_arithmetic(instr, m.body.operand_dtype(instr), operands,
                                            constant_exponent(m.body, instr)),
                       static_cast<std::size_t>(m.body.result.index) == k, level);
    }
    out.from_truth = out.from_truth || from_truth(m.body, instr);
    const bool turns = instr.code == OpCode::sin || instr.code == OpCode::cos;
    if (turns && instr.dtype == DType::f32 && out.level == 2) {
      // A sine or cosine is never a wide angle.
      const bool turned = std::ranges::count(turned_, fmt::format("const float {} = v", operands[0])) != 0;
      if (!turned && std::ranges::count(angles_, operands[0]) == 0) angles_.push_back(operands[0]);
      turned_.push_back(fmt::format("const float {} = v", out.text));
      angle_work_ = work_ - turn_work_;
      turn_work_ += work_of(instr);
    }
    const int work = level_of_work(out) * work_of(instr);
    work_ += work;
    member_work_ += work;
    if (out.level >= vector_level_) note_value(instr);
  }
  return values_[static_cast<std::size_t>(m.body.result.index)];
}

int KernelEmitter::level_of_work(const Value& v) const { return v.level >= 2 || order_.empty() ? 1 : 0; }

void KernelEmitter::note_value(const Instr& instr) {
  if (instr.code == OpCode::load || instr.dtype == DType::boolean) return;  // noted; one bit of a mask
  note_size(value_type(instr.dtype) == "float" ? 4 : size_of(instr.dtype));
}

void KernelEmitter::note_size(std::int64_t bytes) {
  smallest_ = std::min(smallest_, bytes);
  member_smallest_ = std::min(member_smallest_, bytes);
}

}  // namespace braid::codegen::cpp
