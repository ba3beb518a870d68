#include "codegen/index_limits.h"

#include <unordered_map>

#include "ir/coordinate.h"
#include "ir/kernel_parts.h"
#include "ir/scalar.h"

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
      if (const int input = copied_input(body, instr.operands[0]); input >= 0)
        limit(input, instr.index);
      else
        limit_of_parts(body, instr);
    }
  }

  void limit(int input, ir::Expr below) {
    if (input < 0) return;
    std::optional<ir::Expr>& known = limits_[static_cast<std::size_t>(input)];
    if (!known || ir::bounds(below).min < ir::bounds(*known).min) known = below;
  }

  // Handles a look-up in a rank's rows of a table. An index that is in range but in another rank's rows
  // becomes one of the rank's own; any other index stays as it is. So the limit is the first index that is
  // out of range, and it is the same on all ranks: the first rank is evaluated.
  void limit_of_parts(const ir::LoopBody& body, const Instr& check) {
    const std::optional<ir::ValueId> load = chosen_load(body, check.operands[0]);
    if (!load || !check.index.is_constant()) return;
    const auto in_range = [&](std::int64_t element) {
      const std::optional<ir::Scalar> own = value_of(body, check.operands[0], *load, element);
      return own && own->i >= 0 && own->i < check.index.constant();
    };
    constexpr std::int64_t kMost = std::int64_t{1} << 40;
    std::int64_t in = 0, out = 1;
    if (!in_range(in)) return;
    for (; in_range(out); out *= 2) {
      if (out > kMost) return;
      in = out;
    }
    while (out - in > 1) {
      const std::int64_t middle = in + (out - in) / 2;
      (in_range(middle) ? in : out) = middle;
    }
    limit(loaded_input(body[*load].buffer), out);
  }

  // The element of an input that a value is in some case.
  std::optional<ir::ValueId> chosen_load(const ir::LoopBody& body, ir::ValueId value) const {
    const Instr& instr = body[value];
    switch (instr.code) {
      case OpCode::load:
        return loaded_input(instr.buffer) >= 0 && !ir::is_float(instr.dtype) ? std::optional(value)
                                                                             : std::nullopt;
      case OpCode::cast:
        return chosen_load(body, instr.operands[0]);
      case OpCode::where: {
        const auto first = chosen_load(body, instr.operands[1]);
        return first ? first : chosen_load(body, instr.operands[2]);
      }
      default:
        return std::nullopt;
    }
  }

  // Returns the value on the first rank, if it follows from this element alone.
  std::optional<ir::Scalar> value_of(const ir::LoopBody& body, ir::ValueId value, ir::ValueId load,
                                     std::int64_t element) const {
    std::vector<std::optional<ir::Scalar>> known(static_cast<std::size_t>(value.index) + 1);
    for (std::size_t k = 0; k < known.size(); ++k) {
      const Instr& instr = body.instrs[k];
      std::vector<ir::Scalar> operands;
      for (const ir::ValueId v : instr.operands) {
        if (const auto& own = known[static_cast<std::size_t>(v.index)]) operands.push_back(*own);
      }
      if (operands.size() < instr.operands.size()) continue;
      operands.resize(3);
      switch (instr.code) {
        case OpCode::load:
          if (static_cast<int>(k) == load.index) known[k] = ir::Scalar{0, element};
          break;
        case OpCode::constant:
          known[k] = ir::to_scalar(instr.literal);
          break;
        case OpCode::index: {
          const ir::Expr own = ir::substitute(instr.index, [](ir::Expr s) {
            return ir::is_coordinate(s) ? std::optional(ir::Expr(0)) : std::nullopt;
          });
          if (own.is_constant()) known[k] = ir::Scalar{0, own.constant()};
          break;
        }
        case OpCode::check_index:
          known[k] = operands[0];
          break;
        case OpCode::cast:
          known[k] = ir::cast(body.operand_dtype(instr), instr.dtype, operands[0]);
          break;
        case OpCode::acc:
        case OpCode::bitcast:
        case OpCode::div:  // by zero, perhaps
        case OpCode::mod:
        case OpCode::fmod:
          break;
        default:
          known[k] = ir::apply(instr.code, body.operand_dtype(instr), operands[0], operands[1], operands[2]);
      }
    }
    return known.back();
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
