// Blocks that are transposed on their way from or to memory.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/cpp/kernel_emitter.h"
#include "ir/error.h"

namespace braid::codegen::cpp {

using namespace ir;

bool KernelEmitter::is_copy(const NestGroup& group) const {
  const LoopBody& body = group.members[0].body;
  const Instr& load = body[body.result];
  return group.members.size() == 1 && load.code == OpCode::load && load.operands.empty() &&
         load.dtype != DType::boolean && !local(load.buffer) && !local(group.members[0].out) &&
         !has_value_symbol(load.index);
}

bool KernelEmitter::has_value_symbol(Expr e) {
  bool found = false;
  for_each_symbol(e, [&](Expr s) { found = found || s.is_symbol(SymbolKind::value); });
  return found;
}

std::string KernelEmitter::transpose_line(const NestGroup& group, const std::string& to,
                                          const std::string& to_stride, BufferId from, Expr index) {
  const std::string extents =
      fmt::format("{}, {}", text(nest_.extents[static_cast<std::size_t>(group.kept[1])]),
                  text(nest_.extents[static_cast<std::size_t>(group.kept[2])]));
  return fmt::format("transpose_block({}, {}, {} + {}, {}, {});", to, to_stride, param(from).name,
                     size(block_start(group, index)), text(*stride_of(index, index_of(group.kept[2]))),
                     extents);
}

Expr KernelEmitter::block_start(const NestGroup& group, Expr e) const {
  const Expr row = index_of(group.kept[1]), column = index_of(group.kept[2]);
  return ir::substitute(e, [&](Expr s) -> std::optional<Expr> {
    if (s == row || s == column) return Expr(0);
    return std::nullopt;
  });
}

void KernelEmitter::emit_transposition(const NestGroup& group) {
  const NestMember& m = group.members[0];
  const Instr& load = m.body[m.body.result];
  order_ = {group.kept[0]};
  outer_lines_.push_back(loop_head(group.kept[0]) + " {");
  outer_lines_.push_back(
      transpose_line(group, fmt::format("{} + {}", param(m.out).name, size(block_start(group, m.store))),
                     text(*stride_of(m.store, index_of(group.kept[1]))), load.buffer, load.index));
  outer_lines_.push_back("}");
  const auto extent = [&](int k) {
    return nest_.extents[static_cast<std::size_t>(group.kept[static_cast<std::size_t>(k)])];
  };
  const auto most = [&](int k) { return bounds(extent(k), nest_.extents).max; };
  total_work_ = total_work_ + extent(0) * (most(1) * most(2));
}

void KernelEmitter::stage_loads(const NestGroup& group) {
  const int row = group.kept[1], column = group.kept[2];
  const std::int64_t width = bounds(nest_.extents[static_cast<std::size_t>(column)], nest_.extents).max,
                     height = bounds(nest_.extents[static_cast<std::size_t>(row)], nest_.extents).max;
  for (const NestMember& m : group.members) {
    for (const Instr& instr : m.body.instrs) {
      if (instr.code != OpCode::load || !instr.operands.empty() || local(instr.buffer) ||
          has_value_symbol(instr.index))
        continue;
      const auto by_row = stride_of(instr.index, index_of(row)),
                 by_column = stride_of(instr.index, index_of(column));
      const Param& p = param(instr.buffer);
      if (p.written || !by_row || !by_row->is_constant(1) || !by_column || by_column->is_constant(1) ||
          by_column->is_constant(0) || staged(instr))
        continue;
      const std::int64_t bytes = height * width * size_of(p.dtype);
      if (stack_bytes_ + bytes > kStackBytes) continue;
      stack_bytes_ += bytes;
      const std::string block = fmt::format("block{}", staged_.size());
      staged_.push_back(
          {instr.buffer, instr.index, fmt::format("{}[i{} * {} + i{}]", block, row, width, column)});
      lines(2).push_back(fmt::format("alignas(64) {} {}[{}];", storage_type(p.dtype), block, height * width));
      lines(2).push_back(transpose_line(group, block, std::to_string(width), instr.buffer, instr.index));
    }
  }
}

const KernelEmitter::Staged* KernelEmitter::staged(const Instr& load) const {
  const auto found = std::ranges::find_if(staged_, [&](const Staged& s) {
    return unmutated(graph_, s.buffer) == unmutated(graph_, load.buffer) && s.index == load.index;
  });
  return found == staged_.end() ? nullptr : &*found;
}

}  // namespace braid::codegen::cpp
