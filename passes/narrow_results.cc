#include "passes/narrow_results.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "ir/kernel_parts.h"
#include "passes/row_slices.h"

namespace braid::passes {
namespace {

using namespace ir;

class Narrower {
 public:
  explicit Narrower(Schedule& schedule) : schedule_(schedule), graph_(schedule.graph), users_(schedule) {}

  bool run() {
    bool changed = false;
    for (const ScheduleNode& node : schedule_.nodes) {
      if (node.kind == ScheduleNode::Kind::single) changed |= narrow(node.op);
    }
    if (changed) schedule_.plan.reset();
    return changed;
  }

 private:
  bool narrow(OpId id) {
    Product* product = as_product(graph_[id].kernel);
    if (product == nullptr || product->epilogue) return false;
    const DType type = graph_[product->a.buffer].dtype;
    const BufferId result = product->out.buffer;
    if ((type != DType::f16 && type != DType::bf16) || graph_[result].dtype != DType::f32 ||
        !has_rows(product->out, type))
      return false;
    const std::optional<std::vector<OpId>> readers = users_.readers(result, id);
    if (!readers || readers->empty()) return false;
    memory_ = root_storage(graph_, result);
    const bool all = std::all_of(readers->begin(), readers->end(), [&](OpId op) {
      const auto* loops = graph_[op].as<Loops>();
      return loops != nullptr && only_casts(loops->body, type);
    });
    if (!all) return false;
    for (OpId op : *readers) {
      LoopBody& body = graph_[op].as<Loops>()->body;
      body = without_casts(body, type);
    }
    for (BufferId b : users_.names(memory_)) graph_[b].dtype = type;
    Storage& storage = graph_[memory_];
    storage.bytes = *divide_exactly(storage.bytes, size_of(DType::f32) / size_of(type));
    graph_[id].cost.reset();
    return true;
  }

  bool has_rows(const TensorRef& out, DType type) const {
    const Expr columns = out.sizes.back();
    const StorageId memory = root_storage(graph_, out.buffer);
    if (!memory.valid()) return false;
    const Expr bytes = graph_[memory].bytes;
    return columns.is_constant() && columns.constant() * size_of(type) % kRowUnit == 0 &&
           divide_exactly(bytes, size_of(DType::f32) / size_of(type)).has_value();
  }

  bool reads(const Instr& instr) const {
    return instr.code == OpCode::load && root_storage(graph_, instr.buffer) == memory_;
  }

  bool only_casts(const LoopBody& body, DType type) const {
    if (reads(body[body.result])) return false;
    return std::all_of(body.instrs.begin(), body.instrs.end(), [&](const Instr& instr) {
      const bool casts = instr.code == OpCode::cast && instr.dtype == type;
      bool found = false;
      for (ValueId v : instr.operands) found |= reads(body[v]);
      return !found || casts;
    });
  }

  // Replaces casts of loads by the loads themselves.
  LoopBody without_casts(LoopBody body, DType type) const {
    for (Instr& instr : body.instrs) {
      if (reads(instr)) instr.dtype = type;
    }
    const auto loaded = [&](ValueId v) {
      const Instr& instr = body[v];
      return instr.code == OpCode::cast && reads(body[instr.operands[0]]) ? instr.operands[0] : v;
    };
    for (Instr& instr : body.instrs) {
      if (instr.code == OpCode::cast && reads(body[instr.operands[0]])) continue;
      for (ValueId& v : instr.operands) v = loaded(v);
    }
    body.result = loaded(body.result);
    return without_dead_code(body, *graph_.pool);
  }

  Schedule& schedule_;
  Graph& graph_;
  const RowSlices users_;
  StorageId memory_;
};

}  // namespace

bool NarrowResults::run(Schedule& schedule) const { return Narrower(schedule).run(); }

}  // namespace braid::passes
