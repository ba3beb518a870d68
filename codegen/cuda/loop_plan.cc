#include "codegen/cuda/loop_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "codegen/collapse.h"
#include "codegen/cuda/pack_rule.h"
#include "ir/effects.h"
#include "ir/error.h"
#include "ir/strided_view.h"

namespace braid::codegen::cuda {
namespace {

using ir::Expr;
using ir::OpCode;
using ir::SymbolKind;
using Level = LoopPlan::Level;
using Shape = LoopPlan::Shape;
using Member = LoopPlan::Member;
using Value = LoopPlan::Value;

constexpr std::int64_t kPackBytes = 16, kWarp = 32;
constexpr std::int64_t kMostThreads = 512;      // of a block that takes a row
constexpr std::int64_t kFewThreads = 128;       // of a block beside many others
constexpr std::int64_t kManyRows = 2048;        // that occupy a GPU with a block of kFewThreads each
constexpr std::int64_t kMostWarpElements = 32;  // per lane, so rows of at most 1,024 elements
constexpr std::int64_t kMostRowRegisters = 96;  // 4 bytes each, for rows that stay in registers
constexpr std::int64_t kShortFold = 8;          // one thread folds so few elements itself
constexpr std::int64_t kShortColumn = 32;       // and so few of a column, which several warps could share
constexpr std::int64_t kSharedWithoutAsking = 48 * 1024;

Expr position_in_order(const ir::Loops& loops, std::size_t begin, std::size_t end, ir::ExprPool& pool) {
  const std::vector<Expr> strides =
      ir::contiguous_strides(std::span(loops.sizes).subspan(begin, end - begin));
  Expr at = 0;
  for (std::size_t d = begin; d < end; ++d) {
    if (!loops.sizes[d].is_constant(1)) at = at + pool.index(d) * strides[d - begin];
  }
  return at;
}

class Planner {
 public:
  Planner(const ir::Graph& graph, const ir::FusedLoops& fused, std::span<const ir::BufferId> local)
      : graph_(graph), pool_(*graph.pool) {
    plan_.outer = fused.outer;
    for (const ir::FusedLoops::Member& m : fused.members) {
      Member member;
      member.op = m.op;
      member.out = graph[m.op].outputs[0];
      member.loops = *graph[m.op].as<ir::Loops>();
      member.local = std::find(local.begin(), local.end(), member.out) != local.end();
      member.row = member.loops.kept() > fused.outer.size();
      member.folds = !member.row && member.loops.is_reduction();
      plan_.members.push_back(std::move(member));
    }
  }

  Planner(const ir::Graph& graph, const ir::Product& product, std::int64_t most_pack)
      : graph_(graph), pool_(*graph.pool), most_pack_(most_pack) {
    Member member;
    member.out = product.out.buffer;
    member.loops.sizes = product.out.sizes;
    member.loops.store_index = ir::element_of(graph, product.out);
    member.loops.body = *product.epilogue;
    member.values.resize(member.loops.body.instrs.size());
    plan_.outer = product.out.sizes;
    plan_.lane = plan_.outer.size() - 1;
    plan_.members = {std::move(member)};
  }

  LoopPlan plan_epilogue() {
    share_dimensions();
    share_elements(false);
    return std::move(plan_);
  }

  LoopPlan plan(std::int64_t portable_shared_bytes) {
    find_writers();
    collapse_members();
    choose_shape();
    share_dimensions();
    share_elements(true);
    if (ir::bounds(plan_.shared_bytes).max > std::min(portable_shared_bytes, kSharedWithoutAsking) &&
        !plan_.multiples.empty())
      share_elements(false);
    if (plan_.by_rows()) place_barriers();
    if (plan_.shape == Shape::columns) place_barriers_of_columns();
    return std::move(plan_);
  }

 private:
  std::vector<Member>& members() { return plan_.members; }
  std::size_t outer() const { return plan_.outer.size(); }

  // ------------------------------------------------------------------------------------------ members

