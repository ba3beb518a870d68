#include "codegen/index_limits.h"

#include <unordered_map>

#include "ir/kernel_parts.h"

namespace braid::codegen {
namespace {

using ir::Instr;
using ir::OpCode;

class IndexLimits {
 public:
  explicit IndexLimits(const ir::Schedule& schedule)
      : schedule_(schedule), graph_(schedule.graph), limits_(graph_.inputs.size()) {
    for (std::size_t k = 0; k < graph_.inputs.size(); ++k)
      input_of_[ir::root_storage(graph_, graph_.inputs[k].buffer).index] = static_cast<int>(k);
  }

  std::vector<std::optional<ir::Expr>> run() {
    // In execution order, so that one pass follows copies of copies.
    for (const ir::OpId id : ir::execution_order(schedule_)) {
      const ir::Operation& op = graph_[id];
      ir::for_each_body(op.kernel, [&](const ir::LoopBody& body, const auto&) { visit(body); });
      if (const auto* r = op.as<ir::Recurrence>(); r != nullptr && r->lengths)
        limit(loaded_input(r->lengths->buffer), r->gates.sizes[0] + 1);
      const auto* loops = op.as<ir::Loops>();
      if (loops == nullptr || loops->is_reduction() || op.outputs.size() != 1) continue;
      if (const int input = copied_input(loops->body, loops->body.result); input >= 0)
        input_of_.emplace(ir::root_storage(graph_, op.outputs[0]).index, input);
    }
    return std::move(limits_);
  }

 private:
  void visit(const ir::LoopBody& body) {
    for (const Instr& instr : body.instrs) {
      if (instr.code != OpCode::check_index) continue;
      limit(copied_input(body, instr.operands[0]), instr.index);
    }
  }

  void limit(int input, ir::Expr below) {
    if (input < 0) return;
    std::optional<ir::Expr>& known = limits_[static_cast<std::size_t>(input)];
    if (!known || ir::bounds(below).min < ir::bounds(*known).min) known = below;
  }

  int loaded_input(ir::BufferId buffer) const {
    const auto found = input_of_.find(ir::root_storage(graph_, buffer).index);
    return found == input_of_.end() ? -1 : found->second;
  }

  // The input to whose elements a value is equal if it is not negative; -1: none.
  int copied_input(const ir::LoopBody& body, ir::ValueId value) const {
    const Instr& instr = body[value];
    switch (instr.code) {
      case OpCode::load:
        return loaded_input(instr.buffer);
      case OpCode::cast:
      case OpCode::check_index:
        return copied_input(body, instr.operands[0]);
      case OpCode::where:  // x < 0 ? x + size : x
        return is_negative(body, instr.operands[0], instr.operands[2]) ? copied_input(body, instr.operands[2])
                                                                       : -1;
      default:
        return -1;
    }
  }

  static bool is_negative(const ir::LoopBody& body, ir::ValueId condition, ir::ValueId value) {
    const Instr& less = body[condition];
    if (less.code != OpCode::lt || less.operands[0] != value) return false;
    const Instr& zero = body[less.operands[1]];
    return zero.code == OpCode::constant && zero.literal == ir::Literal{std::int64_t{0}};
  }

  const ir::Schedule& schedule_;
  const ir::Graph& graph_;
  std::unordered_map<int, int>
      input_of_;  // root storage that holds copies of an input's elements -> the input
  std::vector<std::optional<ir::Expr>> limits_;
};

}  // namespace

std::vector<std::optional<ir::Expr>> index_limits(const ir::Schedule& schedule) {
  return IndexLimits(schedule).run();
}

}  // namespace braid::codegen
