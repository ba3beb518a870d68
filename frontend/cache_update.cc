#include "frontend/cache_update.h"

#include <algorithm>

#include "ir/coordinate.h"
#include "ir/strided_view.h"

namespace braid::frontend {
namespace {

using ir::DType;
using ir::Expr;
using ir::Graph;
using ir::Instr;
using ir::LoopBody;
using ir::OpCode;
using ir::SymbolKind;

struct Update {
  std::size_t axis = 0;
  Expr count = 0;         // new rows
  ir::ValueId condition;  // that a position has a new row
  ir::ValueId distance;   // of a position from the first new one
  ir::ValueId first;      // the position of that one
  bool ring = false;
  bool grows = false;  // positions after the new rows, and those that the old cache does not have, are 0
  ir::BufferId old;    // the cache before
  ir::TensorRef rows;  // the new rows
};

class Match {
 public:
  Match(const Graph& graph, const ir::Loops& loops, ir::BufferId out)
      : graph_(graph), loops_(loops), body_(loops.body), out_(out) {}

  std::optional<Update> update() const {
    const Instr& result = body_[body_.result];
    if (loops_.is_reduction() || result.code != OpCode::where || !is_whole()) return std::nullopt;
    const Instr& old = body_[result.operands[2]];
    if (!is_old(old)) return std::nullopt;
    Update u;
    u.condition = result.operands[0];
    u.old = old.buffer;
    u.grows = !old.operands.empty();
    const Instr& condition = body_[u.condition];
    if (condition.code != OpCode::logical_and) return std::nullopt;
    for (const auto& [from, to] : {std::pair(0, 1), std::pair(1, 0)}) {
      const Instr &low = body_[condition.operands[static_cast<std::size_t>(from)]],
                  &high = body_[condition.operands[static_cast<std::size_t>(to)]];
      if (low.code != OpCode::ge || high.code != OpCode::lt || low.operands[0] != high.operands[0]) continue;
      const std::optional<Expr> zero = number(low.operands[1]), count = number(high.operands[1]);
      if (!zero || !zero->is_constant(0) || !count) continue;
      u.distance = low.operands[0];
      u.count = *count;
      if (read_distance(u) && (!u.grows || keeps_what_is_before(u, body_[old.operands[0]])) &&
          read_rows(u, body_[result.operands[1]]))
        return u;
    }
    return std::nullopt;
  }

 private:
  // One element of the result per point, in its order.
  bool is_whole() const {
    return loops_.sizes == graph_[out_].sizes &&
           loops_.store_index == ir::strided_index(*graph_.pool, loops_.sizes, ir::strides_of(graph_, out_));
  }

  // The element that the loop overwrites, read under a condition if the cache grows.
  bool is_old(const Instr& load) const {
    if (load.code != OpCode::load || load.index != loops_.store_index) return false;
    const ir::MemoryRegion a = region(graph_, load.buffer), b = region(graph_, out_);
    return a.storage == b.storage && a.offset == b.offset &&
           graph_[load.buffer].dtype == graph_[out_].dtype &&
           (!load.operands.empty() || graph_[load.buffer].sizes == graph_[out_].sizes);
  }

  // position < first && position < how many the old cache has
  bool keeps_what_is_before(const Update& u, const Instr& kept) const {
    if (u.ring || kept.code != OpCode::logical_and) return false;
    std::vector<Expr> other = graph_[out_].sizes, had = graph_[u.old].sizes;
    const Expr positions = had[u.axis];
    other.erase(other.begin() + static_cast<std::ptrdiff_t>(u.axis));
    had.erase(had.begin() + static_cast<std::ptrdiff_t>(u.axis));
    if (other != had) return false;
    bool before_first = false, in_old = false;
    for (const ir::ValueId operand : kept.operands) {
      const Instr& less = body_[operand];
      if (less.code != OpCode::lt) return false;
      const Instr& position = body_[less.operands[0]];
      if (position.code != OpCode::index || position.index != graph_.pool->index(u.axis)) return false;
      before_first |= less.operands[1] == u.first;
      in_old |= number(less.operands[1]) == positions;
    }
    return before_first && in_old;
  }

  // A value that is an expression over dimensions.
  std::optional<Expr> number(ir::ValueId v) const {
    const Instr& instr = body_[v];
    if (instr.code == OpCode::constant && std::holds_alternative<std::int64_t>(instr.literal))
      return Expr(std::get<std::int64_t>(instr.literal));
    if (instr.code != OpCode::index) return std::nullopt;
    return ir::of_dimensions(instr.index) ? std::optional(instr.index) : std::nullopt;
  }