  // The earlier member that wrote what this load reads.
  int writer_of(const ir::Instr& load, std::size_t reader) const {
    for (std::size_t w = reader; w-- > 0;) {
      const ir::BufferId out = plan_.members[w].out;
      if (out == load.buffer) return static_cast<int>(w);  // also if it has no elements
      if (ir::root_storage(graph_, out) != ir::root_storage(graph_, load.buffer)) continue;
      if (ir::may_overlap(graph_, ir::whole(graph_, load.buffer), ir::whole(graph_, out)))
        return static_cast<int>(w);
    }
    return -1;
  }

  void find_writers() {
    for (std::size_t m = 0; m < members().size(); ++m) {
      Member& member = members()[m];
      for (ir::Instr& instr : member.loops.body.instrs) {
        Value value;
        if (instr.code == OpCode::load && (value.writer = writer_of(instr, m)) >= 0) {
          Member& writer = members()[static_cast<std::size_t>(value.writer)];
          writer.read_later = true;
          instr.index = writer.row ? position_in_row(writer, member, instr) : Expr(0);
        }
        member.values.push_back(value);
      }
    }
  }

  // Returns the position of the loaded element in the writer's own order of iteration, whatever its strides
  // in memory.
  Expr position_in_row(const Member& writer, const Member& reader, const ir::Instr& load) const {
    if (ir::relation(graph_, writer.op, reader.op, load, outer()) == ir::Relation::same_point)
      return position_in_order(writer.loops, outer(), writer.loops.kept(), pool_);
    const std::optional<Expr> at = ir::row_index(graph_, writer.op, reader.op, load, outer());
    ir::internal_check(at.has_value(), "'{}' reads '{}' at other outer points", graph_[reader.op].name,
                       graph_[load.buffer].name);
    return *at;
  }

  void collapse_members() {
    std::vector<ir::Loops> loops;
    for (const Member& m : members()) loops.push_back(collapse(m.loops, pool_, outer()));
    const std::size_t left = collapse_outer(loops, outer(), pool_);
    for (std::size_t m = 0; m < loops.size(); ++m) members()[m].loops = std::move(loops[m]);
    plan_.outer.assign(members()[0].loops.sizes.begin(),
                       members()[0].loops.sizes.begin() + static_cast<std::ptrdiff_t>(left));
  }

  // -------------------------------------------------------------------------------------------- shape

  static bool steps_by_one(Expr e, Expr index) {
    const std::optional<Expr> stride = ir::stride_of(e, index);
    return stride && stride->is_constant(1);
  }

  // The bytes of a point that the member loads beside those of the next one along dimension d.
  std::int64_t loaded_bytes(const Member& m, std::size_t d) const {
    std::int64_t bytes = 0;
    for (std::size_t k = 0; k < m.values.size(); ++k) {
      const ir::Instr& instr = m.loops.body.instrs[k];
      if (instr.code == OpCode::load && m.values[k].writer < 0 && steps_by_one(instr.index, pool_.index(d)))
        bytes += ir::size_of(graph_[instr.buffer].dtype);
    }
    return bytes;
  }

  // Returns the sectors of global memory that a warp touches in one access to elements of `bytes`, if its
  // lanes run along outer dimension d:
  //
  //   runs * touched
  //     runs    = ceil(32 / length),  length = min(32, size of d)
  //     touched = min(length, ceil(length * stride * bytes / 32))
  //
  // A run of lanes is as long as the dimension, and another run is elsewhere.
  double sectors(Expr index, std::size_t d, std::int64_t bytes, bool differs) const {
    const std::int64_t length = std::clamp<std::int64_t>(ir::bounds(plan_.outer[d]).max, 1, kWarp);
    const std::int64_t runs = (kWarp + length - 1) / length;
    const std::optional<Expr> stride = ir::stride_of(index, pool_.index(d));
    const auto run = static_cast<double>(length);
    double touched = run;
    if (!differs && !ir::contains(index, pool_.index(d))) {
      touched = 1;
    } else if (!differs && stride && stride->is_constant()) {
      const double step = std::fabs(static_cast<double>(stride->constant()));  // of any size
      touched = std::clamp(std::ceil(run * step * static_cast<double>(bytes) / 32), 1.0, run);
    }
    return static_cast<double>(runs) * touched;
  }

