#include "passes/forward_copies.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "ir/effects.h"
#include "ir/id_vector.h"
#include "passes/compact.h"

namespace braid::passes {
namespace {

using namespace ir;

bool only_moves(const Graph& graph, OpId op) {
  const auto* loops = graph[op].as<Loops>();
  return loops != nullptr && !loops->is_reduction() && loops->body.instrs.size() == 1 &&
         loops->body.instrs[0].code == OpCode::load && graph[op].outputs.size() == 1;
}

bool is_linear(Expr e, std::size_t rank, ExprPool& pool) {
  for (std::size_t k = 0; k < rank; ++k) {
    const Expr index = pool.index(k);
    const std::optional<Expr> stride = stride_of(e, index);
    if (!stride) return false;
    e = e - index * *stride;
  }
  bool only_dims = true;
  for_each_symbol(e, [&](Expr s) { only_dims = only_dims && s.is_symbol(SymbolKind::dim); });
  return only_dims;
}

// The loop, or the part of it that begins at `first` in one dimension.
struct Part {
  std::vector<Expr> sizes;
  std::size_t dim = 0;
  std::int64_t first = 0;
  Expr load = 0;
};

class Forwarder {
 public:
  Forwarder(Schedule& schedule, std::int64_t max_parts)
      : schedule_(schedule), graph_(schedule.graph), max_parts_(max_parts) {
    touches_.resize(graph_.storages.size());
    is_output_.assign(graph_.storages.size(), false);
    for (std::size_t n = 0; n < schedule.nodes.size(); ++n) {
      for (OpId op : ops_of(schedule.nodes[n])) {
        for (const Access& a : effects(graph_, op).accesses)
          touches_[a.region.storage].push_back({n, op, a.writes()});
      }
    }
    for (const GraphOutput& o : graph_.outputs) {
      const StorageId s = root_storage(graph_, o.buffer);
      if (s.valid()) is_output_[s] = true;
    }
  }

  bool run() {
    bool changed = false;
    std::vector<ScheduleNode> nodes;
    for (std::size_t n = 0; n < schedule_.nodes.size(); ++n) {
      const std::size_t first = nodes.size();
      nodes.push_back(schedule_.nodes[n]);
      while (nodes.size() == first + 1 && forward(nodes, n)) changed = true;
    }
    if (!changed) return false;
    std::erase_if(nodes, [&](const ScheduleNode& node) {
      return node.kind == ScheduleNode::Kind::single && gone_.contains(node.op);
    });
    schedule_.nodes = std::move(nodes);
    schedule_.plan.reset();
    compact(schedule_);
    return true;
  }

 private:
  struct Touch {
    std::size_t node;
    OpId op;
    bool writes;
  };
  Schedule& schedule_;
  Graph& graph_;
  std::int64_t max_parts_;
  IdVector<StorageId, std::vector<Touch>> touches_;  // of each storage, in the order of the schedule
  IdVector<StorageId, bool> is_output_;
  std::set<OpId> gone_;

  // The copy that wrote what `op` reads, if the two can be merged.
  std::optional<OpId> source_copy(OpId op, std::size_t node) const {
    const BufferId read = graph_[op].as<Loops>()->body.instrs[0].buffer;
    const StorageId between = root_storage(graph_, read);
    if (!between.valid() || graph_[between].kind != StorageKind::activation || is_output_[between])
      return std::nullopt;
    const std::vector<Touch>& all = touches_[between];
    if (all.size() != 2 || !all[0].writes || all[1].writes || !only_moves(graph_, all[0].op))
      return std::nullopt;
    const std::size_t from = all[0].node;
    if (schedule_.nodes[from].kind != ScheduleNode::Kind::single) return std::nullopt;
    const BufferId source = graph_[all[0].op].as<Loops>()->body.instrs[0].buffer;
    const StorageId memory = root_storage(graph_, source);
    if (!memory.valid() || memory == root_storage(graph_, graph_[op].outputs[0])) return std::nullopt;
    for (const Touch& t : touches_[memory]) {
      if (t.writes && t.node > from && t.node < node) return std::nullopt;
    }
    return all[0].op;
  }

  // Index into the copy's source for element `e` of its result, with e over a loop of these sizes. A copy without elements
  // has none.
  std::optional<Expr> index_in_source(const Loops& copy, Expr e, const std::vector<Expr>& sizes) const {
    const std::vector<Expr> strides = contiguous_strides(copy.sizes);
    if (std::any_of(copy.sizes.begin(), copy.sizes.end(), [](Expr e) { return e.is_constant(0); }))
      return std::nullopt;
    std::vector<Expr> indices;
    bool outermost = true;
    for (std::size_t k = 0; k < copy.sizes.size(); ++k) {
      if (copy.sizes[k].is_constant(1)) {
        indices.emplace_back(0);
        continue;
      }
      Expr index = strides[k].is_constant(1) ? e : simplify(floor_div(e, strides[k]), sizes);
      if (!outermost) index = simplify(mod(index, copy.sizes[k]), sizes);
      outermost = false;
      indices.push_back(index);
    }
    const Expr found = simplify(substitute_indices(copy.body.instrs[0].index, indices), sizes);
    return is_linear(found, sizes.size(), *graph_.pool) ? std::optional(found) : std::nullopt;
  }

