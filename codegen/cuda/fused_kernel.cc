#include "codegen/cuda/fused_kernel.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/cuda/loop_kernels.h"
#include "codegen/cuda/scalar.h"
#include "codegen/kernel_name.h"
#include "ir/effects.h"
#include "ir/error.h"

namespace braid::codegen::cuda {
namespace {

using ir::DType;
using ir::Expr;

class FusedWriter {
 public:
  FusedWriter(const ir::Graph& graph, const ir::FusedLoops& fused, std::span<const ir::BufferId> local,
              bool wide, std::int64_t portable_shared_bytes)
      : graph_(graph),
        fused_(fused),
        portable_shared_bytes_(portable_shared_bytes),
        outer_(fused.outer.size()),
        k_(graph, wide) {
    for (const ir::FusedLoops::Member& m : fused.members) {
      Member member{&*graph[m.op].as<ir::Loops>(), m.op, graph[m.op].outputs[0]};
      member.local = std::find(local.begin(), local.end(), member.out) != local.end();
      member.row = member.loops->kept() > outer_;
      members_.push_back(member);
    }
    for (std::size_t reader = 0; reader < members_.size(); ++reader) {
      for (const ir::Instr& instr : members_[reader].loops->body.instrs) {
        if (instr.code != ir::OpCode::load) continue;
        if (const std::optional<std::size_t> writer = writer_of(instr, reader))
          members_[*writer].read_later = true;
      }
    }
    rows_ = std::any_of(members_.begin(), members_.end(),
                        [&](const Member& m) { return m.loops->sizes.size() > outer_; });
    for (Member& m : members_) {
      if (!rows_ || !m.row || !m.read_later) continue;
      m.row_offset = shared_;
      const Expr bytes = ir::row_elements(graph_, m.op, outer_) * ir::size_of(graph_[m.out].dtype);
      shared_ = shared_ + ir::ceil_div(bytes, 16) * 16;
    }
  }

  std::int64_t shared_bytes() const { return ir::bounds(shared_).max; }

  Launch write() {
    const Expr points = ir::numel(fused_.outer);
    if (rows_) {
      write_rows(points);
    } else {
      write_points(points);
    }
    Launch launch = k_.finish();
    std::vector<ir::OpId> ops;
    for (const auto& member : members_) ops.push_back(member.op);
    launch.wanted_name = kernel_name(graph_, ops);
    launch.count = host_expr(points);
    launch.grid = rows_ ? "grid_for(count, 1)" : "grid_for(count, 256)";
    launch.block = rows_ ? fmt::format("block_for({})", host_expr(longest_row())) : "256";
    launch.shared = host_expr(shared_);
    launch.max_shared = shared_bytes();
    return launch;
  }

 private:
  struct Member {
    const ir::Loops* loops;
    ir::OpId op;
    ir::BufferId out;
    bool local = false;       // not read outside, so not stored
    bool row = false;         // writes a row at each outer point, otherwise a single element
    bool read_later = false;  // read by a later member
    Expr row_offset = 0;      // in shared memory
  };

  // The earlier member that wrote what this load reads.
  std::optional<std::size_t> writer_of(const ir::Instr& load, std::size_t reader) const {
    for (std::size_t w = reader; w-- > 0;) {
      if (members_[w].out == load.buffer) return w;  // also if it has no elements
      if (ir::root_storage(graph_, members_[w].out) != ir::root_storage(graph_, load.buffer)) continue;
      if (ir::may_overlap(graph_, ir::whole(graph_, load.buffer), ir::whole(graph_, members_[w].out)))
        return w;
    }
    return std::nullopt;
  }

  bool reads_memory(std::size_t m) const {
    const std::vector<ir::Instr>& instrs = members_[m].loops->body.instrs;
    return std::any_of(instrs.begin(), instrs.end(), [&](const ir::Instr& instr) {
      return instr.code == ir::OpCode::load && !writer_of(instr, m);
    });
  }