  // Those of all accesses of the members at 32 outer points. Stores count twice.
  double sectors_along(std::size_t d) const {
    double all = 0;
    for (const Member& m : plan_.members) {
      const std::size_t kept = m.loops.kept();
      const auto points =
          static_cast<double>(ir::bounds(ir::numel(std::span(m.loops.sizes).subspan(outer()))).max);
      std::vector<bool> differs(m.values.size());  // from lane to lane
      const auto in = [&](Expr e) {
        bool found = false;
        ir::for_each_symbol(e, [&](Expr s) {
          found |= s.is_symbol(SymbolKind::value) && differs[static_cast<std::size_t>(s.symbol_number())];
        });
        return found;
      };
      for (std::size_t k = 0; k < m.values.size(); ++k) {
        const ir::Instr& instr = m.loops.body.instrs[k];
        const bool elsewhere = in(instr.index);
        differs[k] = elsewhere || ir::contains(instr.index, pool_.index(d));
        for (ir::ValueId v : instr.operands)
          differs[k] = differs[k] || differs[static_cast<std::size_t>(v.index)];
        if (instr.code != OpCode::load || m.values[k].writer >= 0) continue;
        const bool repeated = ir::has_index(instr.index, outer(), m.loops.sizes.size());
        all += (repeated ? points : 1) *
               sectors(instr.index, d, ir::size_of(graph_[instr.buffer].dtype), elsewhere);
      }
      if (m.local) continue;
      const bool row = ir::has_index(m.loops.store_index, outer(), kept);
      all += (row ? points : 1) * 2 *
             sectors(m.loops.store_index, d, ir::size_of(graph_[m.out].dtype), in(m.loops.store_index));
    }
    return all;
  }

  void choose_shape() {
    plan_.lane = outer();
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t d = 0; d < outer(); ++d) {
      if (const double found = sectors_along(d); found <= least) least = found, plan_.lane = d;
    }
    const bool rows = std::any_of(members().begin(), members().end(), [](const Member& m) { return m.row; });
    std::int64_t folds = 0, folded = 0, beside = 0, along = 0;  // members, elements, bytes
    for (const Member& m : members()) {
      if (!m.folds) continue;
      ++folds;
      folded = std::max(folded, ir::bounds(ir::numel(std::span(m.loops.sizes).subspan(outer()))).max);
      beside += loaded_bytes(m, m.loops.sizes.size() - 1);
      along += plan_.lane < outer() ? loaded_bytes(m, plan_.lane) : 0;
    }
    const std::int64_t points = ir::bounds(ir::numel(plan_.outer)).max;
    plan_.shape = Shape::warp_rows;
    const bool in_threads = points >= kEnoughPoints || folded <= kShortColumn;
    if (!rows && (folded <= kShortFold || (along > beside && in_threads)))
      plan_.shape = Shape::points;
    else if (!rows && along > beside && points >= kPointsOfColumns && folds <= kMostColumnFolds)
      plan_.shape = Shape::columns;
    if (plan_.shape == Shape::points) choose_across();
  }

  // Points that occupy a GPU when each thread takes a pack of them, and a warp.
  static constexpr std::int64_t kEnoughPoints = 1 << 19, kPointsOfColumns = 1 << 8;
  // Each kind of fold has up to 16 KiB of shared memory (column_reduce), and a kernel 48 KiB without asking.
  static constexpr std::int64_t kMostColumnFolds = 3;

  // Whether a tile may take the load: its index is one of the loop alone, and the load reads at every point.
  bool may_be_tiled(const Member& m, std::size_t k, std::size_t across) const {
    const ir::Instr& instr = m.loops.body.instrs[k];
    if (instr.code != OpCode::load || m.values[k].writer >= 0 || !instr.operands.empty()) return false;
    bool of_values = false;
    ir::for_each_symbol(instr.index, [&](Expr s) { of_values |= s.is_symbol(SymbolKind::value); });
    return !of_values && steps_by_one(instr.index, pool_.index(across)) &&
           ir::contains(instr.index, pool_.index(plan_.lane)) &&
           !steps_by_one(instr.index, pool_.index(plan_.lane));
  }

