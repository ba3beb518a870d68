#include "codegen/cuda/loop_writer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "codegen/cuda/forms.h"
#include "codegen/cuda/scalar.h"
#include "codegen/kernel_name.h"
#include "ir/error.h"

namespace braid::codegen::cuda {
namespace {

using ir::DType;
using ir::Expr;
using ir::OpCode;
using Held = LoopPlan::Held;
using Level = LoopPlan::Level;
using Member = LoopPlan::Member;
using Shape = LoopPlan::Shape;

constexpr std::int64_t kThreads = 256, kWarps = 8;  // of a block: for points, and for rows of a warp each

bool wide(const ir::Graph& graph, const LoopPlan& plan) {
  return std::any_of(plan.members.begin(), plan.members.end(),
                     [&](const Member& m) { return needs_wide_index(graph, m.loops); });
}

std::vector<std::size_t> range(std::size_t begin, std::size_t end) {
  std::vector<std::size_t> out;
  for (std::size_t d = begin; d < end; ++d) out.push_back(d);
  return out;
}

class LoopWriter {
 public:
  LoopWriter(const ir::Graph& graph, const LoopPlan& plan, std::int64_t portable_shared_bytes)
      : graph_(graph),
        plan_(plan),
        portable_shared_bytes_(portable_shared_bytes),
        k_(graph, wide(graph, plan)),
        index_(k_.index_type()) {
    for (const Member& m : plan.members) element_loops_.push_back(in_terms_of_elements(m));
  }

  Launch write() {
    k_.line("// " + to_string(plan_));
    if (plan_.multiples.empty()) k_.line(fmt::format("constexpr int pack = {};", plan_.pack));
    switch (plan_.shape) {
      case Shape::points:
        write_points();
        break;
      case Shape::columns:
        write_columns();
        break;
      case Shape::tiles:
        write_tiles();
        break;
      case Shape::warp_rows:
      case Shape::block_rows:
        write_rows();
        break;
    }
    Launch launch = k_.finish();
    std::vector<ir::OpId> ops;
    for (const Member& m : plan_.members) ops.push_back(m.op);
    launch.wanted_name = kernel_name(graph_, ops);
    launch.count = host_expr(ir::numel(plan_.outer));
    describe_launch(launch);
    return launch;
  }

 private:
  // --------------------------------------------------------------------------------------------- launch

  void describe_launch(Launch& launch) const {
    launch.kernel.packs = !plan_.multiples.empty();
    launch.pack = plan_.pack;
    std::vector<std::string> conditions;
    for (Expr e : plan_.multiples)
      conditions.push_back(fmt::format("{} % {} == 0", host_operand(e), plan_.pack));
    launch.packs_if = fmt::format("{}", fmt::join(conditions, " && "));
    switch (plan_.shape) {
      case Shape::points:
        launch.grid = launch.kernel.packs ? fmt::format("grid_for(count, {} * pack)", kThreads)
                                          : fmt::format("grid_for(count, {})", kThreads * plan_.pack);
        launch.block = std::to_string(kThreads);
        break;
      case Shape::columns:
        launch.grid = fmt::format("grid_for(count, kWarpSize * {})", pack_text());
        launch.block = "dim3(kWarpSize, kColumnParts)";
        break;
      case Shape::tiles:
        launch.grid = fmt::format("grid_for(tile_count({}, {}, {}, {}), 1)", host_expr(ir::numel(other_sizes())),
                                  host_expr(plan_.outer[plan_.lane]), host_expr(plan_.outer[plan_.across]),
                                  pack_text());
        launch.block = std::to_string(kThreads);
        break;
      case Shape::warp_rows:
        launch.grid = fmt::format("grid_for(count, {})", kWarps);
        launch.block = fmt::format("dim3(32, {})", kWarps);
        break;
      case Shape::block_rows:
        launch.grid = "grid_for(count, 1)";
        launch.block = fmt::format("block_for({})", host_expr(ir::ceil_div(longest_row(), in_one_turn())));
        launch.shared = host_expr(plan_.shared_bytes);
        launch.max_shared = ir::bounds(plan_.shared_bytes).max;
        break;
    }
  }

