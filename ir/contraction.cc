#include "ir/contraction.h"

#include <vector>

namespace braid::ir {

namespace {

// By value of the body: the kept indices on which it depends.
std::vector<std::vector<bool>> dependence_on_kept(const Loops& loops) {
  std::vector<std::vector<bool>> depends;
  for (const Instr& instr : loops.body.instrs) {
    std::vector<bool>& own = depends.emplace_back(loops.kept(), false);
    const auto add = [&](ValueId v) {
      const std::vector<bool>& other = depends[static_cast<std::size_t>(v.index)];
      for (std::size_t k = 0; k < own.size(); ++k) own[k] = own[k] || other[k];
    };
    for (ValueId operand : instr.operands) add(operand);
    for_each_symbol(instr.index, [&](Expr symbol) {
      if (symbol.is_symbol(SymbolKind::value)) add({symbol.symbol_number()});
      if (!symbol.is_symbol(SymbolKind::index)) return;
      const auto k = static_cast<std::size_t>(symbol.symbol_number());
      if (k < own.size()) own[k] = true;
    });
  }
  return depends;
}

}  // namespace

bool is_contraction(const Loops& loops) {
  if (!loops.is_reduction() || loops.reduce != ReduceKind::sum) return false;
  const LoopBody& body = loops.body;
  ValueId value = body.result;
  while (body[value].code == OpCode::cast) value = body[value].operands[0];
  if (body[value].code != OpCode::mul) return false;
  const std::vector<std::vector<bool>> depends = dependence_on_kept(loops);
  const auto of_factor = [&](std::size_t k) {
    return depends[static_cast<std::size_t>(body[value].operands[k].index)];
  };
  const std::vector<bool> a = of_factor(0), b = of_factor(1);
  bool only_a = false, only_b = false;
  for (std::size_t k = 0; k < a.size(); ++k) {
    only_a = only_a || (a[k] && !b[k]);
    only_b = only_b || (b[k] && !a[k]);
  }
  return only_a && only_b;
}

}  // namespace braid::ir