  // The dimension along which most bytes are contiguous that are not so along the lanes.
  void choose_across() {
    const auto long_enough = [&](std::size_t d) { return ir::bounds(plan_.outer[d]).max >= kLeastSide; };
    const bool folds = std::any_of(members().begin(), members().end(),
                                   [](const Member& m) { return m.loops.is_reduction(); });
    if (folds || plan_.lane == outer() || !long_enough(plan_.lane)) return;
    std::int64_t most = 0;
    for (std::size_t d = 0; d < outer(); ++d) {
      std::int64_t bytes = 0;
      for (const Member& m : members()) {
        for (std::size_t k = 0; k < m.values.size(); ++k)
          bytes += may_be_tiled(m, k, d) ? ir::size_of(graph_[m.loops.body.instrs[k].buffer].dtype) : 0;
      }
      if (d == plan_.lane || bytes <= most || !long_enough(d)) continue;
      most = bytes, plan_.across = d, plan_.shape = Shape::tiles;
    }
    if (plan_.shape != Shape::tiles) return;
    int tiles = 0;
    for (Member& m : members()) {
      for (std::size_t k = 0; k < m.values.size(); ++k)
        m.values[k].tiled = may_be_tiled(m, k, plan_.across) && tiles++ < kMostTiles;
    }
  }
  static constexpr std::int64_t kLeastSide = 8;  // of the square of a tile, in points
  static constexpr int kMostTiles = 2;

  void share_dimensions() {
    for (Member& m : members()) {
      m.thread_begin = m.loops.kept();
      if (!plan_.by_rows()) {
        m.folds = false;
        m.lane_begin = plan_.lane;
        m.lane_end = std::min(plan_.lane + 1, outer());
      } else {
        m.lane_begin = outer();
        m.lane_end = m.folds ? m.loops.sizes.size() : m.loops.kept();
        if (m.folds) m.thread_begin = m.lane_end;
      }
    }
  }

  // ------------------------------------------------------------------------------------------- levels

  Level level_of(const Member& m, Expr e) const {
    Level level = Level::point;
    if (m.lane_end > m.lane_begin && ir::has_index(e, m.lane_end - 1, m.lane_end)) return Level::element;
    if (ir::has_index(e, m.lane_begin, m.lane_end) || ir::has_index(e, m.thread_begin, m.loops.sizes.size()))
      level = Level::pack;
    if (!plan_.by_rows() && ir::has_index(e, 0, outer())) level = Level::pack;
    ir::for_each_symbol(e, [&](Expr s) {
      if (s.is_symbol(SymbolKind::value))
        level = std::max(level, m.values[static_cast<std::size_t>(s.symbol_number())].level);
    });
    return level;
  }

  void find_levels() {
    for (Member& m : members()) {
      for (std::size_t k = 0; k < m.values.size(); ++k) {
        const ir::Instr& instr = m.loops.body.instrs[k];
        Value& value = m.values[k];
        value.kept_load = -1;
        value.level = instr.code == OpCode::acc ? Level::element : level_of(m, instr.index);
        if (value.writer >= 0 && !plan_.by_rows()) value.level = Level::element;
        for (ir::ValueId v : instr.operands)
          value.level = std::max(value.level, m.values[static_cast<std::size_t>(v.index)].level);
      }
    }
  }

  // Packs, and which of them stay in registers.
  void share_elements(bool with_conditions) {
    find_levels();
    choose_pack(with_conditions);
    if (plan_.by_rows()) hold_rows();
  }

  // --------------------------------------------------------------------------------------------- packs

  // Whether `pack` elements from this one on are adjacent along `lane` and begin at a multiple of their size,
  // provided that `multiples` are multiples of `pack`. Adds its conditions to `multiples`.
  bool packs(Expr lane, ir::BufferId buffer, Expr index, std::int64_t pack,
             std::vector<Expr>& multiples) const {
    const std::optional<Expr> begin =
        ir::divide_exactly(ir::region(graph_, buffer).offset, ir::size_of(graph_[buffer].dtype));
    std::optional<std::vector<Expr>> steps = steps_beside(index, lane);
    if (!begin || !steps) return false;
    steps->push_back(*begin);
    return need_multiples(*steps, pack, multiples);
  }