  // The second copy as loops that read the first one's source: a single loop, or parts.
  std::vector<Part> parts_of(const Loops& copy, const Loops& second, Expr e) const {
    if (const auto whole = index_in_source(copy, e, second.sizes)) return {{second.sizes, 0, 0, *whole}};
    const std::vector<Expr> strides = contiguous_strides(copy.sizes);
    for (std::size_t d = second.sizes.size(); d-- > 0;) {
      const Expr index = graph_.pool->index(d);
      const std::optional<Expr> step = stride_of(e, index);
      if (!second.sizes[d].is_constant() || !step || step->is_constant(0)) continue;
      const std::int64_t extent = second.sizes[d].constant();
      for (std::size_t k = strides.size(); k-- > 0;) {
        const std::optional<Expr> wraps = divide_exactly(strides[k], *step);
        if (!wraps || !wraps->is_constant()) continue;
        const std::int64_t length = wraps->constant();
        if (length <= 1 || length >= extent || (extent + length - 1) / length > max_parts_) continue;
        std::vector<Part> parts;
        for (std::int64_t first = 0; first < extent; first += length) {
          Part part{second.sizes, d, first, 0};
          part.sizes[d] = std::min(length, extent - first);
          const auto moved = index_in_source(copy, e + *step * first, part.sizes);
          if (!moved) break;
          part.load = *moved;
          parts.push_back(std::move(part));
        }
        if (std::ssize(parts) * length >= extent) return parts;
      }
    }
    return {};
  }

  bool stores_in_order(const Loops& loops, const std::vector<Expr>& strides) const {
    Expr own = 0;
    for (std::size_t k = 0; k < strides.size(); ++k) {
      if (!loops.sizes[k].is_constant(1)) own = own + graph_.pool->index(k) * strides[k];
    }
    return simplify(loops.store_index, loops.sizes) == simplify(own, loops.sizes);
  }

  // Whether the loop writes each element of its own buffer at its own index.
  bool can_part(OpId op, const Loops& loops) const {
    const Buffer& target = graph_[graph_[op].outputs[0]];
    return target.storage.valid() && target.sizes == loops.sizes &&
           stores_in_order(loops, strides_of(graph_, graph_[op].outputs[0]));
  }

  // An operation that writes a part of the result of `op`: `op` itself, or another one like it.
  OpId make_part(OpId op, BufferId whole, const Part& part) {
    const std::vector<Expr> strides = strides_of(graph_, whole);
    Buffer view;
    view.name = graph_[whole].name + ".part";
    view.dtype = graph_[whole].dtype;
    view.sizes = part.sizes;
    view.layout = NonOwningLayout{whole, strides[part.dim] * part.first, strides};
    const BufferId target = graph_.add_buffer(std::move(view));
    if (part.first == 0) {
      graph_[whole].producer = {};
      graph_[op].outputs = {target};
      graph_[target].producer = op;
      return op;
    }
    Operation other = graph_[op];
    other.outputs = {target};
    return graph_.add_op(std::move(other));
  }

  void merge_origins(OpId into, OpId from) {
    std::vector<std::string> origins = graph_[from].origins;
    for (const std::string& origin : graph_[into].origins) {
      if (std::find(origins.begin(), origins.end(), origin) == origins.end()) origins.push_back(origin);
    }
    graph_[into].origins = std::move(origins);
    graph_[into].cost.reset();
  }

  // Merges the last of `nodes`, which stood at `node`, with the copy that it reads.
  bool forward(std::vector<ScheduleNode>& nodes, std::size_t node) {
    if (nodes.back().kind != ScheduleNode::Kind::single) return false;
    const OpId op = nodes.back().op;
    if (!only_moves(graph_, op)) return false;
    const std::optional<OpId> first = source_copy(op, node);
    if (!first) return false;
    const Loops copy = *graph_[*first].as<Loops>(), second = *graph_[op].as<Loops>();
    const BufferId between = graph_[*first].outputs[0];
    const Instr& read = second.body.instrs[0];
    if (graph_[read.buffer].dtype != graph_[between].dtype) return false;
    // The first copy writes the elements of its buffer in order.
    if (!stores_in_order(copy, contiguous_strides(copy.sizes))) return false;
    const std::int64_t item = size_of(graph_[between].dtype);
    const auto shift =
        divide_exactly(region(graph_, read.buffer).offset - region(graph_, between).offset, item);
    if (!shift) return false;
    const std::vector<Part> parts = parts_of(copy, second, simplify(read.index + *shift, second.sizes));
    if (parts.empty() || (parts.size() > 1 && !can_part(op, second))) return false;
    merge_origins(op, *first);
    const BufferId whole = graph_[op].outputs[0];
    for (const Part& part : parts) {
      const OpId target = parts.size() == 1 ? op : make_part(op, whole, part);
      Loops& loops = *graph_[target].as<Loops>();
      loops.sizes = part.sizes;
      loops.body = copy.body;
      loops.body.instrs[0].index = part.load;
      if (part.first == 0) continue;
      nodes.push_back(ScheduleNode::single(target));
      touches_[root_storage(graph_, whole)].push_back({node, target, true});
    }
    // Later pairs must see the new reader of the source.
    const StorageId memory = root_storage(graph_, copy.body.instrs[0].buffer);
    std::replace_if(
        touches_[memory].begin(), touches_[memory].end(), [&](const Touch& t) { return t.op == *first; },
        Touch{node, op, false});
    touches_[root_storage(graph_, between)].clear();
    gone_.insert(*first);
    return true;
  }
};

}  // namespace

bool ForwardCopies::run(Schedule& schedule) { return Forwarder(schedule, max_parts).run(); }

}  // namespace braid::passes
