#include "passes/byte_tables.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "ir/element.h"
#include "ir/id_vector.h"
#include "ir/kernel_parts.h"
#include "ir/scalar.h"
#include "passes/quantised_operand.h"

namespace braid::passes {
namespace {

using namespace ir;

constexpr std::int64_t kBytes = 256;
constexpr int kLookUpFlops = 20;  // a function of so many costs more than the load

std::int64_t lowest(DType byte) { return byte == DType::i8 ? -128 : 0; }

// The type of the table's elements; nullopt if such results stay.
std::optional<DType> stored_type(DType result) {
  if (result == DType::f32 || result == DType::i32) return result;
  if (is_float(result) || size_of(result) > 2) return std::nullopt;
  return DType::i32;
}

// The arguments of a value besides literals: none, one byte of the body, or more.
struct Argument {
  enum class Kind { none, byte, more } kind = Kind::none;
  ValueId byte;

  friend bool operator==(const Argument&, const Argument&) = default;
};

Argument both(const Argument& a, const Argument& b) {
  if (a.kind == Argument::Kind::none || a == b) return b;
  return b.kind == Argument::Kind::none ? a : Argument{Argument::Kind::more, {}};
}

// The functions of one byte in a body.
class ByteFunctions {
 public:
  explicit ByteFunctions(const LoopBody& body)
      : body_(body), of_(body.instrs.size()), seen_(of_.size()), chosen_(of_.size()) {
    for (std::size_t k = 0; k < of_.size(); ++k) classify(k);
    choose(body.result, {Argument::Kind::more, {}});
    for (std::size_t k = 0; k < of_.size(); ++k) {
      for (ValueId v : body.instrs[k].operands) choose(v, of_[k]);
    }
  }

  // The byte, if the value becomes a load from a table.
  std::optional<ValueId> argument(std::size_t k) const {
    return chosen_[k] ? std::optional(of_[k].byte) : std::nullopt;
  }
  bool any() const { return std::find(chosen_.begin(), chosen_.end(), true) != chosen_.end(); }

  // The value for all bytes, from the lowest on.
  ConstantData table(std::size_t k) const {
    const DType type = body_.instrs[k].dtype, stored = *stored_type(type), from = body_[of_[k].byte].dtype;
    std::vector<std::byte> bytes(static_cast<std::size_t>(kBytes * size_of(stored)));
    std::vector<Scalar> values(k + 1);
    for (std::int64_t b = 0; b < kBytes; ++b) {
      values[static_cast<std::size_t>(of_[k].byte.index)] = {0, b + lowest(from)};
      for (std::size_t i = 0; i <= k; ++i) {
        if (of_[i].kind == Argument::Kind::none || (of_[i] == of_[k])) values[i] = value(i, values);
      }
      write_element(stored, bytes.data() + b * size_of(stored),
                    to_literal(stored, cast(type, stored, values[k])));
    }
    return own_bytes(std::move(bytes));
  }

 private:
  void classify(std::size_t k) {
    const Instr& instr = body_.instrs[k];
    Argument& own = of_[k];
    bool known = true;  // without memory and indices, and for every byte
    switch (instr.code) {
      case OpCode::load:
      case OpCode::index:
      case OpCode::acc:
      case OpCode::check_index:
        known = false;
        break;
      case OpCode::div:
      case OpCode::mod:
      case OpCode::fmod:
        known = is_float(instr.dtype);
        break;
      default:
        break;
    }
    if (!known) own.kind = Argument::Kind::more;
    for (ValueId v : instr.operands) own = both(own, seen_[static_cast<std::size_t>(v.index)]);
    const bool starts = own.kind == Argument::Kind::more && is_byte(instr.dtype);
    seen_[k] = starts ? Argument{Argument::Kind::byte, {static_cast<std::int32_t>(k)}} : own;
  }

  // A value that something with another argument reads.
  void choose(ValueId v, const Argument& reader) {
    const auto k = static_cast<std::size_t>(v.index);
    if (of_[k].kind == Argument::Kind::byte && !(of_[k] == reader) && stored_type(body_[v].dtype))
      chosen_[k] = chosen_[k] || is_dear(k);
  }