  // A pack does not go beyond the last of several dimensions.
  bool last_dimensions_take(std::int64_t pack, std::vector<Expr>& multiples) const {
    std::vector<Expr> sizes;
    for (const Member& m : plan_.members) {
      if (m.lane_end - m.lane_begin > 1) sizes.push_back(m.loops.sizes[m.lane_end - 1]);
    }
    return need_multiples(sizes, pack, multiples);
  }

  // Returns the bytes per point that are moved one by one if packs have this size, or kNotPossible. Marks the
  // accesses that move in packs. Tiles accept only packs.
  std::int64_t single_bytes(std::int64_t pack, bool with_conditions) {
    std::int64_t single = 0;
    plan_.multiples.clear();
    if (!last_dimensions_take(pack, plan_.multiples) || (!with_conditions && !plan_.multiples.empty()))
      return kNotPossible;
    const auto packed = [&](const Member& m, ir::BufferId buffer, Expr index, bool tiled = false) {
      std::vector<Expr> multiples = plan_.multiples;
      if (pack == 1 || m.lane_end == m.lane_begin) return false;
      const Expr lane = pool_.index(tiled ? plan_.across : m.lane_end - 1);
      if (!packs(lane, buffer, index, pack, multiples)) return false;
      if (!with_conditions && !multiples.empty()) return false;
      plan_.multiples = std::move(multiples);
      return true;
    };
    for (Member& m : members()) {
      for (std::size_t k = 0; k < m.values.size(); ++k) {
        const ir::Instr& instr = m.loops.body.instrs[k];
        Value& value = m.values[k];
        value.packed = false;
        if (instr.code != OpCode::load || value.level != Level::element || value.writer >= 0) continue;
        bool uniform = true;  // but for the lane
        for (ir::ValueId v : instr.operands)
          uniform &= m.values[static_cast<std::size_t>(v.index)].level < Level::element;
        ir::for_each_symbol(instr.index, [&](Expr s) {
          if (s.is_symbol(SymbolKind::value))
            uniform &= m.values[static_cast<std::size_t>(s.symbol_number())].level < Level::element;
        });
        value.packed = uniform && packed(m, instr.buffer, instr.index, value.tiled);
        if (value.tiled && !value.packed && pack > 1) return kNotPossible;
        if (!value.packed)
          single += loads_per_point(m, instr.index) * ir::size_of(graph_[instr.buffer].dtype);
      }
      m.packed_store = !m.local && !m.folds && packed(m, m.out, m.loops.store_index);
      const bool streams = plan_.by_rows() ? m.row : !m.folds;  // not one element per row
      if (streams && !m.packed_store && !m.local) single += 2 * ir::size_of(graph_[m.out].dtype);
    }
    return single;
  }

  // How often a thread that folds elements loads at this index.
  static std::int64_t loads_per_point(const Member& m, Expr index) {
    const std::size_t end = m.loops.sizes.size();
    if (!ir::has_index(index, m.thread_begin, end)) return 1;
    const std::int64_t folded = ir::bounds(ir::numel(std::span(m.loops.sizes).subspan(m.thread_begin))).max;
    return std::clamp<std::int64_t>(folded, 1, kMostLoadsPerPoint);
  }
  static constexpr std::int64_t kMostLoadsPerPoint = 1 << 20;

  static constexpr std::int64_t kNotPossible = std::numeric_limits<std::int64_t>::max() / 2;

  // Element types that are moved for each point, or for each element that it folds.
  std::vector<std::int64_t> streamed_sizes() const {
    std::vector<std::int64_t> sizes;
    for (const Member& m : plan_.members) {
      for (std::size_t k = 0; k < m.values.size(); ++k) {
        const ir::Instr& instr = m.loops.body.instrs[k];
        if (instr.code == OpCode::load && m.values[k].level == Level::element && m.values[k].writer < 0)
          sizes.push_back(ir::size_of(graph_[instr.buffer].dtype));
      }
      const bool stored = plan_.by_rows() ? m.row : !m.loops.is_reduction();
      if (!m.local && stored) sizes.push_back(ir::size_of(graph_[m.out].dtype));
    }
    return sizes;
  }