  bool read_distance(Update& u) const {
    const Instr* distance = &body_[u.distance];
    std::optional<Expr> ring;
    if (distance->code == OpCode::mod) {
      ring = number(distance->operands[1]);
      if (!ring) return false;
      distance = &body_[distance->operands[0]];
    }
    if (distance->code != OpCode::sub || distance->dtype != DType::i64) return false;
    const Instr& position = body_[distance->operands[0]];
    if (position.code != OpCode::index || !position.index.is_symbol(SymbolKind::index)) return false;
    u.axis = static_cast<std::size_t>(position.index.symbol_number());
    u.first = distance->operands[1];
    u.ring = ring.has_value();
    if (u.axis == 0 || !depends_on_batch_only(u.first)) return false;
    const Expr size = loops_.sizes[u.axis];
    if (u.ring) return *ring == size;
    const Instr& first = body_[u.first];
    return first.code == OpCode::check_index && ir::provably_non_negative(size - u.count + 1 - first.index);
  }

  bool depends_on_batch_only(ir::ValueId v) const {
    const Instr& instr = body_[v];
    bool only = true;
    for_each_symbol(instr.index, [&](Expr s) {
      if (s.is_symbol(SymbolKind::index)) only &= s.symbol_number() == 0;
      if (s.is_symbol(SymbolKind::value))
        only &= depends_on_batch_only({static_cast<std::int32_t>(s.symbol_number())});
    });
    return only && std::all_of(instr.operands.begin(), instr.operands.end(),
                               [&](ir::ValueId operand) { return depends_on_batch_only(operand); });
  }

  // The new rows are a buffer's elements, with the distance as index.
  bool read_rows(Update& u, const Instr& load) const {
    if (load.code != OpCode::load || load.operands.size() != 1 || load.operands[0] != u.condition ||
        graph_[load.buffer].dtype != graph_[out_].dtype)
      return false;
    const Expr row = graph_.pool->index(u.axis);
    bool plain = true;
    Expr at = substitute(load.index, [&](Expr s) -> std::optional<Expr> {
      if (s.is_symbol(SymbolKind::index)) plain &= s != row;
      if (!s.is_symbol(SymbolKind::value)) return std::nullopt;
      plain &= s.symbol_number() == u.distance.index;
      return row;
    });
    if (!plain) return false;
    u.rows = {load.buffer, 0, loops_.sizes, {}};
    u.rows.sizes[u.axis] = u.count;
    for (std::size_t k = 0; k < loops_.sizes.size(); ++k) {
      const Expr index = graph_.pool->index(k);
      const std::optional<Expr> stride = ir::stride_of(at, index);
      if (!stride || !ir::of_dimensions(*stride) || !ir::provably_non_negative(*stride)) return false;
      u.rows.strides.push_back(*stride);
      at = at - *stride * index;
    }
    u.rows.offset = at;
    return ir::of_dimensions(at);
  }

  const Graph& graph_;
  const ir::Loops& loops_;
  const LoopBody& body_;
  ir::BufferId out_;
};

}  // namespace

std::optional<ir::OpId> write_rows_only(Graph& graph, ir::OpId id) {
  const ir::Loops* loops = graph[id].as<ir::Loops>();
  if (loops == nullptr) return std::nullopt;
  const std::optional<Update> u = Match(graph, *loops, graph[id].outputs[0]).update();
  if (!u) return std::nullopt;
  ir::Loops first;
  first.sizes = {loops->sizes[0]};
  first.body = ir::without_dead_code(LoopBody{loops->body.instrs, u->first}, *graph.pool);
  if (!first.sizes[0].is_constant(1)) first.store_index = graph.pool->index(0);
  const std::string name = graph[id].name + ".first";
  const std::vector<std::string> origins = graph[id].origins;
  const ir::BufferId position = graph.add_owned(name, DType::i64, first.sizes);
  const ir::OpId before = graph.add_op({name, std::move(first), {position}, origins, std::nullopt});
  ir::ExternKernel kernel;
  kernel.callee = "write_rows";
  kernel.reads = {whole(graph, u->old), u->rows, whole(graph, position)};
  kernel.writes = {whole(graph, graph[id].outputs[0])};
  kernel.attributes = {{"axis", static_cast<std::int64_t>(u->axis)}, {"ring", std::int64_t{u->ring ? 1 : 0}}};
  if (u->grows) kernel.attributes["grows"] = std::int64_t{1};
  graph[id].kernel = std::move(kernel);
  return before;
}

}  // namespace braid::frontend