  std::optional<std::string> load_text(const ir::Instr& load, std::size_t reader) {
    const std::optional<std::size_t> w = writer_of(load, reader);
    if (!w) return std::nullopt;
    const Member& writer = members_[*w];
    if (!writer.row) return fmt::format("value{}", *w);
    const ir::Relation relation = ir::relation(graph_, writer.op, members_[reader].op, load, outer_);
    Expr at = 0;
    if (relation == ir::Relation::same_point) {
      // The writer's own iteration order, whatever its strides in memory.
      const std::span<const Expr> kept = std::span(writer.loops->sizes).first(writer.loops->kept());
      const std::vector<Expr> strides = ir::contiguous_strides(kept.subspan(outer_));
      for (std::size_t d = 0; d < strides.size(); ++d) {
        if (kept[outer_ + d].is_constant(1)) continue;  // its index is 0 and has no name
        at = at + graph_.pool->index(static_cast<int>(outer_ + d)) * strides[d];
      }
    } else {
      const std::optional<Expr> in_row = ir::row_index(graph_, writer.op, members_[reader].op, load, outer_);
      ir::internal_check(in_row.has_value(), "'{}' reads '{}' at other outer points",
                         graph_[members_[reader].op].name, graph_[load.buffer].name);
      at = *in_row;
    }
    return fmt::format("row{}[{}]", *w, k_.expr(at, members_[reader].loops->sizes));
  }

  std::string result(std::size_t m, DType type) {
    const ir::LoopBody& body = members_[m].loops->body;
    const std::string text =
        k_.body(body, members_[m].loops->sizes, [&](const ir::Instr& load) { return load_text(load, m); });
    return converted(text, body.result_dtype(), type);
  }

  void store(std::size_t m, const std::string& value, const char* condition) {
    if (members_[m].local) return;
    k_.line(fmt::format("{}{}[{}] = {};", condition, k_.output(members_[m].out),
                        k_.expr(members_[m].loops->store_index, members_[m].loops->sizes), value));
  }

  // For nodes in which every member has one element per outer point: one thread each.
  void write_points(Expr points) {
    const char* type = k_.index_type();
    const std::string flat = outer_ == 1 ? "i0" : "i";
    k_.open(
        fmt::format("for ({0} {1} = math::first_index<{0}>(); {1} < {2}; {1} += math::index_stride<{0}>())",
                    type, flat, k_.operand(points, {})));
    k_.decompose(flat, 0, fused_.outer, outer_used());
    for (std::size_t m = 0; m < members_.size(); ++m) {
      const DType dtype = graph_[members_[m].out].dtype;
      k_.line(fmt::format("{} value{};", memory_type(dtype), m));
      k_.open("");
      k_.line(fmt::format("value{} = {};", m, result(m, dtype)));
      store(m, fmt::format("value{}", m), "");
      k_.close();
    }
    k_.close();
  }

  void write_rows(Expr points) {
    if (shared_bytes() > portable_shared_bytes_) {
      k_.spill_rows();
    } else if (std::any_of(members_.begin(), members_.end(), [](const Member& m) {
                 return m.row && m.read_later;  // also if the rows have no elements
               })) {
      k_.line("BRAID_DYNAMIC_SHARED(unsigned char, shared);");
    }
    for (std::size_t m = 0; m < members_.size(); ++m) {
      if (!members_[m].row || !members_[m].read_later) continue;
      const std::string type = memory_type(graph_[members_[m].out].dtype);
      k_.line(fmt::format("{0}* row{1} = reinterpret_cast<{0}*>(shared + {2});", type, m,
                          k_.operand(members_[m].row_offset, {})));
    }
    const std::string flat = outer_ == 1 ? "i0" : "point";
    k_.open(fmt::format("for ({0} {1} = blockIdx.x; {1} < {2}; {1} += gridDim.x)", k_.index_type(), flat,
                        k_.operand(points, {})));
    k_.decompose(flat, 0, fused_.outer, outer_used());
    for (std::size_t m = 0; m < members_.size(); ++m) {
      const DType dtype = graph_[members_[m].out].dtype;
      if (!members_[m].row) k_.line(fmt::format("{} value{};", memory_type(dtype), m));
      k_.open("");
      if (members_[m].row) {
        write_row_member(m, dtype);
      } else if (members_[m].loops->is_reduction()) {
        write_fold(m, dtype);
      } else {
        k_.line(fmt::format("value{} = {};", m, result(m, dtype)));
        // All threads read what the first one writes where the plan puts the result in place of an operand.
        if (!members_[m].local && reads_memory(m)) k_.line("__syncthreads();");
      }
      if (!members_[m].row) store(m, fmt::format("value{}", m), "if (thread_in_block() == 0) ");
      k_.close();
      // The next member reads this one's row and may overwrite what this one read; the next point writes the rows
      // again.
      k_.line("__syncthreads();");
    }
    k_.close();
  }

  std::string strided_loop(std::size_t first, std::span<const Expr> sizes, const char* otherwise) {
    const std::string flat = sizes.size() == 1 ? fmt::format("i{}", first) : otherwise;
    k_.open(fmt::format("for ({0} {1} = thread_in_block(); {1} < {2}; {1} += threads_per_block())",
                        k_.index_type(), flat, k_.operand(ir::numel(sizes), {})));
    return flat;
  }