  // Chooses the largest pack with which at least half of the bytes move in packs: at most 16 bytes of the
  // narrowest type and 32 of the widest.
  void choose_pack(bool with_conditions) {
    std::int64_t most = 1;
    if (const std::vector<std::int64_t> sizes = streamed_sizes(); !sizes.empty()) {
      const auto [narrowest, widest] = std::ranges::minmax(sizes);
      most = std::min({kPackBytes / narrowest, 2 * kPackBytes / widest, most_pack_});
    }
    const std::int64_t all = single_bytes(1, false);
    std::int64_t best = 1;
    for (std::int64_t pack = most; pack > 1 && all > 0; pack /= 2) {
      if (2 * single_bytes(pack, with_conditions) > all) continue;
      best = pack;
      break;
    }
    plan_.pack = best;
    single_bytes(best, with_conditions);
    plan_.whole = true;
    for (const Member& m : members()) {
      if (plan_.by_rows() && !m.spans_lanes()) continue;
      const bool asked =
          std::find(plan_.multiples.begin(), plan_.multiples.end(), m.extent()) != plan_.multiples.end();
      plan_.whole &= asked || ir::provably_multiple(m.extent(), best);
    }
  }

  // --------------------------------------------------------------------------------------------- rows

  // Whether the load reads, of a row, the element at which its own thread is.
  bool at_own_element(const Member& reader, std::size_t k) const {
    const Member& writer = plan_.members[static_cast<std::size_t>(reader.values[k].writer)];
    return reader.spans_lanes() && reader.extent() == writer.extent() &&
           reader.loops.body.instrs[k].index ==
               position_in_order(reader.loops, reader.lane_begin, reader.lane_end, pool_) &&
           reader.loops.body.instrs[k].operands.empty();
  }

  void hold_rows() {
    std::int64_t longest = 0, bytes = 0;
    plan_.shared_bytes = 0;
    plan_.kept_loads.clear();
    for (const Member& m : members()) {
      if (m.spans_lanes()) longest = std::max(longest, ir::bounds(m.extent()).max);
    }
    find_kept_loads();
    for (Member& m : members()) {
      if (m.row && m.read_later) m.held = LoopPlan::Held::registers;
    }
    for (const Member& m : members()) {
      for (std::size_t k = 0; k < m.values.size(); ++k) {
        if (m.values[k].writer < 0) continue;
        Member& writer = members()[static_cast<std::size_t>(m.values[k].writer)];
        if (writer.row && !at_own_element(m, k)) writer.held = LoopPlan::Held::shared;
      }
    }
    for (const Member& m : members()) {
      if (m.held == LoopPlan::Held::registers) bytes += ir::size_of(graph_[m.out].dtype);
    }
    for (const LoopPlan::KeptLoad& load : plan_.kept_loads)
      bytes += ir::size_of(graph_[members()[load.member].loops.body.instrs[load.instr].buffer].dtype);
    choose_threads(longest, bytes);
    if (plan_.elements == 0) keep_nothing_in_registers();
    for (Member& m : members()) {
      if (m.held != LoopPlan::Held::shared) continue;
      plan_.shape = Shape::block_rows;
      m.row_offset = plan_.shared_bytes;
      plan_.shared_bytes =
          plan_.shared_bytes + ir::ceil_div(m.extent() * ir::size_of(graph_[m.out].dtype), 16) * 16;
    }
    for (Member& m : members()) {
      for (std::size_t k = 0; k < m.values.size(); ++k) {
        Value& value = m.values[k];
        if (value.writer < 0 || !members()[static_cast<std::size_t>(value.writer)].row) continue;
        if (members()[static_cast<std::size_t>(value.writer)].held == LoopPlan::Held::registers)
          value.level = Level::element;
      }
    }
    find_levels_again();
  }

