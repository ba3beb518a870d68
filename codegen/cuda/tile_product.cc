#include "codegen/cuda/tile_product.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "codegen/cuda/forms.h"
#include "codegen/cuda/loop_plan.h"
#include "codegen/cuda/member_writer.h"
#include "codegen/cuda/scalar.h"
#include "ir/error.h"
#include "ir/typing.h"

namespace braid::codegen::cuda {
namespace {

using ir::DType;
using ir::Expr;

constexpr std::int64_t kChunk = 8;  // elements that move at once, and results of a row in one thread

// An operand as the kernel loads it.
struct Lines {
  bool along_depth = true;
  Expr stride = 0;  // elements from one line to the next; across the depth, from one row to the next
};

// `lines` and `depth` are the operand's dimensions.
std::optional<Lines> lines_of(const ir::Graph& graph, const ir::TensorRef& ref, std::size_t lines,
                              std::size_t depth) {
  const auto aligned = [](Expr e) { return ir::provably_multiple(e, kChunk); };
  const std::int64_t bytes = ir::size_of(graph[ref.buffer].dtype);
  const Expr begin = ir::region(graph, ref.buffer).offset + ref.offset * bytes;
  if (!ir::provably_multiple(begin, kChunk * bytes)) return std::nullopt;
  for (std::size_t d = 0; d + 2 < ref.sizes.size(); ++d) {
    if (!aligned(ref.strides[d]) && !ref.sizes[d].is_constant(1)) return std::nullopt;
  }
  const auto contiguous = [&](std::size_t inner, std::size_t outer) {
    return ref.strides[inner].is_constant(1) && aligned(ref.sizes[inner]) &&
           (aligned(ref.strides[outer]) || ref.sizes[outer].is_constant(1));
  };
  const auto stride = [&](std::size_t outer) {
    return ref.sizes[outer].is_constant(1) ? Expr(kChunk) : ref.strides[outer];
  };
  if (contiguous(depth, lines)) return Lines{true, stride(lines)};
  if (contiguous(lines, depth)) return Lines{false, stride(depth)};
  return std::nullopt;
}

struct Plan {
  Lines a, b;
  std::size_t first_row_dim = 0;  // dimensions from here to the last but one are rows of one matrix
  LoopPlan epilogue;
};

// Batch dimensions that all use one right operand, and whose left operands lie one after another, are rows.
std::size_t first_row_dim(const ir::Product& product) {
  std::size_t first = product.out.sizes.size() - 2;
  while (first > 0 &&
         (product.b.strides[first - 1].is_constant(0) || product.b.sizes[first - 1].is_constant(1)) &&
         product.a.strides[first - 1] == product.a.strides[first] * product.a.sizes[first])
    --first;
  return first;
}

std::optional<Plan> plan_product(const ir::Graph& graph, const ir::Product& product) {
  const DType in = graph[product.a.buffer].dtype, out = graph[product.out.buffer].dtype;
  const std::size_t rank = product.out.sizes.size();
  if ((in != DType::f16 && in != DType::bf16) || graph[product.b.buffer].dtype != in ||
      (out != in && out != DType::f32))
    return std::nullopt;
  if (!product.epilogue || rank < 2 || product.a.sizes.size() != rank || product.b.sizes.size() != rank)
    return std::nullopt;
  for (const ir::Instr& instr : product.epilogue->instrs) {
    if (instr.code == ir::OpCode::acc && instr.dtype != DType::f32) return std::nullopt;
  }
  const Expr depth = product.a.sizes[rank - 1];
  if (ir::bounds(ir::numel(product.out.sizes) * depth * 2).max > kMostOperations) return std::nullopt;
  const std::optional<Lines> a = lines_of(graph, product.a, rank - 2, rank - 1);
  const std::optional<Lines> b = lines_of(graph, product.b, rank - 1, rank - 2);
  if (!a || !b || !ir::provably_multiple(product.out.sizes[rank - 1], kChunk)) return std::nullopt;
  Plan plan{*a, *b, first_row_dim(product), plan_epilogue(graph, product, kChunk)};
  const LoopPlan::Member& member = plan.epilogue.members[0];
  if (plan.epilogue.pack < 4 || !plan.epilogue.whole || !member.packed_store) return std::nullopt;
  // Folded rows of an operand across the depth would be columns of several matrices.
  if (!a->along_depth) plan.first_row_dim = rank - 2;
  return plan;
}

class Writer {
 public:
  Writer(const ir::Graph& graph, const ir::Gemm& product, Plan plan)
      : graph_(graph),
        product_(product),
        plan_(std::move(plan)),
        rank_(product_.out.sizes.size()),
        k_(graph, wide()),
        member_(graph, plan_.epilogue, k_, plan_.epilogue.pack < kChunk ? "sums[part + e]" : "sums[e]") {}

