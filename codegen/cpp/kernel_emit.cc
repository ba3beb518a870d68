#include "codegen/cpp/kernel_emit.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "codegen/cpp/accumulator.h"
#include "codegen/cpp/cpp_text.h"
#include "codegen/cpp/instr_text.h"
#include "ir/error.h"

namespace braid::codegen::cpp {

using namespace ir;

namespace {

// An accumulator of a group's loops.
struct Reduced {
  std::string name;
  Accumulator how;
  int work = 0;  // simple operations of a term
};

class Emitter {
 public:
  Emitter(const Graph& graph, const LoopNest& nest, const Overlap& overlap)
      : graph_(graph), nest_(nest), overlap_(overlap) {}

  KernelText emit() {
    style_ = expr_style([this](Expr s) { return symbol(s); }, nest_.extents);
    collect_buffers();
    for (const NestGroup& group : nest_.groups) {
      if (group.transposed && is_copy(group)) {
        emit_transposition(group);
      } else {
        emit_group(group);
      }
    }
    assemble();
    return std::move(out_);
  }

 private:
  // ---- parameters

  struct Param {
    BufferId key;  // unmutated
    BufferId first;
    std::string name;
    DType dtype = DType::f32;
    bool written = false;
    bool read = false;
  };

  const LocalBuffer* local(BufferId b) const {
    for (const LocalBuffer& l : nest_.locals) {
      if (unmutated(graph_, l.buffer) == unmutated(graph_, b)) return &l;
    }
    return nullptr;
  }

  Param& param(BufferId b) {
    const BufferId key = unmutated(graph_, b);
    for (Param& p : params_) {
      if (p.key == key) return p;
    }
    params_.push_back({key, b, {}, graph_[b].dtype, false, false});
    return params_.back();
  }

  void collect_buffers() {
    for (const NestGroup& group : nest_.groups) {
      for (const NestMember& m : group.members) {
        if (!local(m.out)) param(m.out).written = true;
        for (const Instr& instr : m.body.instrs) {
          if (instr.code == OpCode::load && !local(instr.buffer)) param(instr.buffer).read = true;
        }
        if (std::any_of(m.body.instrs.begin(), m.body.instrs.end(),
                        [](const Instr& i) { return i.code == OpCode::check_index; })) {
          sites_.push_back(m.op);
        }
      }
    }
    int outputs = 0, inputs = 0;
    for (Param& p : params_)
      p.name = p.written ? fmt::format("y{}", outputs++) : fmt::format("a{}", inputs++);
    for (const LocalBuffer& l : nest_.locals) {
      if (l.elements <= 1) continue;
      Scratch s;
      s.name = fmt::format("row{}", scratches_.size());
      s.type = value_type(graph_[l.buffer].dtype);
      s.elements = l.elements;
      const std::int64_t bytes =
          (l.elements * (s.type == "double" || s.type.find("64") != std::string::npos ? 8 : 4) + 63) / 64 *
          64;
      if (stack_bytes_ + bytes <= kStackBytes) {
        stack_bytes_ += bytes;
      } else {
        s.offset = out_.scratch_bytes;
        out_.scratch_bytes += bytes;
      }
      scratches_.emplace(l.buffer, s);
    }
  }

  std::string symbol(Expr s) {
    if (s.is_symbol(SymbolKind::index)) return fmt::format("i{}", s.symbol_number());
    if (s.is_symbol(SymbolKind::value)) return as_int(index_value(s.symbol_number()));
    if (std::find(dims_.begin(), dims_.end(), s) == dims_.end()) dims_.push_back(s);
    return dim_identifier(s);
  }
  std::string text(Expr e) { return c_expr(e, style_); }
  std::string index_text(Expr e) {
    if (const std::optional<ValueIndex> index = value_index(e)) {
      const Value v = index_value(index->value);
      if (size_of(v.dtype) <= 2) return index->as_int32(v.text);
    }
    const Expr uneven = uneven_part(e);
    if (uneven.is_constant(0)) return text(e);
    const Expr rest = e - uneven;
    const std::string listed = fmt::format("{}[i{}]", index_list(uneven), order_.back());
    return rest.is_constant(0) ? listed : fmt::format("{} + {}", text(rest), listed);
  }

  // The terms of an index through which the innermost loop does not walk in equal steps, such as those of a
  // reflected or stretched row, if a list of their values for all rows is short.
  Expr uneven_part(Expr e) const {
    constexpr std::int64_t kLongest = 2048;
    if (nest_.outer == 0 || order_.size() != 1) return 0;
    const Expr inner = graph_.pool->index(static_cast<std::size_t>(order_[0]));
    const Expr extent = nest_.extents[static_cast<std::size_t>(order_[0])];
    if (bounds(extent).max > kLongest || has_index(extent, 0, nest_.extents.size())) return 0;
    Expr part = 0;
    for (const Term& term : terms(e)) {
      Expr value = term.coefficient;
      for (const Expr& atom : term.atoms) value = value * atom;
      bool alone = contains(value, inner) && !stride_of(value, inner);
      for_each_symbol(value, [&](Expr s) { alone = alone && (s == inner || s.is_symbol(SymbolKind::dim)); });
      if (alone) part = part + value;
    }
    const Bounds values = bounds(part, nest_.extents);
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
    return values.min >= -kMost && values.max <= kMost ? part : Expr(0);
  }