  // Raises levels again: a value that reads a register of its thread varies with the element.
  void find_levels_again() {
    for (Member& m : members()) {
      for (std::size_t k = 0; k < m.values.size(); ++k) {
        for (ir::ValueId v : m.loops.body.instrs[k].operands)
          m.values[k].level = std::max(m.values[k].level, m.values[static_cast<std::size_t>(v.index)].level);
      }
    }
  }

  // A warp if its lanes can hold a row; otherwise a block if its threads can; otherwise a block whose threads
  // take turns.
  void choose_threads(std::int64_t longest, std::int64_t bytes) {
    const auto per_thread = [&](std::int64_t threads) {
      const std::int64_t step = threads * plan_.pack;
      return std::max<std::int64_t>((longest + step - 1) / step, 1) * plan_.pack;
    };
    const auto fits = [&](std::int64_t elements) {
      return elements <= kMostWarpElements && elements * bytes <= 4 * kMostRowRegisters;
    };
    plan_.shape = Shape::warp_rows;
    if (longest <= kWarp * kMostWarpElements && fits(plan_.elements = per_thread(kWarp))) return;
    // The fewer threads, the less of their time they wait at barriers; many rows occupy the GPU all the same.
    plan_.shape = Shape::block_rows;
    const bool many = ir::bounds(ir::numel(plan_.outer)).max >= kManyRows;
    for (std::int64_t threads = many ? kFewThreads : kMostThreads; threads <= kMostThreads; threads *= 2) {
      if (fits(plan_.elements = per_thread(threads))) return;
    }
    plan_.elements = 0;
  }

  void keep_nothing_in_registers() {
    for (Member& m : members()) {
      if (m.held == LoopPlan::Held::registers) m.held = LoopPlan::Held::shared;
      for (Value& value : m.values) value.kept_load = -1;
    }
    plan_.kept_loads.clear();
  }

  void find_kept_loads() {
    struct Seen {
      std::size_t member, instr;
      int kept = -1;
    };
    std::vector<Seen> seen;
    for (std::size_t m = 0; m < members().size(); ++m) {
      Member& member = members()[m];
      for (std::size_t k = 0; k < member.values.size(); ++k) {
        const ir::Instr& instr = member.loops.body.instrs[k];
        if (!member.values[k].packed || !instr.operands.empty() ||
            level_without_lane(member, instr.index) != Level::point)
          continue;
        const auto same = std::find_if(seen.begin(), seen.end(), [&](const Seen& s) {
          const Member& other = members()[s.member];
          return s.member != m && other.loops.body.instrs[s.instr].buffer == instr.buffer &&
                 other.loops.body.instrs[s.instr].index == instr.index && other.extent() == member.extent();
        });
        if (same == seen.end()) {
          seen.push_back({m, k});
          continue;
        }
        if (same->kept < 0) {
          same->kept = static_cast<int>(plan_.kept_loads.size());
          plan_.kept_loads.push_back({same->member, same->instr});
          members()[same->member].values[same->instr].kept_load = same->kept;
        }
        member.values[k].kept_load = same->kept;
      }
    }
  }

  // Point if, but for one lane dimension, only outer indices and dims are in e.
  Level level_without_lane(const Member& m, Expr e) const {
    if (m.lane_end - m.lane_begin != 1 || ir::has_index(e, m.thread_begin, m.loops.sizes.size()))
      return Level::pack;
    bool value = false;
    ir::for_each_symbol(e, [&](Expr s) { value |= s.is_symbol(SymbolKind::value); });
    return value ? Level::pack : Level::point;
  }

  // ------------------------------------------------------------------------------------------ barriers

  // Bytes from the beginning of the buffer's storage.
  Expr address(ir::BufferId buffer, Expr index) const {
    return ir::region(graph_, buffer).offset + index * ir::size_of(graph_[buffer].dtype);
  }

