#include "ir/interpreter_loops.h"

#include <algorithm>

#include "ir/element.h"
#include "ir/error.h"
#include "ir/scalar.h"
#include "ir/typing.h"

namespace braid::ir {
namespace {

// An expression with actual dimensions: its part linear in the indices is a dot product, the rest a small tree.
class Index {
 public:
  Index() = default;
  Index(Expr e, const RankMemory& memory) {
    for (const Term& t : terms(e)) {
      Product p{t.coefficient, {}};
      for (const Expr& a : t.atoms) {
        if (a.is_symbol(SymbolKind::dim)) {
          p.coefficient *= memory.dim(a);
        } else if (a.is_symbol(SymbolKind::index) || a.is_symbol(SymbolKind::value)) {
          p.atoms.push_back({a.kind(), a.is_symbol(SymbolKind::value), a.symbol_number(), {}, {}});
        } else {
          p.atoms.push_back({a.kind(), false, 0, {Index(a.lhs(), memory)}, {Index(a.rhs(), memory)}});
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
    for (const Product& p : general_) {
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
    std::vector<Index> lhs, rhs;  // one each, of functions

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
  struct Product {
    std::int64_t coefficient;
    std::vector<Atom> atoms;
  };

  std::int64_t constant_ = 0;
  std::vector<std::pair<int, std::int64_t>> linear_;
  std::vector<Product> general_;
};

std::byte* element(const ByteView& v, std::int64_t index, const Operation& op, bool write = false) {
  const std::int64_t item = size_of(v.dtype), offset = v.offset + index * item;
  if (offset < 0 || offset + item > v.storage_bytes) {
    throw InternalError(
        fmt::format("'{}' touches byte {} of a storage of {}", op.name, offset, v.storage_bytes));
  }
  v.touch(offset, write, op.name);
  return v.storage + offset;
}

class Body {
 public:
  Body(const LoopBody& body, RankMemory& memory, const Operation& op)
      : body_(body), op_(op), values_(body.instrs.size()) {
    for (const Instr& i : body.instrs) {
      Step s{i.code, i.dtype, i.dtype, {}, 0, Index(i.index, memory), {}, {}};
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
    Index index;
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
          user_error(711, {{}, op_.name, {}}, fmt::format("index {} is out of range [0, {})", v.i, size));
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

}  // namespace

void run_loops(RankMemory& memory, const Operation& op, const Loops& loops) {
  std::vector<std::int64_t> sizes;
  for (const Expr& s : loops.sizes) sizes.push_back(memory.size(s));
  std::vector<std::int64_t> indices(sizes.size() + 1, 0);
  Body body(loops.body, memory, op);
  const ByteView out = memory.view(op.outputs[0]);
  const Index store(loops.store_index, memory);
  const std::span<const std::int64_t> all = sizes;
  const auto kept = all.first(loops.kept()), reduced = all.subspan(loops.kept());
  for_each_point(kept, indices.data(), [&] {
    Scalar result;
    if (reduced.empty()) {
      result = body.at(indices.data());
    } else {
      result = neutral(loops.reduce, out.dtype);
      for_each_point(reduced, indices.data() + kept.size(),
                     [&] { result = fold(loops.reduce, out.dtype, result, body.at(indices.data())); });
      result = rounded(out.dtype, result);
    }
    write_element(out.dtype, element(out, store.at(indices.data(), body.values()), op, true),
                  to_literal(out.dtype, result));
  });
}

void run_gemm(RankMemory& memory, const Operation& op, const Gemm& gemm) {
  const ByteView a = memory.view(gemm.a), b = memory.view(gemm.b), out = memory.view(gemm.out);
  const DType type = accumulator_of(a.dtype);
  std::optional<Body> epilogue;
  if (gemm.epilogue) epilogue.emplace(*gemm.epilogue, memory, op);
  const std::size_t rank = out.sizes.size(), m = rank - 2, n = rank - 1;
  const std::int64_t depth = a.sizes[n];
  // The sizes of a and b match those of out: a guard or the verifier ensures this.
  internal_check(b.sizes[m] == depth && a.sizes[m] == out.sizes[m] && b.sizes[n] == out.sizes[n],
                 "'{}': the sizes of the operands do not agree", op.name);
  std::vector<std::int64_t> indices(rank, 0);
  const auto at = [&](const ByteView& v, std::int64_t offset, bool write = false) {
    if (offset < 0 || offset + size_of(v.dtype) > v.storage_bytes) {
      throw InternalError(
          fmt::format("'{}' touches byte {} of a storage of {}", op.name, offset, v.storage_bytes));
    }
    v.touch(offset, write, op.name);
    return v.storage + offset;
  };
  for_each_point(out.sizes, indices.data(), [&] {
    std::int64_t pa = a.offset, pb = b.offset, po = out.offset;
    for (std::size_t k = 0; k < rank; ++k) {
      if (k != n) pa += indices[k] * a.strides[k];
      if (k != m) pb += indices[k] * b.strides[k];
      po += indices[k] * out.strides[k];
    }
    Scalar sum;
    for (std::int64_t k = 0; k < depth; ++k, pa += a.strides[n], pb += b.strides[m]) {
      const Scalar x = to_scalar(read_element(a.dtype, at(a, pa))),
                   y = to_scalar(read_element(b.dtype, at(b, pb)));
      sum.d += x.d * y.d;
      sum.i = wrap(DType::i32, static_cast<std::int64_t>(static_cast<std::uint64_t>(sum.i) +
                                                         static_cast<std::uint64_t>(x.i) *
                                                             static_cast<std::uint64_t>(y.i)));
    }
    sum = rounded(type, sum);
    const Scalar result = epilogue ? epilogue->at(indices.data(), sum) : cast(type, out.dtype, sum);
    write_element(out.dtype, at(out, po, true), to_literal(out.dtype, result));
  });
}

}  // namespace braid::ir