  // The name of the list, which is made once, before the rows.
  std::string index_list(Expr part) {
    const int var = order_.back();
    const std::string value = text(part), key = fmt::format("list|i{}|{}", var, value);
    if (const auto found = known_.find(key); found != known_.end()) return found->second.text;
    const std::string name = fmt::format("at{}", lists_++);
    const Expr extent = nest_.extents[static_cast<std::size_t>(var)];
    invariant_.push_back(fmt::format("alignas(64) int32_t {}[{}];", name, bounds(extent).max));
    invariant_.push_back(
        fmt::format("{} {}[i{}] = static_cast<int32_t>({});", loop_head(var), name, var, value));
    known_.emplace(key, Value{name, 0, DType::i32});
    return name;
  }
  std::string size(Expr e) { return c_operand(e, style_); }

  // ---- values and where they are computed

  struct Value {
    std::string text;  // one token
    int level = 0;     // 0: before all loops, 1: in the outer loop, 2 + k: in loop k of the group
    DType dtype = DType::f32;
    bool from_truth = false;     // a number made of truth values
    std::string unrounded = {};  // of a result of a narrow float type: what a store of that type may round
  };
  std::string as_int(const Value& v) {
    return v.dtype == DType::i64 ? v.text : fmt::format("static_cast<int64_t>({})", v.text);
  }
  // Value k of the body as it is used in an index.
  Value index_value(int k) {
    const Value v = values_.at(static_cast<std::size_t>(k));
    return v.from_truth ? define(v.dtype, fmt::format("opaque_index({})", v.text), v.level) : v;
  }
  // Whether the compiler may find out that an integer is a truth value, times and plus what does not vary.
  bool from_truth(const LoopBody& body, const Instr& instr) const {
    if (instr.dtype == DType::boolean || instr.code == OpCode::load) return false;
    const auto truth = [&](ValueId v) {
      return body[v].dtype == DType::boolean || values_[static_cast<std::size_t>(v.index)].from_truth;
    };
    const std::span<const ValueId> operands(instr.operands);
    if (instr.code != OpCode::where) return std::any_of(operands.begin(), operands.end(), truth);
    return std::all_of(operands.begin() + 1, operands.end(),
                       [&](ValueId v) { return truth(v) || body[v].code == OpCode::constant; });
  }

  struct Scratch {
    std::string name, type;
    std::int64_t elements = 0;
    std::int64_t offset = -1;  // in the thread's scratch memory; -1: on the stack
  };

  int level_of(Expr e) {
    int level = 0;
    for_each_symbol(e, [&](Expr s) {
      if (s.is_symbol(SymbolKind::value))
        level = std::max(level, values_.at(static_cast<std::size_t>(s.symbol_number())).level);
      if (!s.is_symbol(SymbolKind::index)) return;
      level = std::max(level, level_of_index(s.symbol_number()));
    });
    return level;
  }
  int level_of_index(int number) {
    if (number < nest_.outer) return 1;
    const auto at = std::find(order_.begin(), order_.end(), number);
    internal_check(at != order_.end(), "codegen: index i{} is used outside of its loop", number);
    return 2 + static_cast<int>(at - order_.begin());
  }

  // Lines by level; level 0 and 1 are shared by all groups.
  std::vector<std::string>& lines(int level) {
    if (level == 0) return invariant_;
    if (level == 1) return outer_lines_;
    return inner_lines_[static_cast<std::size_t>(level - 2)];
  }

  // A new variable with the value `rhs`, or one that already has it.
  Value define(DType dtype, const std::string& rhs, int level, bool reuse = true) {
    auto& known = level >= 2 ? group_known_ : known_;
    const std::string key = fmt::format("{}|{}|{}", level, to_string(dtype), rhs);
    if (reuse) {
      if (const auto found = known.find(key); found != known.end()) return found->second;
    }
    Value v{fmt::format("t{}", counter_++), level, dtype};
    lines(level).push_back(fmt::format("const {} {} = {};", value_type(dtype), v.text, rhs));
    if (reuse) known.emplace(key, v);
    return v;
  }