  // Whether another thread than the one that executes this load may overwrite its element in `later`. The
  // memory plan may have put the output of `later` in the place of the loaded buffer.
  bool may_overwrite(const Member& later, const Member& m, std::size_t k) const {
    const ir::Instr& load = m.loops.body.instrs[k];
    if (later.local || graph_[ir::root_storage(graph_, load.buffer)].kind == ir::StorageKind::constant)
      return false;
    const auto lanes = [](const Member& member) {
      return std::span(member.loops.sizes).subspan(member.lane_begin, member.lane_end - member.lane_begin);
    };
    const bool same_lanes = m.spans_lanes() && later.row && std::ranges::equal(lanes(m), lanes(later));
    return !same_lanes || address(load.buffer, load.index) != address(later.out, later.loops.store_index) ||
           ir::size_of(graph_[load.buffer].dtype) != ir::size_of(graph_[later.out].dtype);
  }

  void place_barriers() {
    std::size_t since = 0;  // the first member after the latest barrier
    for (std::size_t j = 0; j < members().size(); ++j) {
      Member& later = members()[j];
      for (std::size_t m = since; m < j; ++m) {
        for (std::size_t k = 0; k < members()[m].values.size() && !later.barrier; ++k) {
          if (members()[m].loops.body.instrs[k].code == OpCode::load && members()[m].values[k].writer < 0)
            later.barrier = may_overwrite(later, members()[m], k);
        }
      }
      for (std::size_t k = 0; k < later.values.size() && !later.barrier; ++k) {
        const int w = later.values[k].writer;
        later.barrier = w >= static_cast<int>(since) &&
                        members()[static_cast<std::size_t>(w)].held == LoopPlan::Held::shared &&
                        !at_own_element(later, k);
      }
      if (later.barrier) since = j;
    }
  }

  // The threads of a column compute a member together, and one of them stores it to memory that others may
  // read. After a fold, all of them have read its operands.
  void place_barriers_of_columns() {
    bool reads = false;
    for (Member& m : members()) {
      if (m.loops.is_reduction()) {
        reads = false;
        continue;
      }
      for (std::size_t k = 0; k < m.values.size(); ++k)
        reads |= m.loops.body.instrs[k].code == OpCode::load && m.values[k].writer < 0;
      m.barrier = reads && !m.local;
      if (m.barrier) reads = false;
    }
  }

  const ir::Graph& graph_;
  ir::ExprPool& pool_;
  std::int64_t most_pack_ = kPackBytes;
  LoopPlan plan_;
};

}  // namespace

Expr LoopPlan::Member::extent() const {
  return ir::numel(std::span(loops.sizes).subspan(lane_begin, lane_end - lane_begin));
}

LoopPlan plan_loops(const ir::Graph& graph, const ir::FusedLoops& fused, std::span<const ir::BufferId> local,
                    std::int64_t portable_shared_bytes) {
  return Planner(graph, fused, local).plan(portable_shared_bytes);
}

LoopPlan plan_epilogue(const ir::Graph& graph, const ir::Product& product, std::int64_t most) {
  return Planner(graph, product, most).plan_epilogue();
}

LoopPlan plan_loops(const ir::Graph& graph, ir::OpId op) {
  const auto* loops = graph[op].as<ir::Loops>();
  ir::internal_check(loops != nullptr && graph[op].outputs.size() == 1, "'{}' is not a loop with one output",
                     graph[op].name);
  ir::FusedLoops single;
  single.outer.assign(loops->sizes.begin(),
                      loops->sizes.begin() + static_cast<std::ptrdiff_t>(loops->kept()));
  single.members.push_back({op, loops->reduced});
  return plan_loops(graph, single, {}, 0);
}

std::string to_string(const LoopPlan& plan) {
  constexpr std::array<std::string_view, 5> kShapes = {"points", "columns", "tiles", "a warp per row",
                                                       "a block per row"};
  std::string out(kShapes.at(static_cast<std::size_t>(plan.shape)));
  if (plan.shape == Shape::tiles) out += fmt::format(" of i{} and i{}", plan.lane, plan.across);
  if (plan.pack > 1) {
    out += fmt::format(", packs of {}", plan.pack);
    if (!plan.by_rows() && plan.outer.size() > 1) out += fmt::format(" along i{}", plan.lane);
  }
  if (plan.elements > 0) out += fmt::format(", {} elements per thread in registers", plan.elements);
  return out;
}

}  // namespace braid::codegen::cuda
