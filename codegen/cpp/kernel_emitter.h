// The state of emitting one loop nest, and the steps of doing so; only the sources that it names include it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/cpp/accumulator.h"
#include "codegen/cpp/cpp_text.h"
#include "codegen/cpp/instr_text.h"
#include "codegen/cpp/kernel_emit.h"

namespace braid::codegen::cpp {

// An accumulator of a group's loops.
struct Reduced {
  std::string name;
  Accumulator how;
  int work = 0;               // simple operations of a term
  std::int64_t smallest = 8;  // bytes of the narrowest number of a term, as it is read or computed
};

// Lines around the loops of a group with reductions.
struct Edges {
  std::vector<std::string> before, after;                  // around all loops, in the outer loop
  std::vector<std::string> before_reduced, after_reduced;  // around the reduced loops of a mixed group
};

class KernelEmitter {
 public:
  KernelEmitter(const ir::Graph& graph, const LoopNest& nest, const Overlap& overlap)
      : graph_(graph), nest_(nest), overlap_(overlap) {}

  KernelText emit();

 private:
  // ---- buffers, sizes and indices as text (kernel_buffers.cc)

  struct Param {
    ir::BufferId key;  // unmutated
    ir::BufferId first;
    std::string name;
    ir::DType dtype = ir::DType::f32;
    bool written = false;
    bool read = false;
  };

  // Memory of a local buffer of several elements.
  struct Scratch {
    std::string name, type;
    std::int64_t elements = 0;
    std::int64_t offset = -1;  // in the thread's scratch memory; -1: on the stack
  };

  // The local buffer with this memory, or null.
  const LocalBuffer* local(ir::BufferId b) const;

  Param& param(ir::BufferId b);

  void collect_buffers();

  std::string symbol(ir::Expr s);
  std::string text(ir::Expr e) { return c_expr(e, style_); }
  std::string index_text(ir::Expr e);

  // The terms of an index through which the innermost loop does not walk in equal steps, such as those of a
  // reflected or stretched row, if a list of their values for all rows is short.
  ir::Expr uneven_part(ir::Expr e) const;

  // The name of the list, which is made once, before the rows.
  std::string index_list(ir::Expr part);
  std::string size(ir::Expr e) { return c_operand(e, style_); }
  std::string store_line(ir::BufferId buffer, ir::Expr index, const std::string& value);
  bool needs_store(ir::BufferId b) const;
  // Lists the function's parameters and what calls pass for them.
  void parameters();
  std::ptrdiff_t position(ir::Expr dim) const;

  // ---- values and where they are computed (kernel_values.cc)

  struct Value {
    std::string text;  // one token
    int level = 0;     // 0: before all loops, 1: in the outer loop, 2 + k: in loop k of the group
    ir::DType dtype = ir::DType::f32;
    bool from_truth = false;     // a number made of truth values
    std::string unrounded = {};  // of a result of a narrow float type: what a store of that type may round
  };
  std::string as_int(const Value& v);
  // Value k of the body as it is used in an index.
  Value index_value(int k);
  // Whether the compiler may find out that an integer is a truth value, times and plus what does not vary.
  bool from_truth(const ir::LoopBody& body, const ir::Instr& instr) const;

  int level_of(ir::Expr e);
  int level_of_index(int number);

  // Lines by level; level 0 and 1 are shared by all groups.
  std::vector<std::string>& lines(int level);

  // A new variable with the value `rhs`, or one that already has it.
  Value define(ir::DType dtype, const std::string& rhs, int level, bool reuse = true);

  Value load(const ir::Instr& instr, const Value* mask);

  // Whether a masked load of the loop over vectors lies beside another one in memory, in steps of that loop.
  // GCC (12.2, -O3) makes one vector of such loads, in which it loses their order and masks that differ.
  bool lies_beside_another(const ir::Instr& load) const;

  static std::string zero(ir::DType dtype);

  Value checked_index(const NestMember& m, const ir::Instr& instr, const std::string& operand, int level);

  // The exponent of a power, if it is known.
  static std::optional<double> constant_exponent(const ir::LoopBody& body, const ir::Instr& instr);

  // The result of a body is rounded where it is read, which may be nowhere: stores round by themselves.
  Value computed(const ir::Instr& instr, const Arithmetic& a, bool result, int level);

  // Emits all values of the member's body; returns that of the result.
  Value emit_body(const NestMember& m);
  // Only work inside the group's loops counts.
  int level_of_work(const Value& v) const;

  // ---- the loops of a group (kernel_loops.cc)

  struct Register {
    ir::BufferId buffer;
    ir::Expr index;
    Value value;
    bool of_group = true;       // forgotten at the end of the group
    int work = 0;               // to compute it in the loops of the group
    std::int64_t smallest = 8;  // bytes of the narrowest number on the way to it, without its own store
  };

  void emit_group(const NestGroup& group);

  // Asks for vectors of 64 bytes of values of this size.
  static std::string wide_pragma(std::int64_t bytes);
  // Notes the size of a value in the loop over vectors.
  void note_value(const ir::Instr& instr);
  void note_size(std::int64_t bytes);

  static std::string narrowed(ir::DType dtype, const std::string& v);

  // A store of halves along the innermost loop. The loop writes floats to a strip on the stack, which is then
  // converted by the processor's instruction: the compiler finds no instruction for the conversion.
  struct HalfStore {
    std::size_t line;  // of the innermost loop, with the plain store
    std::string to_strip, from_strip;
  };
  // Notes the store of `value`, the next line of the innermost loop, if it can go through a strip.
  bool note_half_store(const NestGroup& group, const NestMember& m, const std::string& value);