  // In the launch; step.cc replaces the word where there are two kernels.
  std::string pack_text() const { return plan_.multiples.empty() ? std::to_string(plan_.pack) : "pack"; }

  Expr longest_row() const {
    Expr longest = 1;
    for (const Member& m : plan_.members) {
      if (m.spans_lanes()) longest = ir::max(longest, m.extent());
    }
    return longest;
  }

  std::int64_t in_one_turn() const { return plan_.elements > 0 ? plan_.elements : plan_.pack; }

  // --------------------------------------------------------------------------------------------- points

  void write_points() {
    const std::size_t dims = plan_.outer.size();
    if (dims == 0) {
      k_.open(fmt::format("if (math::first_index<{}>() == 0)", index_));
    } else if (dims == 1) {
      k_.open(fmt::format(
          "for ({0} i0 = math::first_index<{0}>() * pack; i0 < {1}; i0 += math::index_stride<{0}>() * pack)",
          index_, k_.operand(plan_.outer[0], {})));
    } else {
      open_points_in_rows();
    }
    if (dims > 0 && !plan_.whole) write_valid(plan_.outer[plan_.lane], fmt::format("i{}", plan_.lane));
    for (std::size_t m = 0; m < plan_.members.size(); ++m) write_point_member(m);
    k_.close();
  }

  void open_points_in_rows() {
    declare_packs();
    k_.open(fmt::format(
        "for ({0} at = math::first_index<{0}>(); at < {1} * packs; at += math::index_stride<{0}>())", index_,
        k_.operand(ir::numel(other_sizes()), {})));
    find_point();
  }

  // The dimensions along which a thread, or a tile, has one index.
  std::vector<std::size_t> others() const {
    std::vector<std::size_t> out = range(0, plan_.outer.size());
    std::erase_if(out, [&](std::size_t d) {
      return d == plan_.lane || (plan_.shape == Shape::tiles && d == plan_.across);
    });
    return out;
  }
  std::vector<Expr> other_sizes() const {
    std::vector<Expr> out;
    for (std::size_t d : others()) out.push_back(plan_.outer[d]);
    return out;
  }

  void declare_packs() {
    k_.line(fmt::format("const {} packs = ({} + pack - 1) / pack;", index_, extent(plan_.lane)));
  }
  std::string extent(std::size_t d) { return k_.operand(plan_.outer[d], {}); }

  // The indices of pack `at`.
  void find_point() {
    k_.line(fmt::format("const {} i{} = at % packs * pack;", index_, plan_.lane));
    find_others("at / packs");
  }

  void find_others(const std::string& flat) {
    const std::vector<std::size_t> dims = others();
    const std::string row = dims.size() == 1 ? fmt::format("i{}", dims[0]) : "row";
    const std::vector<bool> used = outer_used();
    if (std::any_of(dims.begin(), dims.end(), [&](std::size_t d) { return used[d]; }))
      k_.line(fmt::format("const {} {} = {};", index_, row, flat));
    k_.decompose(row, dims, plan_.outer, used);
  }

  void write_point_member(std::size_t m) {
    const Member& member = plan_.members[m];
    const DType type = graph_[member.out].dtype;
    k_.line(fmt::format("Pack<{}, pack> value{};", memory_type(type), m));
    k_.open("");
    write_pack(m, fmt::format("value{}", m));
    k_.close();
  }

  // -------------------------------------------------------------------------------------------- columns