  Value load(const Instr& instr, const Value* mask) {
    for (const Register& r : registers_) {
      if (unmutated(graph_, r.buffer) == unmutated(graph_, instr.buffer) && r.index == instr.index) {
        member_work_ += r.work;
        if (!mask) return r.value;
        Value v =
            define(instr.dtype, fmt::format("{} ? {} : {}", mask->text, r.value.text, zero(instr.dtype)),
                   std::max(mask->level, r.value.level));
        v.from_truth = true;
        return v;
      }
    }
    int level = std::max(level_of(instr.index), mask ? mask->level : 0);
    std::string rhs;
    bool made_here = false;
    if (const LocalBuffer* l = local(instr.buffer)) {
      const Scratch& s = scratches_.at(l->buffer);
      const Expr index = instr.index - l->origin;
      rhs = fmt::format("{}[{}]", s.name, text(index));
      made_here = true;
    } else {
      const Param& p = param(instr.buffer);
      made_here = p.written;
      const bool plain = value_type(p.dtype) == storage_type(p.dtype) && p.dtype != DType::boolean;
      const Staged* block = mask ? nullptr : staged(instr);
      const std::string element =
          block ? block->element : fmt::format("{}[{}]", p.name, index_text(instr.index));
      rhs = plain ? element : fmt::format("load({})", element);
    }
    if (made_here) level = std::max(level, 1);
    // A possibly empty buffer may be read only inside a loop that runs.
    if (level == 0 && bounds(numel(graph_[instr.buffer].sizes)).min <= 0)
      level = static_cast<int>(order_.size()) + 1;
    if (mask) rhs = fmt::format("{} ? {} : {}", mask->text, rhs, zero(instr.dtype));
    return define(instr.dtype, rhs, level, !made_here);
  }

  static std::string zero(DType dtype) {
    return dtype == DType::boolean ? "false" : value_type(dtype) + "{0}";
  }

  Value checked_index(const NestMember& m, const Instr& instr, const std::string& operand, int level) {
    const auto site = std::find(sites_.begin(), sites_.end(), m.op) - sites_.begin();
    const Value wide{operand, 0, m.body[instr.operands[0]].dtype};
    const std::string rhs =
        fmt::format("check_index({}, {}, error, site{})", as_int(wide), text(instr.index), site);
    return define(
        instr.dtype,
        instr.dtype == DType::i64 ? rhs : fmt::format("static_cast<{}>({})", value_type(instr.dtype), rhs),
        std::max(level, level_of(instr.index)));
  }

  // The exponent of a power, if it is known.
  static std::optional<double> constant_exponent(const LoopBody& body, const Instr& instr) {
    if (instr.code != OpCode::pow) return std::nullopt;
    const Instr& e = body.instrs[static_cast<std::size_t>(instr.operands[1].index)];
    if (e.code != OpCode::constant) return std::nullopt;
    return std::visit([](auto number) { return static_cast<double>(number); }, e.literal);
  }

  // The result of a body is rounded where it is read, which may be nowhere: stores round by themselves.
  Value computed(const Instr& instr, const Arithmetic& a, bool result, int level) {
    if (!result || a.rounding.empty()) return define(instr.dtype, a.rounded(), level);
    Value v = define(instr.dtype, a.text, level);
    v.unrounded = v.text;
    v.text = fmt::format("{}({})", a.rounding, v.unrounded);
    return v;
  }

  // Emits all values of the member's body; returns that of the result.
  Value emit_body(const NestMember& m) {
    values_.assign(m.body.instrs.size(), {});
    member_work_ = 0;
    for (std::size_t k = 0; k < m.body.instrs.size(); ++k) {
      const Instr& instr = m.body.instrs[k];
      std::vector<std::string> operands;
      int level = 0;
      for (ValueId v : instr.operands) {
        const Value& value = values_[static_cast<std::size_t>(v.index)];
        operands.push_back(value.text);
        level = std::max(level, value.level);
      }
      Value& out = values_[k];
      switch (instr.code) {
        case OpCode::constant: {
          out = {literal(instr.dtype, instr.literal), 0, instr.dtype};
          if (out.text.front() == '-') out.text = "(" + out.text + ")";
          break;
        }
        case OpCode::load:
          out = load(instr, instr.operands.empty()
                                ? nullptr
                                : &values_[static_cast<std::size_t>(instr.operands[0].index)]);
          break;
        case OpCode::index:
          out = define(instr.dtype,
                       fmt::format(fmt::runtime(instr.dtype == DType::i64 ? "{1}" : "static_cast<{0}>({1})"),
                                   value_type(instr.dtype), text(instr.index)),
                       level_of(instr.index));
          break;
        case OpCode::check_index:
          out = checked_index(m, instr, operands[0], level);
          break;
        case OpCode::acc:
          throw InternalError(
              fmt::format("codegen: '{}' has an accumulator outside of an epilogue", graph_[m.op].name));
        default:
          out = computed(instr,
                         unrounded_arithmetic(instr, m.body.operand_dtype(instr), operands,
                                              constant_exponent(m.body, instr)),
                         static_cast<std::size_t>(m.body.result.index) == k, level);
      }
      out.from_truth = out.from_truth || from_truth(m.body, instr);
      const bool turns = instr.code == OpCode::sin || instr.code == OpCode::cos;
      if (turns && instr.dtype == DType::f32 && out.level == 2) {
        angles_.push_back(operands[0]);
        turned_.push_back(fmt::format("const float {} = v", out.text));
        angle_work_ = work_ - turn_work_;
        turn_work_ += work_of(instr);
      }
      const int work = level_of_work(out) * work_of(instr);
      work_ += work;
      member_work_ += work;
    }
    return values_[static_cast<std::size_t>(m.body.result.index)];
  }
  // Only work inside the group's loops counts.
  int level_of_work(const Value& v) const { return v.level >= 2 || order_.empty() ? 1 : 0; }