  // Whether computing the value costs more than a load.
  bool is_dear(std::size_t result) const {
    std::vector<bool> needed(result + 1);
    needed[result] = true;
    int flops = 0;
    for (std::size_t k = result + 1; k-- > 0;) {
      if (!needed[k] || !(of_[k] == of_[result])) continue;
      const Instr& instr = body_.instrs[k];
      const OpRow& row = row_of(instr.code);
      if (row.repetition == Repetition::dear) return true;
      flops += row.flops;
      for (ValueId v : instr.operands) needed[static_cast<std::size_t>(v.index)] = true;
    }
    return flops >= kLookUpFlops;
  }

  Scalar value(std::size_t k, const std::vector<Scalar>& values) const {
    const Instr& instr = body_.instrs[k];
    const auto operand = [&](std::size_t o) {
      return o < instr.operands.size() ? values[static_cast<std::size_t>(instr.operands[o].index)] : Scalar{};
    };
    if (instr.code == OpCode::constant) return to_scalar(instr.literal);
    const DType from = body_.operand_dtype(instr);
    if (instr.code == OpCode::cast) return cast(from, instr.dtype, operand(0));
    if (instr.code == OpCode::bitcast) return bitcast(from, instr.dtype, operand(0));
    return apply(instr.code, from, operand(0), operand(1), operand(2));
  }

  const LoopBody& body_;
  std::vector<Argument> of_;    // of the value
  std::vector<Argument> seen_;  // of those that read it: a byte computed from more is an argument of its own
  std::vector<bool> chosen_;
};

class Tabulating {
 public:
  explicit Tabulating(Graph& graph) : graph_(graph) {}

  bool run(Operation& op) {
    if (op.as<Loops>() == nullptr && as_product(op.kernel) == nullptr) return false;
    bool changed = false;
    for_each_body(op.kernel,
                  [&](LoopBody& body, const auto&) { changed = rewrite(body, op.name) || changed; });
    if (!changed) return false;
    op.cost.reset();
    if (Product* product = as_product(op.kernel)) product->post_ops.clear();
    return true;
  }

 private:
  bool rewrite(LoopBody& body, const std::string& name) {
    const ByteFunctions functions(body);
    if (!functions.any()) return false;
    BodyBuilder builder(*graph_.pool);
    std::vector<ValueId> map;
    for (std::size_t k = 0; k < body.instrs.size(); ++k) {
      const Instr& instr = body.instrs[k];
      if (const std::optional<ValueId> byte = functions.argument(k)) {
        const BufferId table = constant(functions.table(k), *stored_type(instr.dtype), name);
        const Expr at =
            builder.as_index(map[static_cast<std::size_t>(byte->index)]) - lowest(body[*byte].dtype);
        map.push_back(builder.cast(builder.load(table, graph_[table].dtype, at), instr.dtype));
        continue;
      }
      map.push_back(builder.add(in_terms_of(instr, *graph_.pool, [&](ValueId v) { return ir::at(map, v); })));
    }
    body = builder.finish(map[static_cast<std::size_t>(body.result.index)]);
    return true;
  }

  BufferId constant(ConstantData data, DType type, const std::string& name) {
    const std::span<const std::byte> bytes = data.per_rank[0];
    for (const BufferId known : made_) {
      const std::span<const std::byte> other = graph_[graph_[known].storage].data.per_rank[0];
      if (graph_[known].dtype == type && std::equal(bytes.begin(), bytes.end(), other.begin())) return known;
    }
    made_.push_back(graph_.add_owned(name + ".table", type, {kBytes}, StorageKind::constant));
    graph_[graph_[made_.back()].storage].data = std::move(data);
    return made_.back();
  }

  Graph& graph_;
  std::vector<BufferId> made_;
};

}  // namespace

bool ByteTables::run(Schedule& schedule, PassContext& context) {
  if (!context.kernels.byte_tables) return false;
  Tabulating tables(schedule.graph);
  bool changed = false;
  for (const ScheduleNode& node : schedule.nodes) {
    for (const OpId op : ops_of(node)) changed = tables.run(schedule.graph[op]) || changed;
  }
  return changed;
}

}  // namespace braid::passes
