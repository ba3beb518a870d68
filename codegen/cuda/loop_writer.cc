#include "codegen/cuda/loop_writer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "codegen/cuda/member_writer.h"
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
        index_(k_.index_type()),
        member_(graph, plan, k_) {}

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
    if (launch.spills) {
      Variant spilled = variant(1);
      launch.locals = {{"rows", spilled.shared}};
      launch.variants = {spilled, spilled};
      launch.variants[0].argument = "true", launch.variants[0].condition = "fits_shared(rows)";
      launch.variants[0].shared = "rows";
      launch.variants[1].argument = "false", launch.variants[1].grid = "spill_blocks(count)";
      launch.variants[1].shared = "0", launch.variants[1].max_shared = 0;
    } else if (plan_.multiples.empty()) {
      launch.variants = {variant(plan_.pack)};
    } else {
      launch.kernel.varies = "int pack";
      std::vector<std::string> conditions;
      for (Expr e : plan_.multiples)
        conditions.push_back(fmt::format("{} % {} == 0", host_operand(e), plan_.pack));
      launch.variants = {variant(plan_.pack), variant(1)};
      launch.variants[0].argument = std::to_string(plan_.pack);
      launch.variants[0].condition = fmt::format("{}", fmt::join(conditions, " && "));
      launch.variants[1].argument = "1";
    }
  }

  Variant variant(std::int64_t pack) const {
    switch (plan_.shape) {
      case Shape::points:
        break;
      case Shape::columns:
        return {.grid = fmt::format("grid_for(count, kWarpSize * {})", pack),
                .block = "dim3(kWarpSize, kColumnParts)"};
      case Shape::tiles:
        return {.grid = fmt::format("grid_for(tile_count({}, {}, {}, {}), 1)",
                                    host_expr(ir::numel(other_sizes())), host_expr(plan_.outer[plan_.lane]),
                                    host_expr(plan_.outer[plan_.across]), pack),
                .block = std::to_string(kThreads)};
      case Shape::warp_rows:
        return {.grid = fmt::format("grid_for(count, {})", kWarps),
                .block = fmt::format("dim3(32, {})", kWarps)};
      case Shape::block_rows:
        return {.grid = "grid_for(count, 1)",
                .block = fmt::format("block_for({})", host_expr(ir::ceil_div(longest_row(), in_one_turn()))),
                .shared = host_expr(plan_.shared_bytes),
                .max_shared = ir::bounds(plan_.shared_bytes).max};
    }
    return {.grid = fmt::format("grid_for(count, {})", kThreads * pack), .block = std::to_string(kThreads)};
  }

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
    if (dims > 0 && !plan_.whole)
      member_.write_valid(plan_.outer[plan_.lane], fmt::format("i{}", plan_.lane));
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
    member_.write_pack(m, fmt::format("value{}", m));
    k_.close();
  }

  // -------------------------------------------------------------------------------------------- columns

  // All warps of the block compute the members at the same points; the first warp stores them. Lanes after
  // the last pack repeat it.
  void write_columns() {
    declare_packs();
    k_.line(fmt::format("const {} all = {} * packs;", index_, k_.operand(ir::numel(other_sizes()), {})));
    k_.open(fmt::format(
        "for ({} first = blockIdx.x * kWarpSize; first < all; first += gridDim.x * kWarpSize)", index_));
    k_.line(fmt::format("const {} own = first + threadIdx.x, at = own < all ? own : all - 1;", index_));
    k_.line("const bool stores = threadIdx.y == 0 && own < all;");
    find_point();
    if (!plan_.whole) member_.write_valid(plan_.outer[plan_.lane], fmt::format("i{}", plan_.lane));
    for (std::size_t m = 0; m < plan_.members.size(); ++m) write_point_member(m);
    k_.close();
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

  void write_tiles() {
    const std::string lane = fmt::format("i{}", plan_.lane), across = fmt::format("i{}", plan_.across);
    k_.line("constexpr int side = tile_side(pack), packs = side / pack;");
    for (const TiledLoad& load : tiled_loads()) {
      const std::string name = MemberWriter::tile_name(load.member, load.instr);
      const ir::Instr& instr = plan_.members[load.member].loops.body.instrs[load.instr];
      k_.line(fmt::format("using {}_type = Tile<{}, pack>;", name, memory_type(graph_[instr.buffer].dtype)));
      k_.line(
          fmt::format("using {0}_pack = Pack<{1}, pack>;", name, memory_type(graph_[instr.buffer].dtype)));
      k_.line(fmt::format("BRAID_SHARED({0}_pack, {0}_packs, {0}_type::kSize);", name));
      k_.line(fmt::format("const {0}_type {0}{{{0}_packs}};", name));
    }
    k_.line(fmt::format("const {} tiles0 = ({} + side - 1) / side, tiles1 = ({} + side - 1) / side;", index_,
                        extent(plan_.lane), extent(plan_.across)));
    k_.open(fmt::format("for ({} block = blockIdx.x; block < {} * tiles0 * tiles1; block += gridDim.x)",
                        index_, k_.operand(ir::numel(other_sizes()), {})));
    k_.line(fmt::format("const {} first0 = block % tiles0 * side, first1 = block / tiles0 % tiles1 * side;",
                        index_));
    find_others("block / tiles0 / tiles1");
    open_tile(lane, "at / packs", across, "at % packs * pack");
    if (!across_whole()) member_.write_valid(plan_.outer[plan_.across], across);
    for (const TiledLoad& load : tiled_loads()) write_tiled_load(load);
    k_.close();
    k_.line("__syncthreads();");
    open_tile(lane, "at % packs * pack", across, "at / packs");
    if (!plan_.whole) member_.write_valid(plan_.outer[plan_.lane], lane);
    for (std::size_t m = 0; m < plan_.members.size(); ++m) write_point_member(m);
    k_.close();
    k_.line("__syncthreads();");  // before the next tile takes the place of this one
    k_.close();
  }

  void open_tile(const std::string& lane, const char* lane_at, const std::string& across,
                 const char* across_at) {
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
    k_.line(fmt::format("{}.store(at / packs, at % packs, load_pack<pack>({} + {}{}));",
                        MemberWriter::tile_name(load.member, load.instr), k_.input(instr.buffer),
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
    k_.line(fmt::format("x{}[j] = {};", n, member_.packed_load(member, instr)));
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
    for (std::size_t k = 0; k < body.instrs.size(); ++k) member_.define(m, k);
    k_.line(fmt::format("value{} = {};", m, member_.result(m, graph_[member.out].dtype)));
    if (member.local) return;
    // If the plan puts the result in the place of an operand, all threads must read before the first one
    // writes.
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
    member_.define_before_turns(m);
    open_turns(member);
    member_.open_pack(m);
    member_.open_elements(m);
    k_.line(fmt::format("folded = {}::apply<{}>(folded, {});", how, acc_type, member_.result(m, acc)));
    member_.close_elements();
    close_turns();
    k_.line(fmt::format(
        "value{} = {};", m,
        converted(fmt::format("{}<{}>(folded)", warp() ? "warp_reduce" : "block_reduce", how), acc, type)));
    store_of_first_lane(m);
  }

  void write_row(std::size_t m) {
    const Member& member = plan_.members[m];
    member_.define_before_turns(m);
    open_turns(member);
    std::string target = fmt::format("row{}[j]", m);
    if (member.held != Held::registers) {
      target = "value";
      k_.line(fmt::format("Pack<{}, pack> value;", memory_type(graph_[member.out].dtype)));
    }
    member_.write_pack(m, target);
    if (member.held == Held::shared)
      k_.line(
          fmt::format("store_pack(row{} + {}, {}{});", m, column(member), target, member_.valid_argument()));
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
    if (!plan_.whole) member_.write_valid(m.extent(), at);
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
  MemberWriter member_;
  bool guarded_ = false;
};

}  // namespace

Launch loop_kernel(const ir::Graph& graph, const LoopPlan& plan, std::int64_t portable_shared_bytes) {
  return LoopWriter(graph, plan, portable_shared_bytes).write();
}

}  // namespace braid::codegen::cuda
