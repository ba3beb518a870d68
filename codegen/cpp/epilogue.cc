#include "codegen/cpp/epilogue.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace braid::codegen::cpp {

using namespace ir;

namespace {

constexpr std::size_t kMaxPostOps = 4;  // of runtime/gemm.h

// The part of a body between two values, as a function of the first. Nothing where it needs more than
// constants.
std::optional<double> evaluate(const LoopBody& body, std::size_t from, std::size_t to, double x) {
  std::vector<double> v(to + 1, std::numeric_limits<double>::quiet_NaN());
  std::vector<bool> known(to + 1, false);
  for (std::size_t k = 0; k <= to; ++k) {
    const Instr& instr = body.instrs[k];
    if (k == from) {
      v[k] = x;
      known[k] = true;
      continue;
    }
    const auto a = [&](std::size_t i) { return v[static_cast<std::size_t>(instr.operands[i].index)]; };
    if (!std::all_of(instr.operands.begin(), instr.operands.end(),
                     [&](ValueId o) { return known[static_cast<std::size_t>(o.index)]; }))
      continue;
    known[k] = true;
    switch (instr.code) {
      case OpCode::constant:
        if (std::holds_alternative<double>(instr.literal))
          v[k] = std::get<double>(instr.literal);
        else
          v[k] = static_cast<double>(std::get<std::int64_t>(instr.literal));
        break;
      case OpCode::cast:
        v[k] = a(0);
        known[k] = is_float(instr.dtype);
        break;
      case OpCode::neg:
        v[k] = -a(0);
        break;
      case OpCode::abs:
        v[k] = std::fabs(a(0));
        break;
      case OpCode::exp:
        v[k] = std::exp(a(0));
        break;
      case OpCode::sqrt:
        v[k] = std::sqrt(a(0));
        break;
      case OpCode::reciprocal:
        v[k] = 1 / a(0);
        break;
      case OpCode::erf:
        v[k] = std::erf(a(0));
        break;
      case OpCode::tanh:
        v[k] = std::tanh(a(0));
        break;
      case OpCode::sigmoid:
        v[k] = 1 / (1 + std::exp(-a(0)));
        break;
      case OpCode::add:
        v[k] = a(0) + a(1);
        break;
      case OpCode::sub:
        v[k] = a(0) - a(1);
        break;
      case OpCode::mul:
        v[k] = a(0) * a(1);
        break;
      case OpCode::div:
        v[k] = a(0) / a(1);
        break;
      case OpCode::pow:
        v[k] = std::pow(a(0), a(1));
        break;
      case OpCode::min:
        v[k] = std::min(a(0), a(1));
        break;
      case OpCode::max:
        v[k] = std::max(a(0), a(1));
        break;
      case OpCode::lt:
        v[k] = a(0) < a(1);
        break;
      case OpCode::le:
        v[k] = a(0) <= a(1);
        break;
      case OpCode::gt:
        v[k] = a(0) > a(1);
        break;
      case OpCode::ge:
        v[k] = a(0) >= a(1);
        break;
      case OpCode::where:
        v[k] = a(0) != 0 ? a(1) : a(2);
        break;
      default:
        known[k] = false;
    }
  }
  return known[to] ? std::optional(v[to]) : std::nullopt;
}

struct Activation {
  const char* name;
  double (*f)(double);
};
constexpr Activation kActivations[] = {
    {"relu", [](double x) { return x > 0 ? x : 0.0; }},
    {"gelu_tanh",
     [](double x) { return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); }},
    {"gelu_erf", [](double x) { return 0.5 * x * (1 + std::erf(x * 0.7071067811865476)); }},
    {"tanh", [](double x) { return std::tanh(x); }},
    {"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }},
};

// Two versions of GELU differ by up to 5e-4, rounded constants by 1e-7 of the value.
constexpr double kSame = 2e-7;

const char* activation(const LoopBody& body, std::size_t from, std::size_t to) {
  for (const Activation& candidate : kActivations) {
    bool same = true;
    for (double x = -7.9; x < 8 && same; x += 0.173) {
      const auto y = evaluate(body, from, to, x);
      const double want = candidate.f(x);
      same = y && std::fabs(*y - want) <= kSame * std::max(1.0, std::fabs(want));
    }
    if (same) return candidate.name;
  }
  return nullptr;
}

// Values through which everything from acc to the result passes, in order; both ends included.
std::vector<std::size_t> cut_points(const LoopBody& body, std::size_t acc) {
  const auto result = static_cast<std::size_t>(body.result.index);
  std::vector<bool> depends(result + 1, false);
  std::vector<std::size_t> last_use(result + 1, 0);
  depends[acc] = true;
  for (std::size_t k = acc + 1; k <= result; ++k) {
    for (ValueId o : body.instrs[k].operands) {
      const auto i = static_cast<std::size_t>(o.index);
      if (!depends[i]) continue;
      depends[k] = true;
      last_use[i] = k;
    }
  }
  std::vector<std::size_t> cuts;
  if (!depends[result]) return cuts;
  std::size_t reach = acc;  // the furthest use of a value seen so far
  for (std::size_t k = acc; k <= result; ++k) {
    if (!depends[k]) continue;
    if (reach <= k) cuts.push_back(k);
    reach = std::max(reach, last_use[k]);
  }
  return cuts;
}

}  // namespace