  std::string store_line(BufferId buffer, Expr index, const std::string& value) {
    if (const LocalBuffer* l = local(buffer)) {
      return fmt::format("{}[{}] = {};", scratches_.at(l->buffer).name, text(index - l->origin), value);
    }
    const Param& p = param(buffer);
    const bool half = p.dtype == DType::f16 || p.dtype == DType::bf16;
    return fmt::format(fmt::runtime(half ? "store({}[{}], {});" : "{}[{}] = {};"), p.name, text(index),
                       value);
  }

  // ---- groups

  struct Register {
    BufferId buffer;
    Expr index;
    Value value;
    bool of_group = true;  // forgotten at the end of the group
    int work = 0;          // to compute it in the loops of the group
  };

  void emit_group(const NestGroup& group) {
    order_ = group.columns ? columns_order(group) : plain_order(group);
    inner_lines_.assign(order_.size(), {});
    group_known_.clear();
    angles_.clear();
    turned_.clear();
    work_ = angle_work_ = turn_work_ = 0;
    staged_.clear();
    if (group.transposed) stage_loads(group);
    const std::size_t depth = order_.size();
    std::vector<Reduced> reduced;
    std::vector<std::string> before, after;                  // around all loops, in the outer loop
    std::vector<std::string> before_reduced, after_reduced;  // around the reduced loops of a mixed group
    const bool mixed = !group.kept.empty() && !group.reduced.empty();
    for (const NestMember& m : group.members) {
      const DType dtype = m.body.result_dtype();
      const std::string node = graph_[m.op].name;
      const Value value = emit_body(m);
      const bool no_loop = depth == 0;
      if (m.reduction && !no_loop) {
        const Accumulator a = accumulator(m.reduce, dtype, node);
        const std::string acc = fmt::format("acc{}", accumulators_++);
        const std::string element = group.columns ? fmt::format("{}[i{}]", acc, group.kept.back()) : acc;
        lines(static_cast<int>(depth) + 1)
            .push_back(fmt::format("{} = {};", element, a.combine(element, value.text)));
        auto& first = mixed ? before_reduced : before;
        auto& last = mixed ? after_reduced : after;
        if (group.columns) {
          const std::string loop = column_loop(group);
          first.push_back(fmt::format("alignas(64) {} {}[64];", a.type, acc));
          first.push_back(loop + fmt::format(" {} = {};", element, a.init));
          last.push_back("#pragma omp simd");
          last.push_back(loop + " " + store_line(m.out, m.store, narrowed(dtype, a.finish(element))));
          continue;
        }
        first.push_back(fmt::format("{} {} = {};", a.type, acc, a.init));
        reduced.push_back({acc, a, member_work_});
        const std::string result = fmt::format("r{}", counter_++);
        last.push_back(
            fmt::format("const {} {} = {};", value_type(dtype), result, narrowed(dtype, a.finish(acc))));
        const int level = mixed ? 2 + static_cast<int>(group.kept.size()) - 1 : 1;
        if (!mixed) registers_.push_back({m.out, m.store, {result, level, dtype}, false});
        if (needs_store(m.out)) last.push_back(store_line(m.out, m.store, result));
        continue;
      }
      // Pointwise, or a reduction over nothing.
      const int level = no_loop ? 1 : static_cast<int>(depth) + 1;
      registers_.push_back({m.out, m.store, value, !no_loop, member_work_});
      const bool rounds = !value.unrounded.empty() && !local(m.out);
      if (dtype == DType::f16 && needs_store(m.out))
        work_ += kWideWork;  // conversion takes as many operations
      if (needs_store(m.out))
        lines(level).push_back(store_line(m.out, m.store, rounds ? value.unrounded : value.text));
    }
    std::erase_if(registers_, [](const Register& r) { return r.of_group; });
    write_loops(group, reduced, before, after, before_reduced, after_reduced);
  }

  // Whether the group moves elements and does nothing else.
  bool is_copy(const NestGroup& group) const {
    const LoopBody& body = group.members[0].body;
    const Instr& load = body[body.result];
    return group.members.size() == 1 && load.code == OpCode::load && load.operands.empty() &&
           load.dtype != DType::boolean && !local(load.buffer) && !local(group.members[0].out) &&
           !has_value_symbol(load.index);
  }
  static bool has_value_symbol(Expr e) {
    bool found = false;
    for_each_symbol(e, [&](Expr s) { found = found || s.is_symbol(SymbolKind::value); });
    return found;
  }

  // The call that transposes a block of a transposed group in registers. Rows of the block are
  // `to_stride` elements apart.
  std::string transpose_line(const NestGroup& group, const std::string& to, const std::string& to_stride,
                             BufferId from, Expr index) {
    const std::string extents =
        fmt::format("{}, {}", text(nest_.extents[static_cast<std::size_t>(group.kept[1])]),
                    text(nest_.extents[static_cast<std::size_t>(group.kept[2])]));
    return fmt::format("transpose_block({}, {}, {} + {}, {}, {});", to, to_stride, param(from).name,
                       size(block_start(group, index)), text(*stride_of(index, index_of(group.kept[2]))),
                       extents);
  }
  // An index at the first row and column of a block.
  Expr block_start(const NestGroup& group, Expr e) const {
    const Expr row = index_of(group.kept[1]), column = index_of(group.kept[2]);
    return ir::substitute(e, [&](Expr s) -> std::optional<Expr> {
      if (s == row || s == column) return Expr(0);
      return std::nullopt;
    });
  }
  Expr index_of(int var) const { return graph_.pool->index(static_cast<std::size_t>(var)); }

