// The loops of a group: members, accumulators, vectors and threads.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/cpp/kernel_emitter.h"
#include "ir/error.h"
#include "runtime/half.h"

namespace braid::codegen::cpp {

using namespace ir;

void KernelEmitter::emit_group(const NestGroup& group) {
  order_ = group.columns ? columns_order(group) : plain_order(group);
  inner_lines_.assign(order_.size(), {});
  group_known_.clear();
  angles_.clear();
  turned_.clear();
  work_ = angle_work_ = turn_work_ = 0;
  staged_.clear();
  half_stores_.clear();
  if (group.transposed) stage_loads(group);
  const std::size_t depth = order_.size();
  vector_level_ = depth == 0 ? 2 : 2 + static_cast<int>(vector_loop(group));
  group_ = &group;
  vector_var_ = depth == 0 ? -1 : vectors_are_outer() ? 0 : order_[vector_loop(group)];
  smallest_ = 8;
  std::vector<Reduced> reduced;
  Edges edges;
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
      auto& first = mixed ? edges.before_reduced : edges.before;
      auto& last = mixed ? edges.after_reduced : edges.after;
      if (group.columns) {
        const std::string loop = column_loop(group);
        first.push_back(fmt::format("alignas(64) {} {}[64];", a.type, acc));
        first.push_back(loop + fmt::format(" {} = {};", element, a.init));
        last.push_back("#pragma omp simd");
        last.push_back(loop + " " + store_line(m.out, m.store, narrowed(dtype, a.finish(element))));
        continue;
      }
      first.push_back(fmt::format("{} {} = {};", a.type, acc, a.init));
      reduced.push_back({acc, a, member_work_, member_smallest_});
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
    registers_.push_back({m.out, m.store, value, !no_loop, member_work_, member_smallest_});
    const bool rounds = !value.unrounded.empty() && !local(m.out);
    const std::string& stored = rounds ? value.unrounded : value.text;
    const bool strip = !no_loop && note_half_store(group, m, stored);
    // Without the processor's instruction, the conversion takes as many operations.
    if (dtype == DType::f16 && needs_store(m.out) && !strip) work_ += kWideWork;
    if (!local(m.out)) note_size(strip ? size_of(DType::f32) : size_of(dtype));
    if (needs_store(m.out)) lines(level).push_back(store_line(m.out, m.store, stored));
  }
  std::erase_if(registers_, [](const Register& r) { return r.of_group; });
  write_loops(group, reduced, edges);
}

bool KernelEmitter::note_half_store(const NestGroup& group, const NestMember& m, const std::string& value) {
  constexpr std::int64_t kShortest = 32;
  if (local(m.out) || graph_[m.out].dtype != DType::f16) return false;
  if (group.columns || group.transposed || !group.reduced.empty() || vectors_are_outer()) return false;
  if (vector_loop(group) + 1 != order_.size()) return false;
  const int var = order_.back();
  const std::optional<Expr> stride = stride_of(m.store, index_of(var));
  if (bounds(nest_.extents[static_cast<std::size_t>(var)]).max < kShortest) return false;
  if (!stride || !stride->is_constant(1)) return false;
  constexpr std::int64_t kStripBytes = rt::kHalfStrip * static_cast<std::int64_t>(sizeof(float));
  if (stack_bytes_ + kStripBytes > kStackBytes) return false;
  stack_bytes_ += kStripBytes;
  const std::string strip = fmt::format("halves{}", half_stores_.size());
  half_stores_.push_back({inner_lines_.back().size(), fmt::format("{}[i{} - strip] = {};", strip, var, value),
                          fmt::format("store_halves(&{}[{}], {}, strip_end - strip);", param(m.out).name,
                                      text(m.store), strip)});
  return true;
}

std::string KernelEmitter::narrowed(DType dtype, const std::string& v) {
  if (dtype == DType::f16) return "round_to_half(" + v + ")";
  if (dtype == DType::bf16) return "round_to_bfloat16(" + v + ")";
  return v;
}

std::vector<int> KernelEmitter::plain_order(const NestGroup& group) const {
  std::vector<int> order = group.kept;
  order.insert(order.end(), group.reduced.begin(), group.reduced.end());
  return order;
}

std::vector<int> KernelEmitter::columns_order(const NestGroup& group) {
  std::vector<int> order(group.kept.begin(), group.kept.end() - 1);
  order.insert(order.end(), group.reduced.begin(), group.reduced.end());
  order.push_back(group.kept.back());
  return order;
}

std::string KernelEmitter::loop_head(int var) {
  return fmt::format("for (int64_t i{0} = 0; i{0} < {1}; ++i{0})", var,
                     text(nest_.extents[static_cast<std::size_t>(var)]));
}