  Launch write() {
    const DType in = graph_[product_.a.buffer].dtype;
    const std::vector<Expr>& sizes = product_.out.sizes;
    rows_ = ir::numel(std::span(sizes).subspan(plan_.first_row_dim, rank_ - 1 - plan_.first_row_dim));
    k_.line(fmt::format("constexpr int pack = {};", plan_.epilogue.pack));
    k_.line(fmt::format("const ResultSizes sizes{{{}, {}}};", size(rows_), size(sizes[rank_ - 1])));
    k_.line("const TilePlace place = tile_place<Tile>(sizes);");
    std::vector<bool> used(rank_, true);
    k_.decompose("place.matrix", range(0, plan_.first_row_dim), sizes, used);
    const std::string type = memory_type(in);
    k_.line(fmt::format("const {} a{{{}, {}, {}}};", loader(plan_.a, type), first_of(product_.a),
                        k_.expr(plan_.a.stride, {}), "sizes.rows"));
    k_.line(fmt::format("const {} b{{{}, {}, {}}};", loader(plan_.b, type), first_of(product_.b),
                        k_.expr(plan_.b.stride, {}), "sizes.columns"));
    k_.open(fmt::format(
        "tile_product<Tile>(a, b, {}, place, sizes, [&](int row, int column, const float (&sums)[{}])",
        size(product_.a.sizes[rank_ - 1]), kChunk));
    write_epilogue();
    k_.close("});");

    Launch launch = k_.finish();
    launch.kernel.varies = "class Tile";
    launch.kernel.header = "runtime/device/tile_product.h";
    launch.wanted_name = "tile_product";
    launch.count = host_expr(ir::numel(sizes));
    launch.locals = {{"rows", host_expr(rows_)},
                     {"columns", host_expr(sizes[rank_ - 1])},
                     {"matrices", host_expr(ir::numel(std::span(sizes).first(plan_.first_row_dim)))}};
    launch.variants = {variant("FlatTile", "rows <= FlatTile::kRows"),
                       variant("LargeTile", "occupies_device(tile_grid<LargeTile>(rows, columns, matrices))"),
                       variant("SmallTile", "")};
    return launch;
  }

 private:
  static std::vector<std::size_t> range(std::size_t begin, std::size_t end) {
    std::vector<std::size_t> out(end - begin);
    std::iota(out.begin(), out.end(), begin);
    return out;
  }

  bool wide() const {
    bool out = needs_wide_index(graph_, plan_.epilogue.members[0].loops);
    for (const ir::TensorRef* ref : {&product_.a, &product_.b})
      out |= !fits_int32(offset(*ref), product_.out.sizes);
    return out;
  }

  // The first element of the matrix that a block multiplies.
  Expr offset(const ir::TensorRef& ref) const {
    Expr at = ref.offset;
    for (std::size_t d = 0; d < plan_.first_row_dim; ++d) at = at + graph_.pool->index(d) * ref.strides[d];
    return at;
  }
  std::string first_of(const ir::TensorRef& ref) {
    return fmt::format("{} + {}", k_.input(ref.buffer), k_.operand(offset(ref), product_.out.sizes));
  }
  std::string size(Expr e) { return fmt::format("static_cast<int>({})", k_.expr(e, {})); }

  static std::string loader(const Lines& lines, const std::string& type) {
    return fmt::format("{}<{}>", lines.along_depth ? "RowsAlongDepth" : "RowsAcrossDepth", type);
  }

  void write_epilogue() {
    const LoopPlan& plan = plan_.epilogue;
    const LoopPlan::Member& member = plan.members[0];
    std::vector<bool> used = used_indices(member.loops);
    const std::size_t last = rank_ - 1;
    k_.decompose("row", range(plan_.first_row_dim, last), product_.out.sizes, used);
    const bool parts = plan.pack < kChunk;
    if (parts) {
      k_.line("#pragma unroll");
      k_.open(fmt::format("for (int part = 0; part < {}; part += pack)", kChunk));
    }
    k_.line(fmt::format("const {} i{} = column{};", k_.index_type(), last, parts ? " + part" : ""));
    k_.line(fmt::format("Pack<{}, pack> results;", memory_type(graph_[member.out].dtype)));
    member_.write_pack(0, "results");
    if (parts) k_.close();
  }

  static Variant variant(const std::string& tile, const std::string& condition) {
    // The most that one of the tiles takes; the header's static_assert holds it.
    constexpr std::int64_t kMostShared = 64 * 1024;
    return {.argument = tile,
            .condition = condition,
            .grid = fmt::format("static_cast<unsigned>(tile_grid<{}>(rows, columns, matrices))", tile),
            .block = tile + "::kThreads",
            .shared = tile + "::kSharedBytes",
            .max_shared = tile == "LargeTile" ? kMostShared : 0};
  }

  const ir::Graph& graph_;
  const ir::Gemm& product_;
  const Plan plan_;
  const std::size_t rank_;
  KernelBuilder k_;
  MemberWriter member_;
  Expr rows_ = 0;
};

}  // namespace

bool takes_tile_product(const ir::Graph& graph, const ir::Product& product) {
  return plan_product(graph, product).has_value();
}

Launch tile_product_kernel(const ir::Graph& graph, ir::OpId op, bool precise) {
  const auto& product = *graph[op].as<ir::Gemm>();
  std::optional<Plan> plan = plan_product(graph, product);
  ir::internal_check(plan.has_value(), "'{}' is no product for a tile kernel", graph[op].name);
  if (!precise) choose_forms(graph, plan->epilogue);
  return Writer(graph, product, *std::move(plan)).write();
}

}  // namespace braid::codegen::cuda
