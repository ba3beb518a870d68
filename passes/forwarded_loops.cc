#include "passes/forwarded_loops.h"

#include <algorithm>
#include <utility>

#include "ir/effects.h"
#include "ir/strided_view.h"
#include "passes/compact.h"

namespace braid::passes {

using namespace ir;

ForwardedLoops::ForwardedLoops(Schedule& schedule)
    : schedule_(schedule),
      graph_(schedule.graph),
      touches_(graph_.storages.size()),
      kept_(graph_.storages.size(), false) {
  for (std::size_t n = 0; n < schedule.nodes.size(); ++n) {
    for (OpId op : ops_of(schedule.nodes[n])) {
      for (const Access& a : effects(graph_, op).accesses)
        touches_[a.region.storage].push_back({n, op, a.writes()});
    }
  }
  for (const GraphOutput& o : graph_.outputs) {
    if (const StorageId s = root_storage(graph_, o.buffer); s.valid()) kept_[s] = true;
  }
  for (const StorageId s : kept_.ids()) {
    if (!graph_[s].alias_of.valid()) continue;
    kept_[s] = true;
    kept_[graph_[s].alias_of] = true;
  }
}

bool ForwardedLoops::is_pointwise(const Touch& t) const {
  const auto* loops = graph_[t.op].as<Loops>();
  return schedule_.nodes[t.node].kind == ScheduleNode::Kind::single && loops != nullptr &&
         !loops->is_reduction() && graph_[t.op].outputs.size() == 1 && !changed_.contains(t.op);
}

bool ForwardedLoops::is_written_between(StorageId s, std::size_t from, std::size_t to) const {
  return std::ranges::any_of(touches_[s],
                             [&](const Touch& t) { return t.writes && t.node > from && t.node < to; });
}

bool ForwardedLoops::stores_in_order(const Loops& loops, const std::vector<Expr>& strides) const {
  const Expr own = strided_index(*graph_.pool, loops.sizes, strides);
  return simplify(loops.store_index, loops.sizes) == simplify(own, loops.sizes);
}

bool ForwardedLoops::stores_in_order(OpId op) const {
  const auto& loops = *graph_[op].as<Loops>();
  const BufferId out = graph_[op].outputs[0];
  return graph_[out].sizes == loops.sizes && stores_in_order(loops, strides_of(graph_, out));
}

BufferId ForwardedLoops::part_of(BufferId whole, std::size_t dim, const Piece& piece) {
  const std::vector<Expr> strides = strides_of(graph_, whole);
  NonOwningLayout layout{whole, strides[dim] * piece.first, strides};
  if (const auto* view = std::get_if<NonOwningLayout>(&graph_[whole].layout)) {
    layout.base = view->base;
    layout.offset = layout.offset + view->offset;
  }
  Buffer part;
  part.name = graph_[whole].name + ".part";
  part.dtype = graph_[whole].dtype;
  part.sizes = piece.loops.sizes;
  part.layout = std::move(layout);
  return graph_.add_buffer(std::move(part));
}

void ForwardedLoops::replace(OpId reader, const std::vector<OpId>& writers, std::vector<Piece> pieces,
                             std::size_t dim) {
  std::vector<std::string> origins;
  const auto add_origins = [&](OpId op) {
    for (const std::string& origin : graph_[op].origins) {
      if (std::ranges::find(origins, origin) == origins.end()) origins.push_back(origin);
    }
  };
  for (const OpId writer : writers) add_origins(writer);
  add_origins(reader);
  Operation whole = graph_[reader];
  whole.origins = std::move(origins);
  whole.cost.reset();
  if (pieces.size() > 1) graph_[whole.outputs[0]].producer = {};
  for (std::size_t p = 0; p < pieces.size(); ++p) {
    Operation part = whole;
    if (pieces.size() > 1) part.outputs = {part_of(whole.outputs[0], dim, pieces[p])};
    part.kernel = std::move(pieces[p].loops);
    OpId op = reader;
    if (p == 0) {
      graph_[part.outputs[0]].producer = op;
      graph_[op] = std::move(part);
    } else {
      op = graph_.add_op(std::move(part));
      added_.add_after(reader, op);
    }
    changed_.insert(op);
  }
  changed_.insert(writers.begin(), writers.end());
}

// Puts the changed operations into the schedule.
bool ForwardedLoops::finish() {
  if (changed_.empty()) return false;
  added_.place(schedule_);
  std::erase_if(schedule_.nodes, [&](const ScheduleNode& node) {
    return node.kind == ScheduleNode::Kind::single && gone_.contains(node.op);
  });
  return true;
}

bool forward_loops(Schedule& schedule, const std::function<void(ForwardedLoops&)>& sweep) {
  bool changed = false;
  for (;;) {
    ForwardedLoops loops(schedule);
    sweep(loops);
    if (!loops.finish()) break;
    changed = true;
  }
  if (!changed) return false;
  schedule.plan.reset();
  compact(schedule);
  return true;
}

}  // namespace braid::passes
