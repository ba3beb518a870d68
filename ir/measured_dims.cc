#include "ir/measured_dims.h"

#include <algorithm>

#include "ir/kernel_parts.h"

namespace braid::ir {
namespace {

class Expressions {
 public:
  Expressions(const Graph& graph, const std::function<void(Expr)>& visit) : graph_(graph), visit_(visit) {}

  void of(OpId id) {
    const Operation& op = graph_[id];
    for (BufferId b : op.outputs) layout(b);
    for_each_operand(op.kernel, [&](const TensorRef& ref, bool) { view(ref); });
    for_each_body(op.kernel, [&](const LoopBody& body, const std::vector<Expr>& sizes) {
      all(sizes);
      for (const Instr& instr : body.instrs) {
        visit_(instr.index);
        if (instr.code == OpCode::load) layout(instr.buffer);
      }
    });
    std::visit([&](const auto& kernel) { attributes(kernel); }, op.kernel);
    if (const auto* loops = op.as<Loops>()) visit_(loops->store_index);
    if (const auto* region = op.as<RegionKernel>()) {
      visit_(region->trips);
      for (BufferId b : region->operands) layout(b);
      for (const Region& r : region->regions) {
        for (OpId inner : r.ops) of(inner);
        for (BufferId b : r.yields) layout(b);
      }
    }
  }

 private:
  void all(const std::vector<Expr>& exprs) {
    for (const Expr& e : exprs) visit_(e);
  }
  void view(const TensorRef& ref) {
    visit_(ref.offset);
    all(ref.sizes);
    all(ref.strides);
    layout(ref.buffer);
  }
  // Finding the elements of a buffer evaluates these.
  void layout(BufferId id) {
    if (!id.valid()) return;
    all(graph_[id].sizes);
    all(strides_of(graph_, id));
    visit_(region(graph_, id).offset);
  }
  template <class K>
  void attributes(const K& kernel) {
    for_each_field(kernel, [&](auto, const auto& member) {
      using Member = std::remove_cvref_t<decltype(member)>;
      if constexpr (std::is_same_v<Member, Expr>) visit_(member);
      if constexpr (std::is_same_v<Member, std::optional<Expr>>) {
        if (member) visit_(*member);
      }
      if constexpr (std::is_same_v<Member, std::vector<Window>>) {
        for (const Window& window : member) visit_(window.pad);
      }
    });
  }

  const Graph& graph_;
  const std::function<void(Expr)>& visit_;
};

bool mentions(Expr e, Expr dim) { return !e.is_constant() && contains(e, dim); }

Expr dim_of(const Graph& graph, OpId measure) { return graph[measure].as<Measure>()->dim; }

}  // namespace

std::optional<OpId> measured_by(const Graph& graph, Expr dim) {
  for (const OpId measure : graph.measures) {
    if (dim_of(graph, measure) == dim) return measure;
  }
  return std::nullopt;
}

bool is_measured(const Graph& graph, Expr e) {
  return std::ranges::any_of(graph.measures, [&](OpId m) { return mentions(e, dim_of(graph, m)); });
}

void for_each_expr(const Graph& graph, OpId op, const std::function<void(Expr)>& visit) {
  Expressions(graph, visit).of(op);
}

std::vector<OpId> measures_before(const Graph& graph, OpId op) {
  std::vector<OpId> found;
  if (graph.measures.empty()) return found;
  std::vector<bool> mentioned(graph.measures.size(), false);
  for_each_expr(graph, op, [&](Expr e) {
    for (std::size_t k = 0; k < mentioned.size(); ++k)
      mentioned[k] = mentioned[k] || mentions(e, dim_of(graph, graph.measures[k]));
  });
  for (std::size_t k = 0; k < mentioned.size(); ++k) {
    if (mentioned[k] && graph.measures[k] != op) found.push_back(graph.measures[k]);
  }
  return found;
}

std::vector<std::size_t> guards_of_inputs(const Graph& graph) {
  std::vector<std::size_t> found;
  for (std::size_t k = 0; k < graph.guards.size(); ++k) {
    const Guard& guard = graph.guards[k];
    if (!is_measured(graph, guard.lhs) && !is_measured(graph, guard.rhs)) found.push_back(k);
  }
  return found;
}

std::vector<std::size_t> guards_after(const Graph& graph, std::span<const OpId> order, OpId measure) {
  std::vector<std::size_t> found;
  for (std::size_t k = 0; k < graph.guards.size(); ++k) {
    const Guard& guard = graph.guards[k];
    OpId last;
    for (const OpId op : order) {
      const auto* m = graph[op].as<Measure>();
      if (m != nullptr && (mentions(guard.lhs, m->dim) || mentions(guard.rhs, m->dim))) last = op;
    }
    if (last.valid() && last == measure) found.push_back(k);
  }
  return found;
}

}  // namespace braid::ir
