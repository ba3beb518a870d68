#include "passes/forward_copies.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "passes/forwarded_loops.h"

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

class CopyForwarder {
 public:
  CopyForwarder(Schedule& schedule, ForwardedLoops& loops, std::int64_t max_parts)
      : schedule_(schedule), graph_(schedule.graph), loops_(loops), max_parts_(max_parts) {}

  void sweep() {
    for (std::size_t n = 0; n < schedule_.nodes.size(); ++n) {
      if (schedule_.nodes[n].kind == ScheduleNode::Kind::single) forward(schedule_.nodes[n].op, n);
    }
  }

 private:
  using Touch = ForwardedLoops::Touch;
  using Piece = ForwardedLoops::Piece;

  const Schedule& schedule_;
  Graph& graph_;
  ForwardedLoops& loops_;
  std::int64_t max_parts_;

  // The copy that wrote what `op` reads, if the two can be merged.
  std::optional<OpId> source_copy(OpId op, std::size_t node) const {
    const StorageId between = root_storage(graph_, graph_[op].as<Loops>()->body.instrs[0].buffer);
    if (!between.valid() || graph_[between].kind != StorageKind::activation || loops_.is_kept(between))
      return std::nullopt;
    const std::vector<Touch>& all = loops_.touches(between);
    if (all.size() != 2 || !all[0].writes || all[1].writes || !loops_.is_pointwise(all[0]) ||
        !loops_.is_pointwise(all[1]) || !only_moves(graph_, all[0].op))
      return std::nullopt;
    const StorageId memory = root_storage(graph_, graph_[all[0].op].as<Loops>()->body.instrs[0].buffer);
    if (!memory.valid() || memory == root_storage(graph_, graph_[op].outputs[0]) ||
        loops_.is_written_between(memory, all[0].node, node))
      return std::nullopt;
    return all[0].op;
  }

  // Returns the index into the copy's source for element `e` of its result, with e over a loop of these
  // sizes. Returns nullopt if the copy has no elements or the index is not linear.
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

  // Returns the second copy as loops that read the first one's source: a single loop, or pieces of one that
  // is cut in `dim`.
  std::vector<Piece> pieces_of(const Loops& copy, const Loops& second, Expr e, std::size_t& dim) const {
    const auto reading = [&](std::vector<Expr> sizes, Expr index) {
      Loops loops = second;
      loops.sizes = std::move(sizes);
      loops.body = copy.body;
      loops.body.instrs[0].index = index;
      return loops;
    };
    if (const auto whole = index_in_source(copy, e, second.sizes))
      return {{0, reading(second.sizes, *whole)}};
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
        std::vector<Piece> pieces;
        for (std::int64_t first = 0; first < extent; first += length) {
          std::vector<Expr> sizes = second.sizes;
          sizes[d] = std::min(length, extent - first);
          const auto moved = index_in_source(copy, e + *step * first, sizes);
          if (!moved) break;
          pieces.push_back({first, reading(std::move(sizes), *moved)});
        }
        dim = d;
        if (std::ssize(pieces) * length >= extent) return pieces;
      }
    }
    return {};
  }

  void forward(OpId op, std::size_t node) {
    if (!only_moves(graph_, op)) return;
    const std::optional<OpId> first = source_copy(op, node);
    if (!first) return;
    const Loops &copy = *graph_[*first].as<Loops>(), &second = *graph_[op].as<Loops>();
    const BufferId between = graph_[*first].outputs[0], out = graph_[op].outputs[0];
    const Instr& read = second.body.instrs[0];
    if (graph_[read.buffer].dtype != graph_[between].dtype) return;
    // The first copy writes the elements of its buffer in order.
    if (!loops_.stores_in_order(copy, contiguous_strides(copy.sizes))) return;
    const std::int64_t item = size_of(graph_[between].dtype);
    const auto shift =
        divide_exactly(region(graph_, read.buffer).offset - region(graph_, between).offset, item);
    if (!shift) return;
    std::size_t dim = 0;
    std::vector<Piece> pieces = pieces_of(copy, second, simplify(read.index + *shift, second.sizes), dim);
    if (pieces.empty()) return;
    if (pieces.size() > 1 && (!graph_[out].storage.valid() || !loops_.stores_in_order(op))) return;
    loops_.replace(op, {*first}, std::move(pieces), dim);
    loops_.remove(*first);
  }
};

}  // namespace

bool ForwardCopies::run(Schedule& schedule) {
  return forward_loops(schedule,
                       [&](ForwardedLoops& loops) { CopyForwarder(schedule, loops, max_parts).sweep(); });
}

}  // namespace braid::passes