  // The loops of a copy, whose blocks are transposed on their way.
  void emit_transposition(const NestGroup& group) {
    const NestMember& m = group.members[0];
    const Instr& load = m.body[m.body.result];
    order_ = {group.kept[0]};
    outer_lines_.push_back(loop_head(group.kept[0]) + " {");
    outer_lines_.push_back(
        transpose_line(group, fmt::format("{} + {}", param(m.out).name, size(block_start(group, m.store))),
                       text(*stride_of(m.store, index_of(group.kept[1]))), load.buffer, load.index));
    outer_lines_.push_back("}");
    const auto extent = [&](int k) {
      return nest_.extents[static_cast<std::size_t>(group.kept[static_cast<std::size_t>(k)])];
    };
    const auto most = [&](int k) { return bounds(extent(k), nest_.extents).max; };
    total_work_ = total_work_ + extent(0) * (most(1) * most(2));
  }

  // A load of a transposed group whose block is transposed before its loops read it.
  struct Staged {
    BufferId buffer;
    Expr index;
    std::string element;  // of the block, as text
  };
  // Loads along the rows of the block, from memory that the kernel does not write, as long as blocks fit on
  // the stack.
  void stage_loads(const NestGroup& group) {
    const int row = group.kept[1], column = group.kept[2];
    const std::int64_t width = bounds(nest_.extents[static_cast<std::size_t>(column)], nest_.extents).max,
                       height = bounds(nest_.extents[static_cast<std::size_t>(row)], nest_.extents).max;
    for (const NestMember& m : group.members) {
      for (const Instr& instr : m.body.instrs) {
        if (instr.code != OpCode::load || !instr.operands.empty() || local(instr.buffer) ||
            has_value_symbol(instr.index))
          continue;
        const auto by_row = stride_of(instr.index, index_of(row)),
                   by_column = stride_of(instr.index, index_of(column));
        const Param& p = param(instr.buffer);
        if (p.written || !by_row || !by_row->is_constant(1) || !by_column || by_column->is_constant(1) ||
            by_column->is_constant(0) || staged(instr))
          continue;
        const std::int64_t bytes = height * width * size_of(p.dtype);
        if (stack_bytes_ + bytes > kStackBytes) continue;
        stack_bytes_ += bytes;
        const std::string block = fmt::format("block{}", staged_.size());
        staged_.push_back(
            {instr.buffer, instr.index, fmt::format("{}[i{} * {} + i{}]", block, row, width, column)});
        lines(2).push_back(
            fmt::format("alignas(64) {} {}[{}];", storage_type(p.dtype), block, height * width));
        lines(2).push_back(transpose_line(group, block, std::to_string(width), instr.buffer, instr.index));
      }
    }
  }
  const Staged* staged(const Instr& load) const {
    const auto found = std::ranges::find_if(staged_, [&](const Staged& s) {
      return unmutated(graph_, s.buffer) == unmutated(graph_, load.buffer) && s.index == load.index;
    });
    return found == staged_.end() ? nullptr : &*found;
  }

  static constexpr const char* kWidePragma = "#pragma omp simd simdlen(16)";

  static std::string narrowed(DType dtype, const std::string& v) {
    if (dtype == DType::f16) return "round_to_half(" + v + ")";
    if (dtype == DType::bf16) return "round_to_bfloat16(" + v + ")";
    return v;
  }
  bool needs_store(BufferId b) const {
    const LocalBuffer* l = local(b);
    return !l || l->elements > 1;
  }

  std::vector<int> plain_order(const NestGroup& group) const {
    std::vector<int> order = group.kept;
    order.insert(order.end(), group.reduced.begin(), group.reduced.end());
    return order;
  }
  static std::vector<int> columns_order(const NestGroup& group) {
    std::vector<int> order(group.kept.begin(), group.kept.end() - 1);
    order.insert(order.end(), group.reduced.begin(), group.reduced.end());
    order.push_back(group.kept.back());
    return order;
  }

  std::string loop_head(int var) {
    return fmt::format("for (int64_t i{0} = 0; i{0} < {1}; ++i{0})", var,
                       text(nest_.extents[static_cast<std::size_t>(var)]));
  }
  std::string column_loop(const NestGroup& group) { return loop_head(group.kept.back()); }

