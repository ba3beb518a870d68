#include "codegen/cuda/member_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "codegen/cuda/forms.h"
#include "codegen/cuda/scalar.h"
#include "ir/scalar.h"

namespace braid::codegen::cuda {
namespace {

using ir::DType;
using ir::Expr;
using ir::OpCode;
using Held = LoopPlan::Held;
using Level = LoopPlan::Level;
using Member = LoopPlan::Member;
using Shape = LoopPlan::Shape;

}  // namespace

MemberWriter::MemberWriter(const ir::Graph& graph, const LoopPlan& plan, KernelBuilder& kernel,
                           std::string acc)
    : graph_(graph), plan_(plan), k_(kernel), index_(kernel.index_type()), acc_(std::move(acc)) {
  for (const Member& m : plan.members) element_loops_.push_back(in_terms_of_elements(m));
}

std::string MemberWriter::tile_name(std::size_t m, std::size_t k) { return fmt::format("tile{}_{}", m, k); }

void MemberWriter::write_valid(Expr extent, const std::string& at) {
  k_.line(fmt::format("const {} valid = {} - {};", index_, k_.operand(extent, {}), at));
}

// The indices of the elements of a pack get a number of their own, that after the last dimension.
ir::Loops MemberWriter::in_terms_of_elements(const Member& m) const {
  ir::Loops out = m.loops;
  if (m.lane_end == m.lane_begin) return out;
  ir::ExprPool& pool = *graph_.pool;
  std::vector<Expr> by;
  for (std::size_t d = 0; d < m.loops.sizes.size(); ++d)
    by.push_back(pool.index(d + 1 == m.lane_end ? m.loops.sizes.size() : d));
  out.sizes.push_back(m.loops.sizes[m.lane_end - 1]);
  for (std::size_t k = 0; k < m.values.size(); ++k) {
    if (m.values[k].level == Level::element)
      out.body.instrs[k].index = ir::substitute_indices(out.body.instrs[k].index, by);
  }
  out.store_index = ir::substitute_indices(out.store_index, by);
  return out;
}

bool MemberWriter::uses_element_index(std::size_t m) const {
  const Member& member = plan_.members[m];
  if (member.lane_end == member.lane_begin) return false;
  const ir::Loops& loops = element_loops_[m];
  const Expr element = graph_.pool->index(member.loops.sizes.size());
  for (std::size_t k = 0; k < member.values.size(); ++k) {
    if (takes_memory(member, k) && ir::contains(loops.body.instrs[k].index, element)) return true;
  }
  return !member.local && !member.folds && !member.packed_store && ir::contains(loops.store_index, element);
}

// Whether the text of the instruction's index is needed for one element.
bool MemberWriter::takes_memory(const Member& m, std::size_t k) const {
  if (m.loops.body.instrs[k].code != OpCode::load) return true;
  const int writer = m.values[k].writer;
  return writer < 0 ? !m.values[k].packed && !m.values[k].tiled
                    : plan_.members[static_cast<std::size_t>(writer)].held == Held::shared;
}

std::optional<std::string> MemberWriter::load_text(std::size_t m, std::size_t k) {
  const Member& member = plan_.members[m];
  const LoopPlan::Value& value = member.values[k];
  if (value.writer >= 0) {
    const auto w = static_cast<std::size_t>(value.writer);
    if (!plan_.by_rows()) return fmt::format("value{}.values[e]", w);
    switch (plan_.members[w].held) {
      case Held::value:
        return fmt::format("value{}", w);
      case Held::registers:
        return fmt::format("row{}[j].values[e]", w);
      case Held::shared:
        return fmt::format("row{}[{}]", w,
                           k_.expr(element_loops_[m].body.instrs[k].index, element_loops_[m].sizes));
    }
  }
  if (value.tiled) return fmt::format("{}.element(at % packs * pack + e, at / packs)", tile_name(m, k));
  if (value.kept_load >= 0) return fmt::format("x{}[j].values[e]", value.kept_load);
  if (value.packed) return fmt::format("load{}.values[e]", k);
  return std::nullopt;
}

void MemberWriter::define(std::size_t m, std::size_t k) {
  const ir::Loops& loops = element_loops_[m];
  const Member& member = plan_.members[m];
  if (const auto end = fold_end(member); end && static_cast<std::size_t>(end->condition.index) == k) {
    k_.line(fmt::format("constexpr bool v{} = true;  // the loop ends where it is not", k));
  } else if (const LoopPlan::Form form = member.values[k].form; form != LoopPlan::Form::ieee) {
    k_.line(fmt::format("const {} v{} = {};", value_type(loops.body.instrs[k].dtype), k,
                        form_text(loops.body, k, form)));
  } else {
    k_.define(
        loops.body, k, loops.sizes, [&](const ir::Instr&) { return load_text(m, k); }, acc_);
  }
  if (const std::string reciprocal = reciprocal_text(member, k); !reciprocal.empty()) k_.line(reciprocal);
}

std::string MemberWriter::packed_load(const Member& m, const ir::Instr& instr) {
  const auto value = [&](int v) { return KernelBuilder::value(m.loops.body, ir::ValueId{v}); };
  return fmt::format("load_pack<pack>({} + {}{})", k_.input(instr.buffer),
                     k_.operand(instr.index, m.loops.sizes, value), valid_argument());
}

bool MemberWriter::hoists(const Member& m) const {
  Expr points = 1;
  for (std::size_t d = m.lane_begin; d < m.loops.sizes.size(); ++d) points = points * m.loops.sizes[d];
  return plan_.by_rows() && ir::bounds(points).min > 0;
}

void MemberWriter::define_before_turns(std::size_t m) {
  const Member& member = plan_.members[m];
  if (!hoists(member)) return;
  for (std::size_t k = 0; k < member.values.size(); ++k) {
    if (member.values[k].level == Level::point) define(m, k);
  }
}

void MemberWriter::open_pack(std::size_t m) {
  const Member& member = plan_.members[m];
  const bool hoisted = hoists(member);
  for (std::size_t k = 0; k < member.values.size(); ++k) {
    if (member.values[k].level == Level::pack || (member.values[k].level == Level::point && !hoisted))
      define(m, k);
  }
  for (std::size_t k = 0; k < member.values.size(); ++k) {
    if (!member.values[k].packed || member.values[k].tiled || member.values[k].kept_load >= 0) continue;
    const ir::Instr& instr = member.loops.body.instrs[k];
    std::string text = packed_load(member, instr);
    const std::string type = fmt::format("Pack<{}, pack>", memory_type(graph_[instr.buffer].dtype));
    if (!instr.operands.empty())
      text = fmt::format("{} ? {} : {}{{}}", KernelBuilder::value(member.loops.body, instr.operands[0]), text,
                         type);
    k_.line(fmt::format("const {} load{} = {};", type, k, text));
  }
}

// Whether elements beyond the last one would do harm: they are 0 in packs, and packs are stored without them.
bool MemberWriter::needs_guard(const Member& m) const {
  if (plan_.whole || m.lane_end == m.lane_begin) return false;
  if (m.folds || (!m.local && !m.packed_store)) return true;
  for (std::size_t k = 0; k < m.values.size(); ++k) {
    const OpCode code = m.loops.body.instrs[k].code;
    if (m.values[k].level == Level::element &&
        (code == OpCode::check_index || (code == OpCode::load && takes_memory(m, k))))
      return true;
  }
  return false;
}

void MemberWriter::open_each_element(std::size_t m, bool with_index) {
  const Member& member = plan_.members[m];
  k_.line("#pragma unroll");
  k_.open("for (int e = 0; e < pack; ++e)");
  if (needs_guard(member)) k_.line("if (e >= valid) break;");
  if (with_index)
    k_.line(fmt::format("const {} i{} = i{} + e;", index_, member.loops.sizes.size(), member.lane_end - 1));
}

void MemberWriter::open_elements(std::size_t m) {
  open_each_element(m, uses_element_index(m));
  const Member& member = plan_.members[m];
  for (std::size_t k = 0; k < member.values.size(); ++k) {
    if (member.values[k].level == Level::element) define(m, k);
  }
}

std::string MemberWriter::result(std::size_t m, DType type) const {
  const ir::LoopBody& body = plan_.members[m].loops.body;
  return converted(KernelBuilder::value(body, body.result), body.result_dtype(), type);
}

void MemberWriter::write_pack(std::size_t m, const std::string& target) {
  const Member& member = plan_.members[m];
  const DType type = graph_[member.out].dtype;
  const bool of_columns = plan_.shape == Shape::columns;
  const bool store_elements = !member.local && !member.packed_store;
  const bool with_index = store_elements && member.lane_end > member.lane_begin;
  if (member.loops.is_reduction()) {
    write_folds_of_threads(m);
    open_each_element(m, with_index && !of_columns);
    k_.line(fmt::format("{}.values[e] = {};", target,
                        converted("folded.values[e]", accumulator_dtype(type), type)));
  } else {
    open_pack(m);
    open_elements(m);
    k_.line(fmt::format("{}.values[e] = {};", target, result(m, type)));
  }
  if (store_elements && !of_columns) store_element(m, target);
  close_elements();
  if (member.local) return;
  if (of_columns) {
    if (member.barrier) k_.line("__syncthreads();");
    k_.open("if (stores)");
  }
  if (member.packed_store) {
    k_.line(fmt::format("store_pack({} + {}, {}{});", k_.output(member.out),
                        k_.operand(member.loops.store_index, member.loops.sizes), target, valid_argument()));
  } else if (of_columns) {
    open_each_element(m, with_index);
    store_element(m, target);
    close_elements();
  }
  if (of_columns) k_.close();
}

void MemberWriter::store_element(std::size_t m, const std::string& target) {
  const Member& member = plan_.members[m];
  k_.line(fmt::format("{}[{}] = {}.values[e];", k_.output(member.out),
                      k_.expr(element_loops_[m].store_index, element_loops_[m].sizes), target));
}

// Each thread folds the elements of its pack over the dimensions from thread_begin on.
void MemberWriter::write_folds_of_threads(std::size_t m) {
  const Member& member = plan_.members[m];
  const DType acc = accumulator_dtype(graph_[member.out].dtype);
  const std::string acc_type = value_type(acc);
  const char* how = fold(member.loops.reduce);
  k_.line(fmt::format("Pack<{}, pack> folded;", acc_type));
  k_.line("#pragma unroll");
  k_.line(fmt::format("for (int e = 0; e < pack; ++e) folded.values[e] = {}::neutral<{}>();", how, acc_type));
  const bool of_columns = plan_.shape == Shape::columns;
  const std::optional<FoldEnd> end = fold_end(member);
  for (std::size_t d = member.thread_begin; d < member.loops.sizes.size(); ++d) {
    // nvcc issues the loads of half of the turns before it uses the first; threads of columns are few.
    if (d + 1 == member.loops.sizes.size()) k_.line(of_columns ? "#pragma unroll 8" : "#pragma unroll 4");
    const bool shared = of_columns && d == shared_dimension(member);
    const std::string size = end && end->dimension == d ? k_.operand(end->size, member.loops.sizes)
                                                        : k_.operand(member.loops.sizes[d], {});
    const std::string i = fmt::format("i{}", d);
    k_.open(fmt::format("for ({} {} = {}; {} < {}; {})", index_, i, shared ? "threadIdx.y" : "0", i, size,
                        shared ? i + " += kColumnParts" : "++" + i));
  }
  open_pack(m);
  open_elements(m);
  k_.line(
      fmt::format("folded.values[e] = {}::apply<{}>(folded.values[e], {});", how, acc_type, result(m, acc)));
  close_elements();
  for (std::size_t d = member.thread_begin; d < member.loops.sizes.size(); ++d) k_.close();
  if (of_columns) k_.line(fmt::format("folded = column_reduce<{}>(folded);", how));
}

// Matches results where(e + i < n, x, neutral element), or their casts, for the only index i of the fold that
// is in e + i and n.
std::optional<MemberWriter::FoldEnd> MemberWriter::fold_end(const Member& m) const {
  const ir::LoopBody& body = m.loops.body;
  if (plan_.by_rows() || !m.loops.is_reduction()) return std::nullopt;
  ir::ValueId result = body.result;
  if (body[result].code == OpCode::cast && ir::is_float(body[result].dtype) &&
      ir::is_float(body.operand_dtype(body[result])))
    result = body[result].operands[0];
  if (body[result].code != OpCode::where) return std::nullopt;
  const ir::ValueId condition = body[result].operands[0];
  const ir::Instr& other = body[body[result].operands[2]];
  if (other.code != OpCode::constant || body[condition].code != OpCode::lt) return std::nullopt;
  const ir::Scalar given = ir::to_scalar(other.literal), neutral = ir::neutral(m.loops.reduce, other.dtype);
  if (ir::is_float(other.dtype) ? given.d != neutral.d : given.i != neutral.i) return std::nullopt;
  const ir::Instr &lhs = body[body[condition].operands[0]], &rhs = body[body[condition].operands[1]];
  const auto exact = [](const ir::Instr& instr) {
    return instr.code == OpCode::index && instr.dtype == DType::i64;
  };
  if (!exact(lhs) || !exact(rhs)) return std::nullopt;  // those of other types wrap
  for (std::size_t d = m.thread_begin; d < m.loops.sizes.size(); ++d) {
    const Expr i = graph_.pool->index(d), size = rhs.index - (lhs.index - i);
    bool of_values = false;
    ir::for_each_symbol(size, [&](Expr s) { of_values |= s.is_symbol(ir::SymbolKind::value); });
    if (of_values || ir::has_index(size, m.lane_begin, m.lane_end) ||
        ir::has_index(size, m.thread_begin, m.loops.sizes.size()))
      continue;
    const FoldEnd end{d, condition, ir::min(m.loops.sizes[d], size)};
    if (index_ == std::string_view("int") && !fits_int32(end.size, m.loops.sizes)) return std::nullopt;
    return end;
  }
  return std::nullopt;
}

// Dimension of those that a thread folds which the warps of a block share.
std::size_t MemberWriter::shared_dimension(const Member& m) const {
  std::size_t longest = m.thread_begin;
  for (std::size_t d = m.thread_begin; d < m.loops.sizes.size(); ++d) {
    if (ir::bounds(m.loops.sizes[d]).max >= ir::bounds(m.loops.sizes[longest]).max) longest = d;
  }
  return longest;
}

}  // namespace braid::codegen::cuda
