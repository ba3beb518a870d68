#include "passes/hoist_invariants.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "ir/id_vector.h"
#include "ir/op_table.h"

namespace braid::passes {
namespace {

using namespace ir;

class Hoister {
 public:
  Hoister(Graph& graph, OpId id, std::int64_t min_flops) : graph_(graph), id_(id), min_flops_(min_flops) {}

  // Returns new loops to put before this one, which now reads their results.
  std::vector<OpId> run() {
    std::vector<OpId> before;
    while (const std::optional<ValueId> value = next()) before.push_back(hoist(*value));
    return before;
  }

 private:
  const Loops& loops() const { return *graph_[id_].as<Loops>(); }

  // The dimensions on which each value depends, without those of one element.
  IdVector<ValueId, std::set<std::size_t>> dependences() const {
    const LoopBody& body = loops().body;
    IdVector<ValueId, std::set<std::size_t>> out(body.instrs.size());
    for (const ValueId v : out.ids()) {
      const Instr& instr = body[v];
      for (ValueId o : instr.operands) out[v].insert(out[o].begin(), out[o].end());
      for_each_symbol(instr.index, [&](Expr s) {
        if (s.is_symbol(SymbolKind::index)) {
          const auto d = static_cast<std::size_t>(s.symbol_number());
          if (!loops().sizes[d].is_constant(1)) out[v].insert(d);
        } else if (s.is_symbol(SymbolKind::value)) {
          const std::set<std::size_t> of = out[ValueId{s.symbol_number()}];
          out[v].insert(of.begin(), of.end());
        }
      });
    }
    return out;
  }

  // Whether a value that depends on `dims` is computed again at every point of an outer dimension on which it
  // does not depend. If any other dimension may be empty, the value may never be computed, and its inputs
  // need not exist: then the answer is no.
  bool repeated(const std::set<std::size_t>& dims) const {
    if (dims.empty()) return false;
    for (std::size_t d = 0; d < loops().sizes.size(); ++d) {
      if (!dims.contains(d) && bounds(loops().sizes[d]).min < 1) return false;
    }
    for (std::size_t d = 0; d < *dims.rbegin(); ++d) {
      if (!dims.contains(d) && !loops().sizes[d].is_constant(1)) return true;
    }
    return false;
  }

  // Returns the values from which `value` is computed, itself included.
  std::set<ValueId> sources(ValueId value) const {
    std::set<ValueId> found;
    std::vector<ValueId> open = {value};
    while (!open.empty()) {
      const ValueId v = open.back();
      open.pop_back();
      if (!found.insert(v).second) continue;
      const Instr& instr = loops().body[v];
      for (ValueId o : instr.operands) open.push_back(o);
      for_each_symbol(instr.index, [&](Expr s) {
        if (s.is_symbol(SymbolKind::value)) open.push_back(ValueId{s.symbol_number()});
      });
    }
    return found;
  }

  bool worth(ValueId value) const {
    std::int64_t flops = 0;
    for (ValueId v : sources(value)) {
      const OpCode code = loops().body[v].code;
      if (code == OpCode::check_index) return false;  // its error names this operation
      flops += row_of(code).flops;
    }
    return flops >= min_flops_;
  }

  // The last such value: what it is computed from goes with it.
  std::optional<ValueId> next() const {
    const auto depends = dependences();
    std::optional<ValueId> found;
    for (const ValueId v : depends.ids()) {
      const OpCode code = loops().body[v].code;
      if (code == OpCode::load || !repeated(depends[v]) || !worth(v)) continue;
      found = v;
    }
    return found;
  }

  OpId hoist(ValueId value) {
    const std::set<std::size_t> dims = dependences()[value];
    Loops first;
    std::vector<Expr> replacements(loops().sizes.size(), 0);
    std::vector<Expr> at;  // in this loop
    for (std::size_t d : dims) {
      replacements[d] = graph_.pool->index(first.sizes.size());
      first.sizes.push_back(loops().sizes[d]);
      at.push_back(graph_.pool->index(d));
    }
    const DType dtype = loops().body[value].dtype;
    first.body = without_dead_code({loops().body.instrs, value}, *graph_.pool);
    first.body = substitute(first.body, [&](Expr s) -> std::optional<Expr> {
      if (!s.is_symbol(SymbolKind::index)) return std::nullopt;
      return replacements[static_cast<std::size_t>(s.symbol_number())];
    });
    const std::vector<Expr> strides = contiguous_strides(first.sizes);
    Expr element = 0;
    for (std::size_t k = 0; k < first.sizes.size(); ++k) {
      first.store_index = first.store_index + graph_.pool->index(k) * strides[k];
      element = element + at[k] * strides[k];
    }
    const std::string name = graph_[id_].name + ".invariant";
    const BufferId buffer = graph_.add_owned(name, dtype, first.sizes);
    LoopBody& body = graph_[id_].as<Loops>()->body;
    body.instrs[static_cast<std::size_t>(value.index)] = {
        .code = OpCode::load, .dtype = dtype, .operands = {}, .buffer = buffer, .index = element};
    body = without_dead_code(body, *graph_.pool);
    return graph_.add_op({name, std::move(first), {buffer}, graph_[id_].origins, std::nullopt});
  }

  Graph& graph_;
  OpId id_;
  std::int64_t min_flops_;
};

}  // namespace

bool HoistInvariants::run(ir::Schedule& schedule) {
  std::vector<ScheduleNode> nodes;
  for (ScheduleNode& node : schedule.nodes) {
    if (node.kind == ScheduleNode::Kind::single) {
      const auto* loops = schedule.graph[node.op].as<Loops>();
      if (loops != nullptr && !loops->is_reduction()) {
        for (OpId op : Hoister(schedule.graph, node.op, min_flops).run())
          nodes.push_back(ScheduleNode::single(op));
      }
    }
    nodes.push_back(std::move(node));
  }
  const bool changed = nodes.size() != schedule.nodes.size();
  schedule.nodes = std::move(nodes);
  if (changed) schedule.plan.reset();
  return changed;
}

}  // namespace braid::passes
