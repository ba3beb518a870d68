#include "codegen/cuda/pack_rule.h"

#include <algorithm>
#include <utility>

namespace braid::codegen::cuda {

using ir::Expr;
using ir::SymbolKind;

namespace {

bool has_only_dims(Expr atom) {
  bool of_dims = true;
  ir::for_each_symbol(atom, [&](Expr s) { of_dims &= s.is_symbol(SymbolKind::dim); });
  return of_dims;
}

// Whether some dims might make `e` a multiple of n, a power of two.
bool possibly_multiple(Expr e, std::int64_t n) {
  std::int64_t constant = 0, step = n;
  for (const ir::Term& t : ir::terms(e)) {
    if (t.atoms.empty()) constant = t.coefficient;
    while (!t.atoms.empty() && t.coefficient % step != 0) step /= 2;
  }
  return constant % step == 0;
}

}  // namespace

std::optional<std::vector<Expr>> steps_beside(Expr e, Expr lane) {
  bool once = false;
  std::vector<std::pair<std::vector<Expr>, Expr>> steps;  // by the atoms that are not of dims
  for (const ir::Term& term : ir::terms(e)) {
    std::vector<Expr> varying;
    Expr factor = term.coefficient;
    for (Expr atom : term.atoms) {
      if (has_only_dims(atom)) {
        factor = factor * atom;
      } else {
        varying.push_back(atom);
      }
    }
    if (varying == std::vector<Expr>{lane} && factor.is_constant(1)) {
      once = true;
      continue;
    }
    if (std::any_of(varying.begin(), varying.end(), [&](Expr atom) { return ir::contains(atom, lane); }))
      return std::nullopt;
    const auto same =
        std::find_if(steps.begin(), steps.end(), [&](const auto& s) { return s.first == varying; });
    if (same == steps.end()) {
      steps.emplace_back(varying, factor);
    } else {
      same->second = same->second + factor;
    }
  }
  if (!once) return std::nullopt;
  std::vector<Expr> out;
  for (const auto& [atoms, factor] : steps) out.push_back(factor);
  return out;
}

bool need_multiples(const std::vector<Expr>& steps, std::int64_t pack, std::vector<Expr>& multiples) {
  const auto possible = [&](Expr e) { return possibly_multiple(e, pack); };
  if (!std::all_of(steps.begin(), steps.end(), possible)) return false;
  for (Expr e : steps) {
    if (!ir::provably_multiple(e, pack) &&
        std::find(multiples.begin(), multiples.end(), e) == multiples.end())
      multiples.push_back(e);
  }
  return true;
}

}  // namespace braid::codegen::cuda