  // All warps of the block compute the members at the same points; the first one stores them. Lanes behind the last pack repeat it.
  void write_columns() {
    declare_packs();
    k_.line(fmt::format("const {} all = {} * packs;", index_, k_.operand(ir::numel(other_sizes()), {})));
    k_.open(fmt::format("for ({} first = blockIdx.x * kWarpSize; first < all; first += gridDim.x * kWarpSize)",
                        index_));
    k_.line(fmt::format("const {} own = first + threadIdx.x, at = own < all ? own : all - 1;", index_));
    k_.line("const bool stores = threadIdx.y == 0 && own < all;");
    find_point();
    if (!plan_.whole) write_valid(plan_.outer[plan_.lane], fmt::format("i{}", plan_.lane));
    for (std::size_t m = 0; m < plan_.members.size(); ++m) write_point_member(m);
    k_.close();
  }

  // Dimension of those that a thread folds which the warps of a block share.
  std::size_t shared_dimension(const Member& m) const {
    std::size_t longest = m.thread_begin;
    for (std::size_t d = m.thread_begin; d < m.loops.sizes.size(); ++d) {
      if (ir::bounds(m.loops.sizes[d]).max >= ir::bounds(m.loops.sizes[longest]).max) longest = d;
    }
    return longest;
  }

  // ---------------------------------------------------------------------------------------------- tiles

  struct TiledLoad {
    std::size_t member, instr;
  };
  std::vector<TiledLoad> tiled_loads() const {
    std::vector<TiledLoad> out;
    for (std::size_t m = 0; m < plan_.members.size(); ++m) {
      for (std::size_t k = 0; k < plan_.members[m].values.size(); ++k) {
        if (plan_.members[m].values[k].tiled) out.push_back({m, k});
      }
    }
    return out;
  }
  static std::string tile(std::size_t m, std::size_t k) { return fmt::format("tile{}_{}", m, k); }

  void write_tiles() {
    const std::string lane = fmt::format("i{}", plan_.lane), across = fmt::format("i{}", plan_.across);
    k_.line("constexpr int side = tile_side(pack), packs = side / pack;");
    for (const TiledLoad& load : tiled_loads()) {
      const std::string name = tile(load.member, load.instr);
      const ir::Instr& instr = plan_.members[load.member].loops.body.instrs[load.instr];
      k_.line(fmt::format("using {}_type = Tile<{}, pack>;", name, memory_type(graph_[instr.buffer].dtype)));
      k_.line(fmt::format("using {0}_pack = Pack<{1}, pack>;", name, memory_type(graph_[instr.buffer].dtype)));
      k_.line(fmt::format("BRAID_SHARED({0}_pack, {0}_packs, {0}_type::kSize);", name));
      k_.line(fmt::format("const {0}_type {0}{{{0}_packs}};", name));
    }
    k_.line(fmt::format("const {} tiles0 = ({} + side - 1) / side, tiles1 = ({} + side - 1) / side;", index_,
                        extent(plan_.lane), extent(plan_.across)));
    k_.open(fmt::format("for ({} block = blockIdx.x; block < {} * tiles0 * tiles1; block += gridDim.x)", index_,
                        k_.operand(ir::numel(other_sizes()), {})));
    k_.line(fmt::format("const {} first0 = block % tiles0 * side, first1 = block / tiles0 % tiles1 * side;", index_));
    find_others("block / tiles0 / tiles1");
    open_tile(lane, "at / packs", across, "at % packs * pack");
    if (!across_whole()) write_valid(plan_.outer[plan_.across], across);
    for (const TiledLoad& load : tiled_loads()) write_tiled_load(load);
    k_.close();
    k_.line("__syncthreads();");
    open_tile(lane, "at % packs * pack", across, "at / packs");
    if (!plan_.whole) write_valid(plan_.outer[plan_.lane], lane);
    for (std::size_t m = 0; m < plan_.members.size(); ++m) write_point_member(m);
    k_.close();
    k_.line("__syncthreads();");  // before the next tile takes the place of this one
    k_.close();
  }

  void open_tile(const std::string& lane, const char* lane_at, const std::string& across, const char* across_at) {
    k_.line("#pragma unroll");
    k_.open(fmt::format("for (int at = threadIdx.x; at < side * packs; at += {})", kThreads));
    k_.line(fmt::format("const {0} {1} = first0 + {2}, {3} = first1 + {4};", index_, lane, lane_at, across,
                        across_at));
    k_.line(fmt::format("if ({} >= {} || {} >= {}) continue;", lane, extent(plan_.lane), across,
                        extent(plan_.across)));
  }