  // One element per outer point, reduced by the whole block; every thread gets the result.
  void write_fold(std::size_t m, DType dtype) {
    const ir::Loops& loops = *members_[m].loops;
    const std::span<const Expr> reduced = std::span(loops.sizes).subspan(outer_);
    const DType acc = accumulator_dtype(dtype);
    const std::string acc_type = value_type(acc);
    k_.line(fmt::format("{0} folded = {1}::neutral<{0}>();", acc_type, fold(loops.reduce)));
    const std::string flat = strided_loop(outer_, reduced, "column");
    k_.decompose(flat, outer_, reduced, used_indices(loops));
    k_.line(fmt::format("folded = {}::apply<{}>(folded, {});", fold(loops.reduce), acc_type, result(m, acc)));
    k_.close();
    k_.line(fmt::format("value{} = {};", m,
                        converted(fmt::format("block_reduce<{}>(folded)", fold(loops.reduce)), acc, dtype)));
  }

  // A row per outer point: one element per thread and turn, reduced by that thread if the member reduces.
  void write_row_member(std::size_t m, DType dtype) {
    const ir::Loops& loops = *members_[m].loops;
    const std::span<const Expr> sizes = loops.sizes;
    const std::span<const Expr> kept = sizes.subspan(outer_, loops.kept() - outer_);
    const std::vector<bool> used = used_indices(loops);
    const std::string flat = strided_loop(outer_, kept, "element");
    k_.decompose(flat, outer_, kept, used);
    std::string value;
    if (loops.is_reduction()) {
      const DType acc = accumulator_dtype(dtype);
      const std::string acc_type = value_type(acc);
      k_.line(fmt::format("{0} folded = {1}::neutral<{0}>();", acc_type, fold(loops.reduce)));
      const std::span<const Expr> reduced = sizes.subspan(loops.kept());
      const std::string column = reduced.size() == 1 ? fmt::format("i{}", loops.kept()) : "column";
      k_.open(fmt::format("for ({0} {1} = 0; {1} < {2}; ++{1})", k_.index_type(), column,
                          k_.operand(ir::numel(reduced), {})));
      k_.decompose(column, loops.kept(), reduced, used);
      k_.line(
          fmt::format("folded = {}::apply<{}>(folded, {});", fold(loops.reduce), acc_type, result(m, acc)));
      k_.close();
      value = converted("folded", acc, dtype);
    } else {
      value = result(m, dtype);
    }
    if (members_[m].read_later) k_.line(fmt::format("row{}[{}] = {};", m, flat, value));
    store(m, value, "");
    k_.close();
  }

  std::vector<bool> outer_used() const {
    std::vector<bool> used(outer_, false);
    for (const Member& m : members_) {
      const std::vector<bool> of_member = used_indices(*m.loops);
      for (std::size_t d = 0; d < outer_; ++d) {
        // A read of a row in shared memory does not use the outer index, but only its text shows that.
        used[d] = used[d] || of_member[d];
      }
    }
    return used;
  }

  Expr longest_row() const {
    Expr longest = 1;
    for (const Member& m : members_) {
      const std::span<const Expr> sizes = m.loops->sizes;
      longest = ir::max(longest, ir::numel(m.row ? sizes.subspan(outer_, m.loops->kept() - outer_)
                                                 : sizes.subspan(outer_)));
    }
    return longest;
  }

  const ir::Graph& graph_;
  const ir::FusedLoops& fused_;
  const std::int64_t portable_shared_bytes_;
  std::size_t outer_;
  KernelBuilder k_;
  std::vector<Member> members_;
  bool rows_ = false;
  Expr shared_ = 0;  // bytes of rows in shared memory
};

}  // namespace

std::int64_t fused_shared_bytes(const ir::Graph& graph, const ir::FusedLoops& fused) {
  return FusedWriter(graph, fused, {}, false, 0).shared_bytes();
}

Launch fused_kernel(const ir::Graph& graph, const ir::FusedLoops& fused, std::span<const ir::BufferId> local,
                    std::int64_t portable_shared_bytes) {
  bool wide = false;
  for (const ir::FusedLoops::Member& m : fused.members)
    wide |= needs_wide_index(graph, *graph[m.op].as<ir::Loops>());
  return FusedWriter(graph, fused, local, wide, portable_shared_bytes).write();
}

}  // namespace braid::codegen::cuda