  // Adds the loops of a group to the outer loop's lines, in order with everything else there.
  void write_loops(const NestGroup& group, const std::vector<Reduced>& reduced,
                   const std::vector<std::string>& before, const std::vector<std::string>& after,
                   const std::vector<std::string>& before_reduced,
                   const std::vector<std::string>& after_reduced) {
    std::vector<std::string>& out = outer_lines_;
    const std::size_t kept_loops = group.columns ? group.kept.size() - 1 : group.kept.size();
    const bool mixed = !group.kept.empty() && !group.reduced.empty();
    Expr trips = 1;
    for (int var : order_) {
      const Expr extent = nest_.extents[static_cast<std::size_t>(var)];
      bool varies = false;  // the last tile of columns is narrower
      for_each_symbol(extent, [&](Expr s) { varies = varies || s.is_symbol(SymbolKind::index); });
      trips = trips * (varies ? Expr(bounds(extent, nest_.extents).max) : extent);
    }
    const Expr work = trips * std::max(1, work_);
    total_work_ = total_work_ + work;
    if (order_.empty()) return;
    if (const std::vector<std::string> angles = angles_of(group); !angles.empty() && reduced.empty())
      return write_by_angle(angles);
    // The reduction of a whole tensor has no outer loop. Sums of floats depend on their order, and so on
    // where the loop is cut.
    const bool exact = std::ranges::all_of(reduced, [](const Reduced& r) { return r.how.is_exact(); });
    const bool whole = nest_.flat || (nest_.outer == 0 && group.kept.empty() && sites_.empty());
    const bool merges = whole && !reduced.empty() && exact;
    const bool shared = merges || (nest_.flat && reduced.empty());
    const bool joined = merges && joins_loops(group);
    out.insert(out.end(), before.begin(), before.end());
    const std::string merging = fmt::format("merging{}", merges ? counter_++ : 0);
    if (merges) out.push_back("Merging " + merging + ";");
    if (shared) {
      std::vector<std::string> results;
      if (merges) {
        results.push_back(merging);
        for (const Reduced& r : reduced) results.push_back(r.name);
      }
      const Expr trips = joined ? order_extent(0) * order_extent(1) : order_extent(0);
      out.push_back(team_loop(text(trips), work, results));
    }
    if (merges) {
      for (const Reduced& r : reduced) {
        out.push_back(fmt::format("auto& all_{0} = {0};", r.name));
        out.push_back(fmt::format("{} {} = {};", r.how.type, r.name, r.how.init));
      }
    }
    for (std::size_t k = 0; k < order_.size(); ++k) {
      if (mixed && k == kept_loops) out.insert(out.end(), before_reduced.begin(), before_reduced.end());
      if (k == vector_loop(group) && !vectors_are_outer()) out.push_back(simd_pragma(reduced));
      if (joined && k == 0) {
        write_joined_loops();
      } else if (!joined || k > 1) {
        out.push_back(shared && k == 0 ? part_head(order_[k]) : loop_head(order_[k]) + " {");
      }
      const auto& inside = inner_lines_[k];
      out.insert(out.end(), inside.begin(), inside.end());
    }
    for (std::size_t k = order_.size(); k-- > 0;) {
      if (!joined || k != 1) out.push_back("}");
      if (mixed && k == kept_loops) out.insert(out.end(), after_reduced.begin(), after_reduced.end());
    }
    if (merges) {
      out.push_back("const MergingLock lock(" + merging + ");");
      for (const Reduced& r : reduced) out.push_back(r.how.merged("all_" + r.name, r.name));
    }
    if (shared) out.push_back("});");
    out.insert(out.end(), after.begin(), after.end());
  }

  // Whether the threads share the iterations of two loops of a reduction over a whole tensor, of which the
  // outer one may have few.
  bool joins_loops(const NestGroup& group) const {
    if (order_.size() < 3 || vector_loop(group) < 2) return false;
    return !has_index(order_extent(0), 0, nest_.extents.size()) &&
           !has_index(order_extent(1), 0, nest_.extents.size());
  }
  void write_joined_loops() {
    const std::string count = size(order_extent(1));
    outer_lines_.push_back("for (int64_t part = begin; part < end; ++part) {");
    outer_lines_.push_back(fmt::format("const int64_t i{} = part / {};", order_[0], count));
    outer_lines_.push_back(fmt::format("const int64_t i{} = part % {};", order_[1], count));
  }

  // The arguments of sin and cos in a group of one loop without side effects, if they cost little: few cheap
  // lines stand before the last of them.
  std::vector<std::string> angles_of(const NestGroup& group) const {
    constexpr int kCheap = 8;
    if (order_.size() != 1 || !group.reduced.empty() || group.columns || !sites_.empty() ||
        vectors_are_outer())
      return {};
    return angle_work_ <= kCheap ? angles_ : std::vector<std::string>();
  }