  bool across_whole() const {
    const Expr extent = plan_.outer[plan_.across];
    return std::find(plan_.multiples.begin(), plan_.multiples.end(), extent) != plan_.multiples.end() ||
           ir::provably_multiple(extent, plan_.pack);
  }

  void write_tiled_load(const TiledLoad& load) {
    const Member& member = plan_.members[load.member];
    const ir::Instr& instr = member.loops.body.instrs[load.instr];
    k_.line(fmt::format("{}.pack_at(at / packs, at % packs) = load_pack<pack>({} + {}{});",
                        tile(load.member, load.instr), k_.input(instr.buffer),
                        k_.operand(instr.index, member.loops.sizes), across_whole() ? "" : ", valid"));
  }

  // ----------------------------------------------------------------------------------------------- rows

  bool warp() const { return plan_.shape == Shape::warp_rows; }
  const char* barrier() const { return warp() ? "__syncwarp();" : "__syncthreads();"; }

  void write_rows() {
    declare_shared_rows();
    if (plan_.elements > 0) k_.line(fmt::format("constexpr int turns = {} / pack;", plan_.elements));
    k_.line(warp() ? "const int lane = threadIdx.x, lanes = kWarpSize;"
                   : "const int lane = thread_in_block(), lanes = threads_per_block();");
    const std::string row = plan_.outer.size() == 1 ? "i0" : "row";
    k_.open(fmt::format("for ({0} {1} = {2}; {1} < {3}; {1} += {4})", index_, row,
                        warp() ? "blockIdx.x * blockDim.y + warp_in_block()" : "blockIdx.x",
                        k_.operand(ir::numel(plan_.outer), {}),
                        warp() ? "gridDim.x * blockDim.y" : "gridDim.x"));
    k_.decompose(row, range(0, plan_.outer.size()), plan_.outer, outer_used());
    for (std::size_t n = 0; n < plan_.kept_loads.size(); ++n) write_kept_load(n);
    for (std::size_t m = 0; m < plan_.members.size(); ++m) write_row_node(m);
    if (std::any_of(plan_.members.begin(), plan_.members.end(),
                    [](const Member& m) { return m.held == Held::shared; }))
      k_.line(barrier());  // before the next row takes the place of this one
    k_.close();
  }

  void declare_shared_rows() {
    const bool any = std::any_of(plan_.members.begin(), plan_.members.end(),
                                 [](const Member& m) { return m.held == Held::shared; });
    if (ir::bounds(plan_.shared_bytes).max > portable_shared_bytes_) {
      k_.spill_rows();
    } else if (any) {  // also if the rows have no elements
      k_.line("BRAID_DYNAMIC_SHARED(unsigned char, shared);");
    }
    for (std::size_t m = 0; m < plan_.members.size(); ++m) {
      if (plan_.members[m].held != Held::shared) continue;
      const std::string type = memory_type(graph_[plan_.members[m].out].dtype);
      k_.line(fmt::format("{0}* row{1} = reinterpret_cast<{0}*>(shared + {2});", type, m,
                          k_.operand(plan_.members[m].row_offset, {})));
    }
  }

  void write_kept_load(std::size_t n) {
    const LoopPlan::KeptLoad& load = plan_.kept_loads[n];
    const Member& member = plan_.members[load.member];
    const ir::Instr& instr = member.loops.body.instrs[load.instr];
    k_.line(fmt::format("Pack<{}, pack> x{}[turns];", memory_type(graph_[instr.buffer].dtype), n));
    open_turns(member);
    k_.line(fmt::format("x{}[j] = {};", n, packed_load(member, instr)));
    close_turns();
  }