  std::vector<int> plain_order(const NestGroup& group) const;
  static std::vector<int> columns_order(const NestGroup& group);

  std::string loop_head(int var);
  std::string column_loop(const NestGroup& group) { return loop_head(group.kept.back()); }

  // Adds the loops of a group to the outer loop's lines, in order with everything else there.
  void write_loops(const NestGroup& group, const std::vector<Reduced>& reduced, const Edges& edges);
  // The innermost loop, strip by strip. `begin`, `end`: of its iterations, as text.
  void write_strips(const std::string& begin, const std::string& end);

  // Whether the threads share the iterations of two loops of a reduction over a whole tensor, of which the
  // outer one may have few.
  bool joins_loops(const NestGroup& group) const;
  void write_joined_loops();

  bool is_unrolled(int var) const;

  // The loop that is vectorised: the innermost one, or the one around it if that is unrolled.
  std::size_t vector_loop(const NestGroup& group) const;

  // Whether vectors span neighbours in the outer loop, because the inner loop has fewer points than a vector
  // (channels of an image).
  bool vectors_are_outer() const;

  // GCC prefers vectors of 256 bits on Intel's processors, with which loops of much work take up to 1.5 times
  // as long; in wide ones, loads of those of little work would cross lines. The narrowest value decides how
  // many points a vector has: 16 points of a loop that stores bytes are vectors of 128 bits. How floats add
  // up depends on that number: the terms of the loop's float sums decide, and nothing else in it.
  std::string simd_pragma(const std::vector<Reduced>& reduced) const;

  ir::Expr order_extent(std::size_t k) const { return nest_.extents[static_cast<std::size_t>(order_[k])]; }
  // Begins a call whose body runs iterations [begin, end). `results`: variables that it changes. The others
  // are captured by value: references to pointers could change within the loop, and its loads would gather.
  std::string team_loop(const std::string& count, ir::Expr work, const std::vector<std::string>& results,
                        bool thread = false);
  static std::string part_head(int var);

  // ---- blocks that are transposed (kernel_transposed.cc)

  // Whether the group moves elements and does nothing else.
  bool is_copy(const NestGroup& group) const;
  static bool has_value_symbol(ir::Expr e);

  // The call that transposes a block of a transposed group in registers. Rows of the block are
  // `to_stride` elements apart.
  std::string transpose_line(const NestGroup& group, const std::string& to, const std::string& to_stride,
                             ir::BufferId from, ir::Expr index);
  // An index at the first row and column of a block.
  ir::Expr block_start(const NestGroup& group, ir::Expr e) const;
  ir::Expr index_of(int var) const { return graph_.pool->index(static_cast<std::size_t>(var)); }

  // The loops of a copy, whose blocks are transposed on their way.
  void emit_transposition(const NestGroup& group);

  // A load of a transposed group whose block is transposed before its loops read it.
  struct Staged {
    ir::BufferId buffer;
    ir::Expr index;
    std::string element;  // of the block, as text
  };
  // Loads along the rows of the block, from memory that the kernel does not write, as long as blocks fit on
  // the stack.
  void stage_loads(const NestGroup& group);
  const Staged* staged(const ir::Instr& load) const;

  // ---- loops of sin and cos (kernel_angles.cc)

  // The arguments of sin and cos in a group of one loop without side effects, if they cost little: few cheap
  // lines stand before the last of them.
  std::vector<std::string> angles_of(const NestGroup& group) const;

  // Two loops, of which one runs: for arguments that are all narrow, and for others (runtime/vec_math.h).
  void write_by_angle(const std::vector<std::string>& angles);
  std::string with_narrow_angles(std::string line) const;

  // ---- the function (kernel_emit.cc)

  void assemble();

  const ir::Graph& graph_;
  const LoopNest& nest_;
  const Overlap& overlap_;
  CExprStyle style_;
  KernelText out_;
  std::vector<Param> params_;
  std::vector<ir::Expr> dims_;
  std::vector<ir::OpId> sites_;
  std::map<ir::BufferId, Scratch> scratches_;
  std::vector<int> order_;  // loops of the group being emitted
  const NestGroup* group_ = nullptr;
  int vector_var_ = -1;  // the loop of that group over vectors; -1: there is none
  std::vector<std::string> invariant_, outer_lines_;
  std::vector<std::vector<std::string>> inner_lines_;
  std::map<std::string, Value> known_, group_known_;
  std::vector<Register> registers_;
  std::vector<Staged> staged_;          // of the group being emitted
  std::vector<HalfStore> half_stores_;  // of the group being emitted
  std::vector<Value> values_;
  std::vector<std::string> angles_;  // arguments of sin and cos of f32 in the group
  std::vector<std::string> turned_;  // the lines that compute these begin so
  int angle_work_ = 0;               // simple operations before the last of them, without sin and cos
  int turn_work_ = 0;                // those of sin and cos
  std::int64_t stack_bytes_ = 0;     // of rows and blocks
  int counter_ = 0, accumulators_ = 0, lists_ = 0, work_ = 0;
  int member_work_ = 0;   // of a member, with what it reads from registers of its group
  int vector_level_ = 2;  // the Value::level of the loop over vectors
  // Bytes of the narrowest number in that loop: of the group, of a member with what it reads from registers.
  std::int64_t smallest_ = 8, member_smallest_ = 8;
  ir::Expr total_work_ = 0;
};

}  // namespace braid::codegen::cpp