std::optional<EpilogueMatch> match_epilogue(const Graph& graph, const Gemm& gemm) {
  const LoopBody& body = *gemm.epilogue;
  std::optional<std::size_t> acc;
  for (std::size_t k = 0; k < body.instrs.size(); ++k) {
    const Instr& instr = body.instrs[k];
    if (instr.code != OpCode::acc) continue;
    if (acc) return std::nullopt;
    acc = k;
  }
  if (!acc) return std::nullopt;
  if (graph[gemm.out.buffer].dtype != DType::f32 || graph[gemm.a.buffer].dtype != DType::f32)
    return std::nullopt;

  ExprPool& pool = *graph.pool;
  const std::size_t rank = gemm.out.sizes.size();
  Expr out_index = 0;
  for (std::size_t d = 0; d < rank; ++d) {
    if (!gemm.out.sizes[d].is_constant(1))
      out_index = out_index + pool.index(static_cast<int>(d)) * gemm.out.strides[d];
  }
  EpilogueMatch match;
  const std::vector<std::size_t> cuts = cut_points(body, *acc);
  if (cuts.empty()) return std::nullopt;
  bool scaled = false;
  for (std::size_t c = 0; c + 1 < cuts.size();) {
    // The longest stretch that is an activation.
    std::size_t next = c;
    for (std::size_t e = cuts.size() - 1; e > c && next == c; --e) {
      if (const char* name = activation(body, cuts[c], cuts[e])) {
        match.ops.push_back({name, {}, 0});
        next = e;
      }
    }
    if (next == c) {
      const Instr& instr = body.instrs[cuts[c + 1]];
      if (instr.operands.size() != 2 || instr.dtype != DType::f32) return std::nullopt;
      const bool first = static_cast<std::size_t>(instr.operands[0].index) == cuts[c];
      const auto other_value = instr.operands[first ? 1 : 0];
      const Instr& other = body[other_value];
      const bool one_use = static_cast<std::size_t>(other_value.index) != cuts[c];
      if (instr.code == OpCode::add && one_use && other.code == OpCode::load && other.operands.empty() &&
          other.dtype == DType::f32) {
        Expr index = other.index;
        for (std::size_t d = 0; d < rank; ++d) {  // extents of 1 have index 0
          if (!gemm.out.sizes[d].is_constant(1)) continue;
          index = ir::substitute(index, [&](Expr s) {
            return s == pool.index(static_cast<int>(d)) ? std::optional<Expr>(0) : std::nullopt;
          });
        }
        const Expr along_n =
            gemm.out.sizes[rank - 1].is_constant(1) ? Expr(0) : pool.index(static_cast<int>(rank) - 1);
        const auto no_index = [](Expr e) {
          bool none = true;
          for_each_symbol(e, [&](Expr s) { none = none && s.is_symbol(SymbolKind::dim); });
          return none;
        };
        if (no_index(index - along_n))
          match.ops.push_back({"add_vector", other.buffer, index - along_n});
        else if (no_index(index - out_index))
          match.ops.push_back({"add_matrix", other.buffer, index - out_index});
        else
          return std::nullopt;
      } else if ((instr.code == OpCode::mul || (instr.code == OpCode::div && first)) && one_use &&
                 other.code == OpCode::constant && !scaled) {
        const double v = std::holds_alternative<double>(other.literal)
                             ? std::get<double>(other.literal)
                             : static_cast<double>(std::get<std::int64_t>(other.literal));
        match.scale = instr.code == OpCode::mul ? v : 1 / v;
        scaled = true;
        match.ops.push_back({"scale", {}, 0});
      } else {
        return std::nullopt;
      }
      next = c + 1;
    }
    c = next;
  }
  if (match.ops.size() > kMaxPostOps) return std::nullopt;
  return match;
}

}  // namespace braid::codegen::cpp