  void write_row_node(std::size_t m) {
    const Member& member = plan_.members[m];
    const std::string type = memory_type(graph_[member.out].dtype);
    if (member.barrier) k_.line(barrier());
    if (!member.row) k_.line(fmt::format("{} value{};", type, m));
    if (member.held == Held::registers) k_.line(fmt::format("Pack<{}, pack> row{}[turns];", type, m));
    k_.open("");
    if (member.row) {
      write_row(m);
    } else if (member.folds) {
      write_fold(m);
    } else {
      write_scalar(m);
    }
    k_.close();
  }

  void write_scalar(std::size_t m) {
    const Member& member = plan_.members[m];
    const ir::LoopBody& body = member.loops.body;
    for (std::size_t k = 0; k < body.instrs.size(); ++k) define(m, k);
    k_.line(fmt::format("value{} = {};", m, result(m, graph_[member.out].dtype)));
    if (member.local) return;
    // All threads read what the first one writes where the plan puts the result in place of an operand.
    const auto reads = [&](std::size_t k) {
      return body.instrs[k].code == OpCode::load && member.values[k].writer < 0;
    };
    const std::vector<std::size_t> all = range(0, body.instrs.size());
    if (std::any_of(all.begin(), all.end(), reads)) k_.line(barrier());
    store_of_first_lane(m);
  }

  void store_of_first_lane(std::size_t m) {
    const Member& member = plan_.members[m];
    if (member.local) return;
    k_.line(fmt::format("if (lane == 0) {}[{}] = value{};", k_.output(member.out),
                        k_.expr(member.loops.store_index, member.loops.sizes), m));
  }

  // One element per outer point, folded by all lanes, each of which gets the result.
  void write_fold(std::size_t m) {
    const Member& member = plan_.members[m];
    const DType type = graph_[member.out].dtype, acc = accumulator_dtype(type);
    const std::string acc_type = value_type(acc);
    const char* how = fold(member.loops.reduce);
    k_.line(fmt::format("{0} folded = {1}::neutral<{0}>();", acc_type, how));
    define_before_turns(m);
    open_turns(member);
    open_pack(m);
    open_elements(m);
    k_.line(fmt::format("folded = {}::apply<{}>(folded, {});", how, acc_type, result(m, acc)));
    close_elements();
    close_turns();
    k_.line(fmt::format(
        "value{} = {};", m,
        converted(fmt::format("{}<{}>(folded)", warp() ? "warp_reduce" : "block_reduce", how), acc, type)));
    store_of_first_lane(m);
  }

  void write_row(std::size_t m) {
    const Member& member = plan_.members[m];
    define_before_turns(m);
    open_turns(member);
    std::string target = fmt::format("row{}[j]", m);
    if (member.held != Held::registers) {
      target = "value";
      k_.line(fmt::format("Pack<{}, pack> value;", memory_type(graph_[member.out].dtype)));
    }
    write_pack(m, target);
    if (member.held == Held::shared)
      k_.line(fmt::format("store_pack(row{} + {}, {}{});", m, column(member), target, valid_argument()));
    close_turns();
  }

  // The position of a pack's first element along the lanes.
  std::string column(const Member& m) const {
    return m.lane_end - m.lane_begin == 1 ? fmt::format("i{}", m.lane_begin) : "column";
  }

  void open_turns(const Member& m) {
    const std::string at = column(m), extent = k_.operand(m.extent(), {});
    guarded_ = !fills_all_lanes(m);
    if (plan_.elements > 0) {
      k_.line("#pragma unroll");
      k_.open("for (int j = 0; j < turns; ++j)");
      k_.line(fmt::format("const {} {} = (lane + j * lanes) * pack;", index_, at));
      if (guarded_) k_.open(fmt::format("if ({} < {})", at, extent));
    } else {
      k_.open(fmt::format("for ({0} {1} = lane * pack; {1} < {2}; {1} += lanes * pack)", index_, at, extent));
    }
    if (!plan_.whole) write_valid(m.extent(), at);
    if (m.lane_end - m.lane_begin > 1)
      k_.decompose(at, range(m.lane_begin, m.lane_end), m.loops.sizes, used_indices(m.loops));
  }

