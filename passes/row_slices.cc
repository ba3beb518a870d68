#include "passes/row_slices.h"

#include <algorithm>

#include "ir/effects.h"
#include "ir/kernel_parts.h"
#include "ir/strided_view.h"

namespace braid::passes {

using namespace ir;

namespace {

struct Place {
  Expr row = 0, column = 0;
};

// Returns the row and column of an element, in rows of `columns` elements, over indices of these sizes.
// Returns nullopt if the column is not provably within the row.
std::optional<Place> place_of(Expr element, std::int64_t columns, Extents extents) {
  Place place;
  for (const Term& term : terms(element)) {
    std::vector<Expr> factors = term.atoms;
    std::int64_t rows = term.coefficient / columns, rest = term.coefficient % columns;
    if (!factors.empty() && rest != 0) rows = 0, rest = term.coefficient;
    factors.emplace_back(rows);
    place.row = place.row + product(factors);
    factors.back() = rest;
    place.column = place.column + product(factors);
  }
  if (!provably_non_negative(place.column, extents) || !provably_less(place.column, columns, extents))
    return std::nullopt;
  return place;
}

// Whether the body adds a value loaded from this memory, as it is, to another one that is no constant.
bool adds(const Graph& graph, const LoopBody& body, StorageId memory) {
  const auto uncast = [&](ValueId v) {
    while (body[v].code == OpCode::cast) v = body[v].operands[0];
    return v;
  };
  const auto reads = [&](ValueId v, bool constant) {
    const Instr& instr = body[uncast(v)];
    if (instr.code != OpCode::load) return constant && instr.code == OpCode::constant;
    const StorageId s = root_storage(graph, instr.buffer);
    return constant ? s.valid() && graph[s].kind == StorageKind::constant : s == memory;
  };
  return std::any_of(body.instrs.begin(), body.instrs.end(), [&](const Instr& instr) {
    if (instr.code != OpCode::add) return false;
    const ValueId a = instr.operands[0], b = instr.operands[1];
    return (reads(a, false) && !reads(b, true)) || (reads(b, false) && !reads(a, true));
  });
}

}  // namespace

RowSlices::RowSlices(Schedule& schedule)
    : graph_(schedule.graph),
      touches_(graph_.storages.size()),
      kept_(graph_.storages.size(), false),
      buffers_(graph_.storages.size()),
      single_(graph_.ops.size(), false) {
  for (const ScheduleNode& node : schedule.nodes) {
    if (node.kind == ScheduleNode::Kind::single) single_[node.op] = true;
  }
  std::vector<StorageTouch> touched;
  for (OpId op : execution_order(schedule)) {
    storages_of(graph_, op, touched);
    for (const StorageTouch& t : touched) {
      if (!t.storage.valid()) continue;
      std::vector<Touch>& all = touches_[t.storage];
      if (!all.empty() && all.back().op == op) {
        all.back().writes |= t.writes;
      } else {
        all.push_back({op, t.writes});
      }
    }
  }
  for (const BufferId b : first_ids<BufferId>(count_of(graph_.buffers))) {
    if (const StorageId s = root_storage(graph_, b); s.valid()) buffers_[s].push_back(b);
  }
  for (const GraphOutput& o : graph_.outputs) {
    if (const StorageId s = root_storage(graph_, o.buffer); s.valid()) kept_[s] = true;
  }
  for (const Storage& s : graph_.storages) {
    if (s.alias_of.valid()) kept_[root_storage(graph_, s.alias_of)] = true;
  }
}

bool RowSlices::is_private(StorageId s) const {
  return s.valid() && graph_[s].kind == StorageKind::activation && !kept_[s];
}

std::optional<OpId> RowSlices::only_reader(BufferId result, OpId writer) const {
  const StorageId s = root_storage(graph_, result);
  if (!is_private(s)) return std::nullopt;
  const std::vector<Touch>& all = touches_[s];
  if (all.size() != 2 || all[0].op != writer || all[1].writes || !single_[all[1].op]) return std::nullopt;
  return all[1].op;
}

bool RowSlices::has_one_version(BufferId result) const {
  const std::vector<BufferId>& names = buffers_[root_storage(graph_, result)];
  return std::all_of(names.begin(), names.end(), [&](BufferId b) {
    const Buffer& buffer = graph_[b];
    return buffer.dtype == graph_[result].dtype && !std::holds_alternative<MutationOutput>(buffer.layout) &&
           (!buffer.storage.valid() || b == result);
  });
}

std::optional<std::vector<OpId>> RowSlices::readers(BufferId result, OpId writer) const {
  const StorageId s = root_storage(graph_, result);
  if (!is_private(s) || !graph_[result].storage.valid() || !has_one_version(result)) return std::nullopt;
  std::vector<OpId> out;
  for (const Touch& t : touches_[s]) {
    if (t.op == writer) continue;
    if (t.writes || !single_[t.op]) return std::nullopt;
    out.push_back(t.op);
  }
  return out;
}

bool RowSlices::may_be_slice(const TensorRef& out, std::int64_t columns, OpId writer) const {
  const StorageId memory = root_storage(graph_, out.buffer);
  if (!is_private(memory) || !graph_[out.buffer].storage.valid()) return false;
  const std::vector<Expr> strides = contiguous_strides(out.sizes);
  for (std::size_t d = 0; d < out.sizes.size(); ++d) {
    if (!out.sizes[d].is_constant(1) && !(out.strides[d] == strides[d])) return false;
  }
  if (!out.offset.is_constant(0) || !(numel(graph_[out.buffer].sizes) == numel(out.sizes))) return false;
  return has_one_version(out.buffer) &&
         std::all_of(touches_[memory].begin(), touches_[memory].end(), [&](const Touch& t) {
           return t.op == writer || (!t.writes && readable(t.op, memory, columns));
         });
}

bool RowSlices::readable(OpId op, StorageId memory, std::int64_t columns) const {
  const Operation& reader = graph_[op];
  const auto* gemm = reader.as<Gemm>();
  const auto* loops = reader.as<Loops>();
  if (!single_[op] || (gemm == nullptr && loops == nullptr && reader.as<Attention>() == nullptr))
    return false;
  if (loops != nullptr && adds(graph_, loops->body, memory)) return false;
  const Slice slice{columns, 0, columns};
  const auto in_memory = [&](BufferId b) { return root_storage(graph_, b) == memory; };
  bool ok = true;
  for_each_operand(reader.kernel, [&](const TensorRef& ref, bool) {
    if (in_memory(ref.buffer)) ok = ok && moved(ref, ref.buffer, slice);
  });
  for_each_body(reader.kernel, [&](const LoopBody& body, const std::vector<Expr>& sizes) {
    for (const Instr& instr : body.instrs) {
      if (instr.code == OpCode::load && in_memory(instr.buffer))
        ok = ok && gemm == nullptr && moved(instr.buffer, instr.index, sizes, slice);
    }
  });
  return ok;
}

std::optional<Expr> RowSlices::moved(BufferId b, Expr e, std::span<const Expr> sizes,
                                     const Slice& slice) const {
  const std::optional<Expr> from = divide_exactly(region(graph_, b).offset, size_of(graph_[b].dtype));
  if (!from) return std::nullopt;
  const std::optional<Place> place = place_of(simplify(*from + e, sizes), slice.columns, sizes);
  if (!place) return std::nullopt;
  return place->row * slice.pitch + place->column + slice.first;
}

std::optional<TensorRef> RowSlices::moved(const TensorRef& ref, BufferId rows, const Slice& slice) const {
  const std::optional<Expr> e = moved(ref.buffer, element_of(graph_, ref), ref.sizes, slice);
  if (!e) return std::nullopt;
  std::optional<TensorRef> out = strided_view(graph_, rows, *e, ref.sizes);
  // The strides of single elements are those of a dense layout.
  for (std::size_t k = ref.sizes.size(); out && k-- > 0;) {
    if (ref.sizes[k].is_constant(1))
      out->strides[k] = k + 1 < ref.sizes.size() ? out->strides[k + 1] * ref.sizes[k + 1] : Expr(1);
  }
  return out;
}

void RowSlices::replace(BufferId result, std::int64_t columns, BufferId rows, std::int64_t first,
                        std::int64_t pitch) {
  const StorageId memory = root_storage(graph_, result);
  const Slice slice{columns, first, pitch};
  const auto in_memory = [&](BufferId b) { return root_storage(graph_, b) == memory; };
  for (const Touch& t : touches_[memory]) {
    if (t.writes) continue;
    for_each_operand(graph_[t.op].kernel, [&](TensorRef& ref, bool) {
      if (in_memory(ref.buffer)) ref = *moved(ref, rows, slice);
    });
    for_each_body(graph_[t.op].kernel, [&](LoopBody& body, const std::vector<Expr>& sizes) {
      for (Instr& instr : body.instrs) {
        if (instr.code != OpCode::load || !in_memory(instr.buffer)) continue;
        instr.index = *moved(instr.buffer, instr.index, sizes, slice);
        instr.buffer = rows;
      }
    });
  }
}

}  // namespace braid::passes