void KernelEmitter::write_loops(const NestGroup& group, const std::vector<Reduced>& reduced,
                                const Edges& edges) {
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
  out.insert(out.end(), edges.before.begin(), edges.before.end());
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
    if (mixed && k == kept_loops)
      out.insert(out.end(), edges.before_reduced.begin(), edges.before_reduced.end());
    const bool strips = k + 1 == order_.size() && !half_stores_.empty();
    if (k == vector_loop(group) && !vectors_are_outer() && !strips) out.push_back(simd_pragma(reduced));
    if (joined && k == 0) {
      write_joined_loops();
    } else if (strips) {
      const bool part = shared && k == 0;
      write_strips(part ? "begin" : "0", part ? "end" : text(order_extent(k)));
      break;
    } else if (!joined || k > 1) {
      out.push_back(shared && k == 0 ? part_head(order_[k]) : loop_head(order_[k]) + " {");
    }
    const auto& inside = inner_lines_[k];
    out.insert(out.end(), inside.begin(), inside.end());
  }
  for (std::size_t k = order_.size() - (half_stores_.empty() ? 0 : 1); k-- > 0;) {
    if (!joined || k != 1) out.push_back("}");
    if (mixed && k == kept_loops)
      out.insert(out.end(), edges.after_reduced.begin(), edges.after_reduced.end());
  }
  if (merges) {
    out.push_back("const MergingLock lock(" + merging + ");");
    for (const Reduced& r : reduced) out.push_back(r.how.merged("all_" + r.name, r.name));
  }
  if (shared) out.push_back("});");
  out.insert(out.end(), edges.after.begin(), edges.after.end());
}

void KernelEmitter::write_strips(const std::string& begin, const std::string& end) {
  const int var = order_.back();
  std::vector<std::string>& out = outer_lines_;
  out.push_back(fmt::format("for (int64_t strip = {}; strip < {}; strip += kHalfStrip) {{", begin, end));
  out.push_back(fmt::format("const int64_t strip_end = smaller(strip + kHalfStrip, {});", end));
  for (std::size_t k = 0; k < half_stores_.size(); ++k)
    out.push_back(fmt::format("alignas(64) float halves{}[kHalfStrip];", k));
  out.push_back(simd_pragma({}));
  out.push_back(fmt::format("for (int64_t i{0} = strip; i{0} < strip_end; ++i{0}) {{", var));
  std::vector<std::string> inside = inner_lines_.back();
  for (const HalfStore& store : half_stores_) inside[store.line] = store.to_strip;
  out.insert(out.end(), inside.begin(), inside.end());
  out.push_back("}");
  out.push_back(fmt::format("const int64_t i{} = strip;", var));
  for (const HalfStore& store : half_stores_) out.push_back(store.from_strip);
  out.push_back("}");
}

bool KernelEmitter::joins_loops(const NestGroup& group) const {
  if (order_.size() < 3 || vector_loop(group) < 2) return false;
  return !has_index(order_extent(0), 0, nest_.extents.size()) &&
         !has_index(order_extent(1), 0, nest_.extents.size());
}

void KernelEmitter::write_joined_loops() {
  const std::string count = size(order_extent(1));
  outer_lines_.push_back("for (int64_t part = begin; part < end; ++part) {");
  outer_lines_.push_back(fmt::format("const int64_t i{} = part / {};", order_[0], count));
  outer_lines_.push_back(fmt::format("const int64_t i{} = part % {};", order_[1], count));
}

bool KernelEmitter::is_unrolled(int var) const {
  const Expr extent = nest_.extents[static_cast<std::size_t>(var)];
  return extent.is_constant() && extent.constant() <= kUnrolled;
}

std::size_t KernelEmitter::vector_loop(const NestGroup& group) const {
  const std::size_t last = order_.size() - 1;
  const bool around = last > 0 && group.reduced.empty() && !group.columns && is_unrolled(order_[last]);
  return around ? last - 1 : last;
}

bool KernelEmitter::vectors_are_outer() const {
  if (nest_.outer != 1 || nest_.groups.size() != 1 || !scratches_.empty() || !sites_.empty()) return false;
  const NestGroup& group = nest_.groups[0];
  if (group.columns || !group.reduced.empty() || group.kept.size() != 1) return false;
  return is_unrolled(group.kept[0]);
}

std::string KernelEmitter::wide_pragma(std::int64_t bytes) {
  return fmt::format("#pragma omp simd simdlen({})", 64 / bytes);
}

std::string KernelEmitter::simd_pragma(const std::vector<Reduced>& reduced) const {
  bool sums = false, heavy = true;
  std::int64_t smallest = 8, narrowest = 8;  // of the float sums, of all
  for (const Reduced& r : reduced) {
    narrowest = std::min(narrowest, r.smallest);
    if (r.how.is_exact()) continue;
    sums = true;
    heavy = heavy && r.work >= kWideWork;
    smallest = std::min(smallest, r.smallest);
  }
  std::string pragma = "#pragma omp simd";
  if (sums ? heavy : work_ >= kWideWork) {
    pragma = wide_pragma(sums ? smallest : smallest_);
  } else if (!sums && narrowest < 4) {
    pragma = wide_pragma(narrowest);  // in narrow vectors, a sum of bytes takes twice as long
  }
  for (const Reduced& r : reduced) pragma += fmt::format(" reduction({} : {})", r.how.clause, r.name);
  return pragma;
}

std::string KernelEmitter::team_loop(const std::string& count, Expr work,
                                     const std::vector<std::string>& results, bool thread) {
  std::string captured = "=";
  for (const std::string& name : results) captured += ", &" + name;
  return fmt::format("parallel_for({}, {} > {}, [{}](int64_t begin, int64_t end{}) BRAID_INLINED {{", count,
                     text(work), kParallelWork, captured, thread ? ", int thread" : "");
}

std::string KernelEmitter::part_head(int var) {
  return fmt::format("for (int64_t i{0} = begin; i{0} < end; ++i{0}) {{", var);
}

}  // namespace braid::codegen::cpp