  void close_turns() {
    if (plan_.elements > 0 && guarded_) k_.close();
    k_.close();
  }

  bool fills_all_lanes(const Member& m) const {
    return plan_.elements > 0 && warp() && m.extent().is_constant(32 * plan_.elements) &&
           plan_.multiples.empty();
  }

  // ------------------------------------------------------------------------------------------ elements

  void write_valid(Expr extent, const std::string& at) {
    k_.line(fmt::format("const {} valid = {} - {};", index_, k_.operand(extent, {}), at));
  }
  std::string valid_argument() const { return plan_.whole ? "" : ", valid"; }

  // The indices of the elements of a pack get a number of their own, that after the last dimension.
  ir::Loops in_terms_of_elements(const Member& m) const {
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

  bool uses_element_index(std::size_t m) const {
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
  bool takes_memory(const Member& m, std::size_t k) const {
    if (m.loops.body.instrs[k].code != OpCode::load) return true;
    const int writer = m.values[k].writer;
    return writer < 0 ? !m.values[k].packed && !m.values[k].tiled
                      : plan_.members[static_cast<std::size_t>(writer)].held == Held::shared;
  }

  std::optional<std::string> load_text(std::size_t m, std::size_t k) {
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
    if (value.tiled) return fmt::format("{}.element(at % packs * pack + e, at / packs)", tile(m, k));
    if (value.kept_load >= 0) return fmt::format("x{}[j].values[e]", value.kept_load);
    if (value.packed) return fmt::format("load{}.values[e]", k);
    return std::nullopt;
  }

  void define(std::size_t m, std::size_t k) {
    const ir::Loops& loops = element_loops_[m];
    const Member& member = plan_.members[m];
    if (const LoopPlan::Form form = member.values[k].form; form != LoopPlan::Form::ieee) {
      k_.line(fmt::format("const {} v{} = {};", value_type(loops.body.instrs[k].dtype), k,
                          form_text(loops.body, k, form)));
    } else {
      k_.define(loops.body, k, loops.sizes, [&](const ir::Instr&) { return load_text(m, k); });
    }
    if (const std::string reciprocal = reciprocal_text(member, k); !reciprocal.empty()) k_.line(reciprocal);
  }

  std::string packed_load(const Member& m, const ir::Instr& instr) {
    const auto value = [&](int v) { return KernelBuilder::value(m.loops.body, ir::ValueId{v}); };
    return fmt::format("load_pack<pack>({} + {}{})", k_.input(instr.buffer),
                       k_.operand(instr.index, m.loops.sizes, value), valid_argument());
  }

  bool hoists(const Member& m) const {
    Expr points = 1;
    for (std::size_t d = m.lane_begin; d < m.loops.sizes.size(); ++d) points = points * m.loops.sizes[d];
    return plan_.by_rows() && ir::bounds(points).min > 0;
  }

  // What is the same for the whole row, unless no element may need it.
  void define_before_turns(std::size_t m) {
    const Member& member = plan_.members[m];
    if (!hoists(member)) return;
    for (std::size_t k = 0; k < member.values.size(); ++k) {
      if (member.values[k].level == Level::point) define(m, k);
    }
  }

  // What is the same for all elements of the pack, and the packs that are loaded.
  void open_pack(std::size_t m) {
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
        text = fmt::format("{} ? {} : {}{{}}", KernelBuilder::value(member.loops.body, instr.operands[0]),
                           text, type);
      k_.line(fmt::format("const {} load{} = {};", type, k, text));
    }
  }

  // Whether elements beyond the last one would do harm: they are 0 in packs, and packs are stored without them.
  bool needs_guard(const Member& m) const {
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

  void open_each_element(std::size_t m, bool with_index) {
    const Member& member = plan_.members[m];
    k_.line("#pragma unroll");
    k_.open("for (int e = 0; e < pack; ++e)");
    if (needs_guard(member)) k_.line("if (e >= valid) break;");
    if (with_index)
      k_.line(fmt::format("const {} i{} = i{} + e;", index_, member.loops.sizes.size(), member.lane_end - 1));
  }

  void open_elements(std::size_t m) {
    open_each_element(m, uses_element_index(m));
    const Member& member = plan_.members[m];
    for (std::size_t k = 0; k < member.values.size(); ++k) {
      if (member.values[k].level == Level::element) define(m, k);
    }
  }
  void close_elements() { k_.close(); }

  std::string result(std::size_t m, DType type) const {
    const ir::LoopBody& body = plan_.members[m].loops.body;
    return converted(KernelBuilder::value(body, body.result), body.result_dtype(), type);
  }

  // Computes a pack of the member into `target` and stores it.
  void write_pack(std::size_t m, const std::string& target) {
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
                          k_.operand(member.loops.store_index, member.loops.sizes), target,
                          valid_argument()));
    } else if (of_columns) {
      open_each_element(m, with_index);
      store_element(m, target);
      close_elements();
    }
    if (of_columns) k_.close();
  }

