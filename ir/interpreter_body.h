// Loop bodies of the interpreter, evaluated at one point.
#pragma once

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "ir/element.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "ir/interpreter_memory.h"
#include "ir/scalar.h"

namespace braid::ir {

// An expression with actual dimensions: its part linear in the indices is a dot product, the rest a small
// tree.
class IndexEvaluation {
 public:
  IndexEvaluation() = default;
  IndexEvaluation(Expr e, const RankMemory& memory) {
    for (const Term& t : terms(e)) {
      Monomial p{t.coefficient, {}};
      for (const Expr& a : t.atoms) {
        if (a.is_symbol(SymbolKind::dim)) {
          p.coefficient *= memory.dim(a);
        } else if (a.is_symbol(SymbolKind::index) || a.is_symbol(SymbolKind::value)) {
          p.atoms.push_back({a.kind(), a.is_symbol(SymbolKind::value), a.symbol_number(), {}, {}});
        } else {
          p.atoms.push_back(
              {a.kind(), false, 0, {IndexEvaluation(a.lhs(), memory)}, {IndexEvaluation(a.rhs(), memory)}});
        }
      }
      if (p.atoms.empty()) {
        constant_ += p.coefficient;
      } else if (p.atoms.size() == 1 && p.atoms[0].kind == ExprKind::symbol && !p.atoms[0].value) {
        linear_.emplace_back(p.atoms[0].number, p.coefficient);
      } else {
        general_.push_back(std::move(p));
      }
    }
  }

  std::int64_t at(const std::int64_t* indices, const Scalar* values) const {
    std::int64_t sum = constant_;
    for (const auto& [k, stride] : linear_) sum += indices[k] * stride;
    for (const Monomial& p : general_) {
      std::int64_t product = p.coefficient;
      for (const Atom& a : p.atoms) product *= a.at(indices, values);
      sum += product;
    }
    return sum;
  }

 private:
  struct Atom {
    ExprKind kind;
    bool value;
    int number;
    std::vector<IndexEvaluation> lhs, rhs;  // one each, of functions

    std::int64_t at(const std::int64_t* indices, const Scalar* values) const {
      if (kind == ExprKind::symbol) return value ? values[number].i : indices[number];
      const std::int64_t a = lhs[0].at(indices, values), b = rhs[0].at(indices, values);
      if (kind == ExprKind::min) return std::min(a, b);
      if (kind == ExprKind::max) return std::max(a, b);
      internal_check(b > 0, "division by {} in an index", b);
      const std::int64_t q = a / b - (a % b != 0 && a < 0);
      return kind == ExprKind::floor_div ? q : a - q * b;
    }
  };
  struct Monomial {
    std::int64_t coefficient;
    std::vector<Atom> atoms;
  };

  std::int64_t constant_ = 0;
  std::vector<std::pair<int, std::int64_t>> linear_;
  std::vector<Monomial> general_;
};

// The element at this distance from the view's storage, in bytes; checked against the storage.
inline std::byte* byte_at(const ByteView& v, std::int64_t offset, const Operation& op, bool write = false) {
  if (offset < 0 || offset + size_of(v.dtype) > v.storage_bytes) {
    throw InternalError(
        fmt::format("'{}' touches byte {} of a storage of {}", op.name, offset, v.storage_bytes));
  }
  v.touch(offset, write, op.name);
  return v.storage + offset;
}

inline std::byte* element(const ByteView& v, std::int64_t index, const Operation& op, bool write = false) {
  return byte_at(v, v.offset + index * size_of(v.dtype), op, write);
}

class BodyEvaluation {
 public:
  BodyEvaluation(const LoopBody& body, RankMemory& memory, const Operation& op)
      : body_(body), op_(op), values_(body.instrs.size()) {
    for (const Instr& i : body.instrs) {
      Step s{i.code, i.dtype, i.dtype, {}, 0, IndexEvaluation(i.index, memory), {}, {}};
      for (ValueId v : i.operands) s.operands[s.count++] = static_cast<std::size_t>(v.index);
      if (s.count > 0) s.operand_type = body.operand_dtype(i);
      if (i.code == OpCode::load) s.view = memory.view(i.buffer);
      if (i.code == OpCode::constant) s.literal = rounded(i.dtype, to_scalar(i.literal));
      steps_.push_back(std::move(s));
    }
  }

  Scalar at(const std::int64_t* indices, Scalar acc = {}) {
    for (std::size_t k = 0; k < steps_.size(); ++k) values_[k] = value(steps_[k], indices, acc);
    return values_[static_cast<std::size_t>(body_.result.index)];
  }
  const Scalar* values() const { return values_.data(); }

 private:
  struct Step {
    OpCode code;
    DType type, operand_type;
    std::size_t operands[3];
    std::size_t count;
    IndexEvaluation index;
    ByteView view;
    Scalar literal;
  };

  Scalar value(const Step& s, const std::int64_t* indices, Scalar acc) const {
    switch (s.code) {
      case OpCode::load:
        if (s.count == 1 && !values_[s.operands[0]].i) return {};
        return to_scalar(read_element(s.type, element(s.view, s.index.at(indices, values_.data()), op_)));
      case OpCode::constant:
        return s.literal;
      case OpCode::index:
        return {0, wrap(s.type, s.index.at(indices, values_.data()))};
      case OpCode::acc:
        return acc;
      case OpCode::cast:
        return cast(s.operand_type, s.type, values_[s.operands[0]]);
      case OpCode::bitcast:
        return bitcast(s.operand_type, s.type, values_[s.operands[0]]);
      case OpCode::check_index: {
        const Scalar v = values_[s.operands[0]];
        const std::int64_t size = s.index.at(indices, values_.data());
        if (v.i < 0 || v.i >= size) {
          user_error(errors::kStepUndefined, {{}, op_.name, {}},
                     fmt::format("index {} is out of range [0, {})", v.i, size));
        }
        return v;
      }
      default:
        return apply(s.code, s.operand_type, values_[s.operands[0]],
                     s.count > 1 ? values_[s.operands[1]] : Scalar{},
                     s.count > 2 ? values_[s.operands[2]] : Scalar{});
    }
  }

  const LoopBody& body_;
  const Operation& op_;
  std::vector<Step> steps_;
  std::vector<Scalar> values_;
};

// sum += x * y, in both readings of a scalar; integers wrap in `type`.
inline void accumulate(DType type, Scalar& sum, Scalar x, Scalar y) {
  sum.d += x.d * y.d;
  sum.i = wrap(type,
               static_cast<std::int64_t>(static_cast<std::uint64_t>(sum.i) +
                                         static_cast<std::uint64_t>(x.i) * static_cast<std::uint64_t>(y.i)));
}

// Calls fn for every point of [first, sizes), the last index running fastest.
template <class Fn>
void for_each_point(std::span<const std::int64_t> sizes, std::int64_t* indices, Fn&& fn) {
  if (std::any_of(sizes.begin(), sizes.end(), [](std::int64_t s) { return s <= 0; })) return;
  std::fill(indices, indices + sizes.size(), 0);
  for (;;) {
    fn();
    std::size_t k = sizes.size();
    for (; k > 0; --k) {
      if (++indices[k - 1] < sizes[k - 1]) break;
      indices[k - 1] = 0;
    }
    if (k == 0) return;
  }
}

}  // namespace braid::ir
