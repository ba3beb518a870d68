#include "codegen/collapse.h"

#include <algorithm>

namespace braid::codegen {
namespace {

using ir::Expr;

template <class Visit>
void for_each_expr(const ir::Loops& loops, const Visit& visit) {
  visit(loops.store_index);
  for (const ir::Instr& instr : loops.body.instrs) visit(instr.index);
}

void replace_indices(ir::Loops& loops, std::span<const Expr> by) {
  loops.store_index = ir::substitute_indices(loops.store_index, by);
  for (ir::Instr& instr : loops.body.instrs) instr.index = ir::substitute_indices(instr.index, by);
}

// Removes dimension k: its index becomes `replacement`, in terms of the remaining ones (already renumbered).
void remove(ir::Loops& loops, std::size_t k, Expr replacement, ir::ExprPool& pool) {
  std::vector<Expr> by(loops.sizes.size());
  for (std::size_t d = 0; d < by.size(); ++d) by[d] = pool.index(static_cast<int>(d > k ? d - 1 : d));
  by[k] = replacement;
  if (k >= loops.kept()) --loops.reduced;
  loops.sizes.erase(loops.sizes.begin() + static_cast<std::ptrdiff_t>(k));
  replace_indices(loops, by);
}

bool evenly(const ir::Loops& loops, std::size_t k, ir::ExprPool& pool) {
  const Expr outer = pool.index(k), inner = pool.index(static_cast<int>(k + 1));
  bool ok = true;
  for_each_expr(loops, [&](Expr e) {
    if (!ok) return;
    const std::optional<Expr> a = ir::stride_of(e, outer), b = ir::stride_of(e, inner);
    ok = a && b && *a == *b * loops.sizes[k + 1];
  });
  return ok;
}

}  // namespace

ir::Loops collapse(const ir::Loops& loops, ir::ExprPool& pool, std::size_t fixed) {
  ir::Loops out = loops;
  for (std::size_t k = out.sizes.size(); k-- > fixed;) {
    const bool last_reduced = k >= out.kept() && out.reduced == 1;
    if (out.sizes[k].is_constant(1) && !last_reduced) remove(out, k, 0, pool);
  }
  for (std::size_t k = out.sizes.size(); k-- > fixed + 1;) {
    // Merge k into k - 1.
    if (k == out.kept() || !evenly(out, k - 1, pool)) continue;
    const Expr merged = out.sizes[k - 1] * out.sizes[k];
    // With even strides, index k - 1 may be left at 0 when index k runs over both.
    remove(out, k - 1, 0, pool);
    out.sizes[k - 1] = merged;
  }
  return out;
}

std::size_t collapse_outer(std::span<ir::Loops> loops, std::size_t outer, ir::ExprPool& pool) {
  for (std::size_t k = outer; k-- > 0;) {
    if (loops[0].sizes[k].is_constant(1)) {
      for (ir::Loops& each : loops) remove(each, k, 0, pool);
      --outer;
    }
  }
  for (std::size_t k = outer; k-- > 1;) {
    if (!std::all_of(loops.begin(), loops.end(),
                     [&](const ir::Loops& each) { return evenly(each, k - 1, pool); }))
      continue;
    for (ir::Loops& each : loops) {
      const Expr merged = each.sizes[k - 1] * each.sizes[k];
      remove(each, k - 1, 0, pool);
      each.sizes[k - 1] = merged;
    }
    --outer;
  }
  return outer;
}

}  // namespace braid::codegen
