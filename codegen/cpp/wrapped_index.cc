#include "codegen/cpp/wrapped_index.h"

#include <algorithm>

namespace braid::codegen::cpp {

using namespace ir;

namespace {

// Adds the divisors of index k in `e`.
void find_divisors(Expr e, std::size_t k, std::vector<Expr>& out) {
  for (const Term& term : terms(e)) {
    for (const Expr& atom : term.atoms) {
      if (atom.kind() == ExprKind::symbol) continue;
      const bool divides = atom.kind() == ExprKind::floor_div || atom.kind() == ExprKind::mod;
      const Expr lhs = atom.lhs();
      if (divides && lhs.is_symbol(SymbolKind::index) && lhs.symbol_number() == static_cast<int>(k)) {
        if (std::find(out.begin(), out.end(), atom.rhs()) == out.end()) out.push_back(atom.rhs());
        continue;
      }
      find_divisors(lhs, k, out);
      find_divisors(atom.rhs(), k, out);
    }
  }
}

}  // namespace

std::optional<Expr> wrapped_by(const LoopBody& body, Expr store, std::size_t k, Expr extent) {
  std::vector<Expr> divisors;
  find_divisors(store, k, divisors);
  for (const Instr& instr : body.instrs) find_divisors(instr.index, k, divisors);
  if (divisors.size() != 1 || bounds(divisors[0]).min < 2 || !divide_exactly(extent, divisors[0]))
    return std::nullopt;
  return divisors[0];
}

}  // namespace braid::codegen::cpp