  // Two loops, of which one runs: for arguments that are all narrow, and for others (runtime/vec_math.h).
  void write_by_angle(const std::vector<std::string>& angles) {
    std::vector<std::string>& out = outer_lines_;
    const std::vector<std::string>& lines = inner_lines_[0];
    const std::string wide = fmt::format("wide{}", counter_++), last = "const float " + angles.back() + " ";
    const bool shared = nest_.flat;
    const auto open = [&](bool tests) {
      if (shared)
        out.push_back(team_loop(text(order_extent(0)), total_work_,
                                tests ? std::vector{wide} : std::vector<std::string>()));
      if (shared && tests) out.push_back("int wide = 0;");
      out.push_back(tests ? fmt::format("{} reduction(| : {})", kWidePragma, shared ? "wide" : wide)
                          : kWidePragma);
      out.push_back(shared ? part_head(order_[0]) : loop_head(order_[0]) + " {");
    };
    out.push_back(fmt::format("int {} = 0;", wide));
    open(true);
    for (const std::string& line : lines) {
      if (line.starts_with("const ")) out.push_back(line);
      if (line.starts_with(last)) break;
    }
    for (const std::string& angle : angles)
      out.push_back(fmt::format("{} |= is_wide_angle({});", shared ? "wide" : wide, angle));
    out.push_back("}");
    if (shared) {
      out.push_back(fmt::format("if (wide != 0) __atomic_store_n(&{}, 1, __ATOMIC_RELAXED);", wide));
      out.push_back("});");
    }
    for (const bool narrow : {true, false}) {
      out.push_back(fmt::format("if ({} {} 0) {{", wide, narrow ? "==" : "!="));
      open(false);
      for (const std::string& line : lines) out.push_back(narrow ? with_narrow_angles(line) : line);
      out.push_back("}");
      if (shared) out.push_back("});");
      out.push_back("}");
    }
  }
  std::string with_narrow_angles(std::string line) const {
    const bool turns = std::any_of(turned_.begin(), turned_.end(),
                                   [&](const std::string& start) { return line.starts_with(start); });
    if (turns) line.insert(line.find('('), "_narrow");
    return line;
  }

  bool is_unrolled(int var) const {
    const Expr extent = nest_.extents[static_cast<std::size_t>(var)];
    return extent.is_constant() && extent.constant() <= kUnrolled;
  }

  // The loop that is vectorised: the innermost one, or the one around it if that is unrolled.
  std::size_t vector_loop(const NestGroup& group) const {
    const std::size_t last = order_.size() - 1;
    const bool around = last > 0 && group.reduced.empty() && !group.columns && is_unrolled(order_[last]);
    return around ? last - 1 : last;
  }

  // Whether vectors span neighbours in the outer loop, because the inner loop has fewer points than a vector
  // (channels of an image).
  bool vectors_are_outer() const {
    if (nest_.outer != 1 || nest_.groups.size() != 1 || !scratches_.empty() || !sites_.empty()) return false;
    const NestGroup& group = nest_.groups[0];
    if (group.columns || !group.reduced.empty() || group.kept.size() != 1) return false;
    return is_unrolled(group.kept[0]);
  }

  // GCC prefers vectors of 256 bits on Intel's processors, with which loops of much work take up to 1.5 times
  // as long; in wide ones, loads of those of little work would cross lines. How floats add up depends on the
  // width: their own terms decide, and not what else is in the loop.
  bool is_wide(const std::vector<Reduced>& reduced) const {
    bool sums = false, heavy = true;
    for (const Reduced& r : reduced) {
      if (r.how.is_exact()) continue;
      sums = true;
      heavy = heavy && r.work >= kWideWork;
    }
    return sums ? heavy : work_ >= kWideWork;
  }
  std::string simd_pragma(const std::vector<Reduced>& reduced) const {
    std::string pragma = is_wide(reduced) ? kWidePragma : "#pragma omp simd";
    for (const Reduced& r : reduced) pragma += fmt::format(" reduction({} : {})", r.how.clause, r.name);
    return pragma;
  }

  // ---- loops whose iterations the threads share

  Expr order_extent(std::size_t k) const { return nest_.extents[static_cast<std::size_t>(order_[k])]; }
  // Begins a call whose body runs iterations [begin, end). `results`: variables that it changes. The others
  // are captured by value: references to pointers could change within the loop, and its loads would gather.
  std::string team_loop(const std::string& count, Expr work, const std::vector<std::string>& results,
                        bool thread = false) {
    std::string captured = "=";
    for (const std::string& name : results) captured += ", &" + name;
    return fmt::format("parallel_for({}, {} > {}, [{}](int64_t begin, int64_t end{}) BRAID_INLINED {{", count,
                       text(work), kParallelWork, captured, thread ? ", int thread" : "");
  }
  static std::string part_head(int var) {
    return fmt::format("for (int64_t i{0} = begin; i{0} < end; ++i{0}) {{", var);
  }

  // ---- the function

