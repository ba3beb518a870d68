#include "driver/plain_program.h"

#include <optional>
#include <utility>

#include "analysis/costs/roofline.h"
#include "ir/effects.h"
#include "ir/id_vector.h"
#include "passes/dead_code.h"
#include "passes/forward_copies.h"
#include "passes/forward_parts.h"

namespace braid {

std::map<std::string, double> attention_flops(const ir::Schedule& plain, const analysis::CostModel& costs) {
  std::map<std::string, double> flops;
  const auto size = [&](const ir::Expr& e) { return costs.value(e); };
  for (const ir::Operation& op : plain.graph.ops) {
    if (op.as<ir::Attention>() == nullptr) continue;
    const auto work = analysis::kernel_work(plain.graph, op, size, [](ir::BufferId) { return false; });
    for (const std::string& node : op.origins)
      flops[node] += work.flops / static_cast<double>(op.origins.size());
  }
  return flops;
}

namespace {

// Looks for the loops of product_joins().
class JoinFinder {
 public:
  explicit JoinFinder(const ir::Graph& graph) : graph_(graph), writers_(graph.storages.size()) {
    for (const ir::OpId op : ir::first_ids<ir::OpId>(ir::count_of(graph.ops))) {
      for (const ir::Access& a : ir::effects(graph, op).accesses)
        if (a.writes()) writers_[a.region.storage].push_back(op);
    }
    known_.assign(graph.storages.size(), 0);
  }

  std::vector<split::ProductJoin> run() {
    std::vector<split::ProductJoin> joins;
    for (const ir::Operation& op : graph_.ops) {
      const auto* loops = op.as<ir::Loops>();
      if (loops == nullptr || loops->is_reduction()) continue;
      if (const ir::Operation* product = joined_by(*loops))
        joins.push_back({product->origins[0], op.origins});
    }
    return joins;
  }

 private:
  // Whether the storage is given, or made by loops from given ones.
  bool is_given(ir::StorageId s) {
    if (!s.valid()) return false;
    if (known_[s] != 0) return known_[s] == 1;
    known_[s] = 2;
    for (const ir::OpId op : writers_[s]) {
      const auto* loops = graph_[op].as<ir::Loops>();
      if (loops == nullptr) return false;
      for (const ir::Instr& instr : loops->body.instrs)
        if (instr.code == ir::OpCode::load && !is_given(ir::root_storage(graph_, instr.buffer))) return false;
    }
    known_[s] = 1;
    return true;
  }

  const ir::Operation* product_of(ir::StorageId s) const {
    if (!s.valid() || writers_[s].size() != 1) return nullptr;
    const ir::Operation& op = graph_[writers_[s][0]];
    return op.as<ir::Gemm>() != nullptr && op.origins.size() == 1 ? &op : nullptr;
  }

  const ir::Operation* joined_by(const ir::Loops& loops) {
    const ir::Operation* product = nullptr;
    std::optional<ir::Expr> first;  // where it reads the product's result, in bytes
    bool several = false;
    for (const ir::Instr& instr : loops.body.instrs) {
      if (instr.code != ir::OpCode::load) continue;
      const ir::StorageId s = ir::root_storage(graph_, instr.buffer);
      if (is_given(s)) continue;
      const ir::Operation* own = product_of(s);
      if (own == nullptr || (product != nullptr && product != own)) return nullptr;
      product = own;
      const ir::Expr at = ir::simplify(
          ir::region(graph_, instr.buffer).offset + instr.index * ir::size_of(graph_[instr.buffer].dtype),
          loops.sizes);
      if (!first) {
        first = at;
        continue;
      }
      const ir::Expr apart = ir::simplify(at - *first, loops.sizes);
      several = several || (apart.is_constant() && !apart.is_constant(0));
    }
    return several ? product : nullptr;
  }

  const ir::Graph& graph_;
  ir::IdVector<ir::StorageId, std::vector<ir::OpId>> writers_;
  ir::IdVector<ir::StorageId, char> known_;  // 1: given, 2: not, or not yet
};

}  // namespace

std::vector<split::ProductJoin> product_joins(ir::Schedule plain) {
  // Without these passes a concatenation lies between the product and the loop.
  passes::DeadCode{}.run(plain);
  passes::ForwardCopies{}.run(plain);
  passes::ForwardParts{}.run(plain);
  return JoinFinder(plain.graph).run();
}

}  // namespace braid
