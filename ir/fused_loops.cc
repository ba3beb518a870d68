#include "ir/fused_loops.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/effects.h"
#include "ir/error.h"

namespace braid::ir {
namespace {

bool has_value(Expr e) {
  bool found = false;
  for_each_symbol(e, [&](Expr s) { found |= s.is_symbol(SymbolKind::value); });
  return found;
}

// The store of a loop, in elements from the first byte of its storage.
struct Store {
  StorageId storage;
  Expr origin = 0;  // bytes
  std::int64_t item = 1;
  Expr index = 0;
  std::vector<Expr> kept;
};

std::optional<Store> store_of(const Graph& graph, OpId op) {
  const auto* loops = graph[op].as<Loops>();
  if (loops == nullptr || graph[op].outputs.size() != 1) return std::nullopt;
  const BufferId out = graph[op].outputs[0];
  const MemoryRegion r = region(graph, out);
  Store s{r.storage, r.offset, size_of(graph[out].dtype), loops->store_index, loops->sizes};
  s.kept.resize(loops->kept());
  return s;
}

// Returns the load's element index, counted from the same element as the store's index; nullopt if the
// elements are not aligned.
std::optional<Expr> in_units_of(const Graph& graph, const Store& store, const Instr& load) {
  const MemoryRegion r = region(graph, load.buffer);
  if (size_of(graph[load.buffer].dtype) != store.item) return std::nullopt;
  const std::optional<Expr> shift = divide_exactly(r.offset - store.origin, store.item);
  if (!shift) return std::nullopt;
  return load.index + *shift;
}

Expr first_of_row(const Store& store, std::size_t outer) {
  return substitute(store.index, [&](Expr s) -> std::optional<Expr> {
    if (s.is_symbol(SymbolKind::index) && static_cast<std::size_t>(s.symbol_number()) >= outer)
      return Expr(std::int64_t{0});
    return std::nullopt;
  });
}

// Whether the elements of one row are contiguous, in the order of the inner indices.
bool rows_are_contiguous(const Store& store, std::size_t outer, ExprPool& pool) {
  const std::span<const Expr> inner = std::span(store.kept).subspan(outer);
  const std::vector<Expr> strides = contiguous_strides(inner);
  Expr offset = 0;
  for (std::size_t k = 0; k < inner.size(); ++k) {
    if (!inner[k].is_constant(1)) offset = offset + pool.index(static_cast<int>(outer + k)) * strides[k];
  }
  return simplify(store.index, store.kept) - simplify(first_of_row(store, outer), store.kept) == offset;
}

// The position of a load in the row of its own outer point, if it provably lies there.
std::optional<Expr> index_in_row(const Graph& graph, const Store& store, const Loops& reader,
                                 const Instr& load, std::size_t outer) {
  const std::optional<Expr> at = in_units_of(graph, store, load);
  if (!at || has_value(*at)) return std::nullopt;
  const Expr in_row = simplify(*at, reader.sizes) - simplify(first_of_row(store, outer), store.kept);
  if (has_index(in_row, 0, outer)) return std::nullopt;
  return in_row;
}

// Whether each iteration point loads the element that the same point stores.
bool is_same_point(const Graph& graph, const Store& store, const Loops& reader, const Instr& load,
                   std::size_t outer) {
  const std::size_t kept = store.kept.size();
  if (reader.sizes.size() < kept || kept < outer) return false;
  if (!std::equal(store.kept.begin(), store.kept.end(), reader.sizes.begin())) return false;
  const std::optional<Expr> at = in_units_of(graph, store, load);
  return at && !has_value(*at) && simplify(*at, reader.sizes) == simplify(store.index, store.kept);
}

Relation relate(const Graph& graph, const Store& store, const Loops& reader, const Instr& load,
                std::size_t outer) {
  if (is_same_point(graph, store, reader, load, outer)) return Relation::same_point;
  if (!rows_are_contiguous(store, outer, *graph.pool)) return Relation::other;
  const std::optional<Expr> in_row = index_in_row(graph, store, reader, load, outer);
  if (!in_row) return Relation::other;
  const Expr last = numel(std::span(store.kept).subspan(outer)) - 1;
  if (!provably_non_negative(*in_row, reader.sizes) || !provably_non_negative(last - *in_row, reader.sizes)) {
    return Relation::other;
  }
  return Relation::same_row;
}

template <class Visit>
void for_each_load(const LoopBody& body, const Visit& visit) {
  for (const Instr& instr : body.instrs) {
    if (instr.code == OpCode::load) visit(instr);
  }
}

// Whether all loads by `reader` of what `writer` writes stay at their own outer point.
bool stays_in_row(const Graph& graph, OpId writer, OpId reader, std::size_t outer, std::string* why) {
  const std::optional<Store> store = store_of(graph, writer);
  const auto& loops = *graph[reader].as<Loops>();
  bool ok = true;
  for_each_load(loops.body, [&](const Instr& load) {
    if (!ok || root_storage(graph, load.buffer) != store->storage) return;
    if (!may_overlap(graph, whole(graph, load.buffer), whole(graph, graph[writer].outputs[0]))) return;
    if (relate(graph, *store, loops, load, outer) != Relation::other) return;
    ok = false;
    if (why != nullptr) {
      *why = fmt::format("'{}' reads '{}' at other outer points than '{}' writes it", graph[reader].name,
                         graph[load.buffer].name, graph[writer].name);
    }
  });
  return ok;
}

bool legal(const Graph& graph, std::span<const OpId> ops, std::size_t outer, std::string* why) {
  // Only pairs that share memory matter; fusion bounds the number of members.
  for (std::size_t later = 1; later < ops.size(); ++later) {
    for (std::size_t earlier = 0; earlier < later; ++earlier) {
      if (!stays_in_row(graph, ops[earlier], ops[later], outer, why)) return false;
      if (!stays_in_row(graph, ops[later], ops[earlier], outer, why)) return false;
      const BufferId a = graph[ops[earlier]].outputs[0], b = graph[ops[later]].outputs[0];
      if (root_storage(graph, a) == root_storage(graph, b) &&
          may_overlap(graph, whole(graph, a), whole(graph, b))) {
        if (why != nullptr) {
          *why = fmt::format("'{}' and '{}' write the same bytes", graph[ops[earlier]].name,
                             graph[ops[later]].name);
        }
        return false;
      }
    }
  }
  return true;
}

}  // namespace

std::optional<FusedLoops> analyse_fused(const Graph& graph, std::span<const OpId> ops, std::string* why) {
  internal_check(!ops.empty(), "a fused node has no members");
  std::vector<Expr> prefix;
  for (std::size_t m = 0; m < ops.size(); ++m) {
    if (!store_of(graph, ops[m])) {
      if (why != nullptr) *why = fmt::format("'{}' is not a loop", graph[ops[m]].name);
      return std::nullopt;
    }
    const auto& loops = *graph[ops[m]].as<Loops>();
    const auto kept = std::span(loops.sizes).first(loops.kept());
    if (m == 0) prefix.assign(kept.begin(), kept.end());
    std::size_t same = 0;
    while (same < prefix.size() && same < kept.size() && prefix[same] == kept[same]) ++same;
    prefix.resize(same);
  }
  for (std::size_t outer = prefix.size() + 1; outer-- > 0;) {
    if (!legal(graph, ops, outer, why)) continue;
    FusedLoops out;
    out.outer.assign(prefix.begin(), prefix.begin() + static_cast<std::ptrdiff_t>(outer));
    for (OpId op : ops) {
      out.members.push_back({op, static_cast<int>(graph[op].as<Loops>()->sizes.size() - outer)});
    }
    return out;
  }
  return std::nullopt;
}

Relation relation(const Graph& graph, OpId writer, OpId reader, const Instr& load, std::size_t outer) {
  const std::optional<Store> store = store_of(graph, writer);
  internal_check(store && root_storage(graph, load.buffer) == store->storage, "a load of other memory");
  return relate(graph, *store, *graph[reader].as<Loops>(), load, outer);
}

std::optional<Expr> row_index(const Graph& graph, OpId writer, OpId reader, const Instr& load,
                              std::size_t outer) {
  const std::optional<Store> store = store_of(graph, writer);
  if (!store || !rows_are_contiguous(*store, outer, *graph.pool)) return std::nullopt;
  return index_in_row(graph, *store, *graph[reader].as<Loops>(), load, outer);
}

Expr row_elements(const Graph& graph, OpId writer, std::size_t outer) {
  const std::optional<Store> store = store_of(graph, writer);
  internal_check(store.has_value(), "'{}' is not a loop", graph[writer].name);
  return numel(std::span(store->kept).subspan(outer));
}

std::vector<std::vector<BufferId>> local_buffers(const Schedule& schedule) {
  const Graph& graph = schedule.graph;
  // The only node that touches each storage: -1 none yet, -2 several or the caller.
  std::vector<int> owner(graph.storages.size(), -1);
  const auto touch = [&](StorageId s, int node) {
    if (!s.valid()) return;
    int& o = owner[static_cast<std::size_t>(s.index)];
    o = o == -1 || o == node ? node : -2;
  };
  for (const GraphOutput& o : graph.outputs) touch(root_storage(graph, o.buffer), -2);
  std::vector<StorageTouch> touched;
  for (std::size_t n = 0; n < schedule.nodes.size(); ++n) {
    for (OpId op : ops_of(schedule.nodes[n])) {
      storages_of(graph, op, touched);
      for (const StorageTouch& t : touched) touch(t.storage, t.inside ? -2 : static_cast<int>(n));
    }
  }
  std::vector<std::vector<BufferId>> out(schedule.nodes.size());
  for (std::size_t n = 0; n < schedule.nodes.size(); ++n) {
    if (schedule.nodes[n].kind != ScheduleNode::Kind::fused) continue;
    const std::vector<OpId> ops = ops_of(schedule.nodes[n]);
    for (OpId op : ops) {
      const BufferId b = graph[op].outputs[0];
      const StorageId s = graph[b].storage;
      // Owning buffers only: parts of a larger tensor, and new versions of one, need the whole of it.
      if (!s.valid() || graph[s].kind != StorageKind::activation || graph[s].alias_of.valid()) continue;
      if (owner[static_cast<std::size_t>(s.index)] != static_cast<int>(n)) continue;
      const bool only_writer = std::none_of(ops.begin(), ops.end(), [&](OpId other) {
        return other != op && root_storage(graph, graph[other].outputs[0]) == s;
      });
      if (only_writer) out[n].push_back(b);
    }
  }
  return out;
}

std::vector<BufferId> local_buffers(const Schedule& schedule, const ScheduleNode& node) {
  const auto all = local_buffers(schedule);
  for (std::size_t n = 0; n < schedule.nodes.size(); ++n) {
    if (&schedule.nodes[n] == &node) return all[n];
  }
  throw InternalError("local_buffers() of a node that is not in the schedule");
}

bool may_reuse_in_place(const Graph& graph, const ScheduleNode& node, StorageId in, StorageId out) {
  if (node.kind == ScheduleNode::Kind::grouped) return false;
  const std::vector<OpId> ops = ops_of(node);
  std::optional<std::size_t> writer;
  for (std::size_t k = 0; k < ops.size(); ++k) {
    const auto* loops = graph[ops[k]].as<Loops>();
    if (loops == nullptr || graph[ops[k]].outputs.size() != 1) return false;
    const StorageId s = root_storage(graph, graph[ops[k]].outputs[0]);
    if (s == in || (s == out && writer)) return false;
    if (s == out) writer = k;
  }
  if (!writer) return false;
  std::optional<FusedLoops> fused;
  if (ops.size() > 1 && !(fused = analyse_fused(graph, ops))) return false;
  const std::size_t outer = fused ? fused->outer.size() : graph[ops[0]].as<Loops>()->kept();
  std::optional<Store> store = store_of(graph, ops[*writer]);
  // Pretend that `out` lies where `in` does: the same bytes from the storage's beginning.
  store->storage = in;
  for (std::size_t k = 0; k < ops.size(); ++k) {
    const auto& loops = *graph[ops[k]].as<Loops>();
    bool ok = true;
    for_each_load(loops.body, [&](const Instr& load) {
      if (!ok || root_storage(graph, load.buffer) != in) return;
      const Relation r = relate(graph, *store, loops, load, outer);
      if (k < *writer) {
        ok = r != Relation::other;
      } else {
        // Within one loop the order of points is unknown, so only the element itself may be read; after the
        // loop, none.
        ok = k == *writer && r == Relation::same_point && !loops.is_reduction();
      }
    });
    if (!ok) return false;
  }
  return true;
}

}  // namespace braid::ir