  void assemble() {
    Writer w;
    w.open("{");
    for (const std::string& line : invariant_) w.line(line);
    Expr outer_trips = 1;
    for (int k = 0; k < nest_.outer; ++k)
      outer_trips = outer_trips * nest_.extents[static_cast<std::size_t>(k)];
    if (nest_.outer > 0) {
      const bool scratch =
          std::ranges::any_of(scratches_, [](const auto& s) { return s.second.offset >= 0; });
      w.open(team_loop(text(outer_trips), outer_trips * total_work_, {}, scratch));
      if (vectors_are_outer()) w.line("#pragma omp simd");
      if (nest_.outer == 1) {
        w.open(part_head(0));
      } else {
        w.open("for (int64_t i = begin; i < end; ++i) {");
        Expr inner = 1;
        std::vector<std::string> index(static_cast<std::size_t>(nest_.outer));
        for (int k = nest_.outer - 1; k >= 0; --k) {
          const Expr extent = nest_.extents[static_cast<std::size_t>(k)];
          std::string e = inner.is_constant(1) ? "i" : fmt::format("i / {}", size(inner));
          if (k > 0) e += fmt::format(" % {}", size(extent));
          index[static_cast<std::size_t>(k)] = fmt::format("const int64_t i{} = {};", k, e);
          inner = inner * extent;
        }
        for (const std::string& line : index) w.line(line);
      }
    }
    for (const LocalBuffer& l : nest_.locals) {
      const auto found = scratches_.find(l.buffer);
      if (found == scratches_.end()) continue;
      const Scratch& s = found->second;
      if (s.offset < 0)
        w.line(fmt::format("alignas(64) {} {}[{}];", s.type, s.name, s.elements));
      else
        w.line(fmt::format("{0}* const {1} = at<{0}>(scratch, {2}{3});", s.type, s.name,
                           nest_.outer > 0 ? "thread * scratch_stride + " : "", s.offset));
    }
    for (const std::string& line : outer_lines_) {
      const bool opens = line.ends_with(" {");
      if (line == "}" || line == "});")
        w.close(line);
      else if (opens)
        w.open(line);
      else
        w.line(line);
    }
    if (nest_.outer > 0) {
      w.close();
      w.close("});");
    }
    w.close();
    out_.body = w.text();
    parameters();
  }

  void parameters() {
    std::vector<std::string> list;
    for (bool written : {true, false}) {
      for (const Param& p : params_) {
        if (p.written != written) continue;
        bool alone = true;
        for (const Param& q : params_)
          alone = alone && (&p == &q || (!p.written && !q.written) || !overlap_(p.first, q.first));
        list.push_back(fmt::format("{}{}*{} {}", p.written ? "" : "const ", storage_type(p.dtype),
                                   alone ? " __restrict" : "", p.name));
        out_.args.push_back({KernelArg::Kind::buffer, p.first, p.written, 0, {}});
      }
    }
    std::sort(dims_.begin(), dims_.end(), [&](Expr a, Expr b) {
      return position(a) != position(b) ? position(a) < position(b) : compare(a, b) < 0;
    });
    for (Expr d : dims_) {
      list.push_back("int64_t " + dim_identifier(d));
      out_.args.push_back({KernelArg::Kind::dim, {}, false, d, {}});
    }
    if (out_.scratch_bytes > 0) {
      list.push_back("std::byte* scratch");
      out_.args.push_back({KernelArg::Kind::scratch, {}, false, 0, {}});
      if (nest_.outer > 0) {
        list.push_back("int64_t scratch_stride");
        out_.args.push_back({KernelArg::Kind::scratch_stride, {}, false, 0, {}});
      }
    }
    if (!sites_.empty()) {
      list.push_back("IndexError* error");
      out_.args.push_back({KernelArg::Kind::index_error, {}, false, 0, {}});
      for (std::size_t k = 0; k < sites_.size(); ++k) {
        list.push_back(fmt::format("int32_t site{}", k));
        out_.args.push_back({KernelArg::Kind::site, {}, false, 0, sites_[k]});
      }
    }
    out_.parameters = fmt::format("({})", fmt::join(list, ", "));
  }
  std::ptrdiff_t position(Expr dim) const {
    return std::find(graph_.dims.begin(), graph_.dims.end(), dim) - graph_.dims.begin();
  }

  const Graph& graph_;
  const LoopNest& nest_;
  const Overlap& overlap_;
  CExprStyle style_;
  KernelText out_;
  std::vector<Param> params_;
  std::vector<Expr> dims_;
  std::vector<OpId> sites_;
  std::map<BufferId, Scratch> scratches_;
  std::vector<int> order_;  // loops of the group being emitted
  std::vector<std::string> invariant_, outer_lines_;
  std::vector<std::vector<std::string>> inner_lines_;
  std::map<std::string, Value> known_, group_known_;
  std::vector<Register> registers_;
  std::vector<Staged> staged_;  // of the group being emitted
  std::vector<Value> values_;
  std::vector<std::string> angles_;  // arguments of sin and cos of f32 in the group
  std::vector<std::string> turned_;  // the lines that compute these begin so
  int angle_work_ = 0;               // simple operations before the last of them, without sin and cos
  int turn_work_ = 0;                // those of sin and cos
  std::int64_t stack_bytes_ = 0;     // of rows and blocks
  int counter_ = 0, accumulators_ = 0, lists_ = 0, work_ = 0;
  int member_work_ = 0;  // of a member, with what it reads from registers of its group
  Expr total_work_ = 0;
};

}  // namespace

KernelText emit_kernel(const Graph& graph, const LoopNest& nest, const Overlap& overlap) {
  return Emitter(graph, nest, overlap).emit();
}

}  // namespace braid::codegen::cpp