  void store_element(std::size_t m, const std::string& target) {
    const Member& member = plan_.members[m];
    k_.line(fmt::format("{}[{}] = {}.values[e];", k_.output(member.out),
                        k_.expr(element_loops_[m].store_index, element_loops_[m].sizes), target));
  }

  // Each thread folds the elements of its pack over the dimensions from thread_begin on.
  void write_folds_of_threads(std::size_t m) {
    const Member& member = plan_.members[m];
    const DType acc = accumulator_dtype(graph_[member.out].dtype);
    const std::string acc_type = value_type(acc);
    const char* how = fold(member.loops.reduce);
    k_.line(fmt::format("Pack<{}, pack> folded;", acc_type));
    k_.line("#pragma unroll");
    k_.line(
        fmt::format("for (int e = 0; e < pack; ++e) folded.values[e] = {}::neutral<{}>();", how, acc_type));
    const bool of_columns = plan_.shape == Shape::columns;
    for (std::size_t d = member.thread_begin; d < member.loops.sizes.size(); ++d) {
      if (d + 1 == member.loops.sizes.size()) k_.line("#pragma unroll 4");
      const bool shared = of_columns && d == shared_dimension(member);
      const std::string i = fmt::format("i{}", d);
      k_.open(fmt::format("for ({} {} = {}; {} < {}; {})", index_, i, shared ? "threadIdx.y" : "0", i,
                          k_.operand(member.loops.sizes[d], {}),
                          shared ? i + " += kColumnParts" : "++" + i));
    }
    open_pack(m);
    open_elements(m);
    k_.line(fmt::format("folded.values[e] = {}::apply<{}>(folded.values[e], {});", how, acc_type,
                        result(m, acc)));
    close_elements();
    for (std::size_t d = member.thread_begin; d < member.loops.sizes.size(); ++d) k_.close();
    if (of_columns) k_.line(fmt::format("folded = column_reduce<{}>(folded);", how));
  }

  std::vector<bool> outer_used() const {
    std::vector<bool> used(plan_.outer.size(), false);
    for (const Member& m : plan_.members) {
      const std::vector<bool> of_member = used_indices(m.loops);
      for (std::size_t d = 0; d < used.size(); ++d) used[d] = used[d] || of_member[d];
    }
    return used;
  }

  const ir::Graph& graph_;
  const LoopPlan& plan_;
  const std::int64_t portable_shared_bytes_;
  KernelBuilder k_;
  const char* index_;
  std::vector<ir::Loops> element_loops_;  // per member
  bool guarded_ = false;
};

}  // namespace

Launch loop_kernel(const ir::Graph& graph, const LoopPlan& plan, std::int64_t portable_shared_bytes) {
  return LoopWriter(graph, plan, portable_shared_bytes).write();
}

}  // namespace braid::codegen::cuda
