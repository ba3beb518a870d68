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
#include "ir/kernel_parts.h"
#include "ir/loop_body.h"
#include "ir/typing.h"
#include "runtime/device/product_tile.h"

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
  // A single line may have any stride; that of several dimensions which are lines together is the last one's.
  const auto stride = [&](std::size_t outer) {
    return aligned(ref.strides[outer]) ? ref.strides[outer] : Expr(kChunk);
  };
  if (contiguous(depth, lines)) return Lines{true, stride(lines)};
  if (contiguous(lines, depth)) return Lines{false, stride(depth)};
  return std::nullopt;
}

struct Plan {
  Lines a, b;                     // without `a` for a convolution
  std::size_t first_row_dim = 0;  // dimensions from here to the last but one are rows of one matrix
  LoopPlan epilogue;
};

bool has_types(const ir::Graph& graph, const ir::Product& product) {
  const DType in = graph[product.a.buffer].dtype, out = graph[product.out.buffer].dtype;
  if ((in != DType::f16 && in != DType::bf16) || graph[product.b.buffer].dtype != in || product.tf32)
    return false;
  if (out != in && out != DType::f32) return false;
  if (!product.epilogue) return true;
  return std::ranges::all_of(product.epilogue->instrs, [](const ir::Instr& instr) {
    return instr.code != ir::OpCode::acc || instr.dtype == DType::f32;
  });
}

std::int64_t most_operations(const ir::Product& product, Expr depth) {
  return ir::bounds(ir::numel(product.out.sizes) * depth * 2).max;
}

// Without an epilogue, sums are only converted.
LoopPlan epilogue_of(const ir::Graph& graph, ir::Product product) {
  if (!product.epilogue) {
    ir::BodyBuilder body(*graph.pool);
    product.epilogue = body.finish(body.cast(body.acc(DType::f32), graph[product.out.buffer].dtype));
  }
  return plan_epilogue(graph, product, kChunk);
}

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
  const std::size_t rank = product.out.sizes.size();
  if (!has_types(graph, product) || !product.epilogue || rank < 2 || product.a.sizes.size() != rank ||
      product.b.sizes.size() != rank || most_operations(product, product.a.sizes[rank - 1]) > kMostOperations)
    return std::nullopt;
  const std::optional<Lines> a = lines_of(graph, product.a, rank - 2, rank - 1);
  const std::optional<Lines> b = lines_of(graph, product.b, rank - 1, rank - 2);
  if (!a || !b || !ir::provably_multiple(product.out.sizes[rank - 1], kChunk)) return std::nullopt;
  Plan plan{*a, *b, first_row_dim(product), epilogue_of(graph, product)};
  // The library and a loop store packs.
  if (plan.epilogue.pack < 4 || !plan.epilogue.whole || !plan.epilogue.members[0].packed_store)
    return std::nullopt;
  // Folded rows of an operand across the depth would be columns of several matrices.
  if (!a->along_depth) plan.first_row_dim = rank - 2;
  return plan;
}

// The dimensions of a convolution, by the names that ir::Convolution's comment gives them.
struct Windows {
  std::size_t spatial;
  Expr groups, channels, filters, terms;
  explicit Windows(const ir::Convolution& k)
      : spatial(k.windows.size()),
        groups(k.b.sizes.front()),
        channels(k.b.sizes[spatial + 1]),
        filters(k.b.sizes[spatial + 2]),
        terms(ir::numel(std::span(k.b.sizes).subspan(1, spatial + 1))) {}
};

bool takes_images(const ir::Graph& graph, const ir::Convolution& k) {
  const Windows of(k);
  if (k.transposed || of.spatial < 1 || of.spatial > 2 || !has_types(graph, k)) return false;
  const auto aligned = [](Expr e) { return ir::provably_multiple(e, kChunk); };
  if (!aligned(of.channels) || !aligned(of.filters) || !k.a.strides.back().is_constant(1)) return false;
  // The kernel divides the depth by the channels.
  if (ir::bounds(of.channels).min <= 0) return false;
  for (std::size_t d = 0; d < of.spatial; ++d) {
    const int most = rt::device::kMostTaps[d + 2 - of.spatial];
    if (!aligned(k.a.strides[d + 1]) || k.windows[d].taps > most) return false;
  }
  const std::int64_t bytes = ir::size_of(graph[k.a.buffer].dtype);
  if (!aligned(k.a.strides[0]) ||
      !ir::provably_multiple(ir::region(graph, k.a.buffer).offset + k.a.offset * bytes, kChunk * bytes))
    return false;
  // Kernels number lines and the elements of all images in 32 bits, also those beside an image.
  Expr span = ir::numel(k.out.sizes);
  for (std::size_t d = 0; d <= of.spatial; ++d) span = span + (k.a.sizes[d] + 64) * k.a.strides[d];
  return fits_int32(span);
}

std::optional<Plan> plan_convolution(const ir::Graph& graph, const ir::Convolution& k) {
  if (!takes_images(graph, k)) return std::nullopt;
  const Windows of(k);
  // [g, m, terms]
  const ir::TensorRef rows{k.b.buffer,
                           k.b.offset,
                           {of.groups, of.filters, of.terms},
                           {k.b.strides.front(), k.b.strides.back(), 1}};
  Expr step = 1;
  for (std::size_t d = of.spatial + 1; d > 0; --d) {
    if (k.b.strides[d] != step && !k.b.sizes[d].is_constant(1)) return std::nullopt;
    step = step * k.b.sizes[d];
  }
  const std::optional<Lines> b = lines_of(graph, rows, 1, 2);
  if (!b || !b->along_depth) return std::nullopt;
  return Plan{{}, *b, 0, epilogue_of(graph, k)};
}

class Writer {
 public:
  Writer(const ir::Graph& graph, const ir::Operation& op, Plan plan)
      : graph_(graph),
        convolution_(op.as<ir::Convolution>()),
        product_(*ir::as_product(op.kernel)),
        plan_(std::move(plan)),
        last_(product_.out.sizes.size() - 1),
        k_(graph, wide()),
        member_(graph, plan_.epilogue, k_, plan_.epilogue.pack < kChunk ? "sums[part + e]" : "sums[e]") {}

  Launch write() {
    const std::vector<Expr>& sizes = product_.out.sizes;
    const Expr rows = ir::numel(std::span(sizes).subspan(plan_.first_row_dim, last_ - plan_.first_row_dim));
    const Expr columns = convolution_ != nullptr ? Windows(*convolution_).filters : sizes[last_];
    k_.line(fmt::format("constexpr int pack = {};", plan_.epilogue.pack));
    k_.line(fmt::format("const ResultSizes sizes{{{}, {}}};", size(rows), size(columns)));
    k_.line("const TilePlace place = tile_place<Tile>(sizes);");
    if (convolution_ != nullptr)
      write_windows(Windows(*convolution_));
    else
      write_matrices();
    write_epilogue();
    k_.close("});");

    Launch launch = k_.finish();
    launch.kernel.varies = "class Tile";
    launch.kernel.header = "runtime/device/tile_product.h";
    launch.wanted_name = convolution_ != nullptr ? "tile_convolution" : "tile_product";
    launch.count = host_expr(ir::numel(sizes));
    const Expr matrices = convolution_ != nullptr ? Windows(*convolution_).groups
                                                  : ir::numel(std::span(sizes).first(plan_.first_row_dim));
    launch.locals = {
        {"rows", host_expr(rows)}, {"columns", host_expr(columns)}, {"matrices", host_expr(matrices)}};
    launch.variants = variants(rows, columns, matrices);
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
    if (convolution_ != nullptr) return out;
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
  std::string size(Expr e) {
    return e.is_constant() ? fmt::format("{}", e.constant())
                           : fmt::format("static_cast<int>({})", k_.expr(e, {}));
  }
  std::string element() const { return memory_type(graph_[product_.a.buffer].dtype); }
  void open_product(Expr depth) {
    k_.open(fmt::format(
        "tile_product<Tile>(a, b, {}, place, sizes, [&](int row, int column, const float (&sums)[{}])",
        size(depth), kChunk));
  }

  void write_matrices() {
    k_.decompose("place.matrix", range(0, plan_.first_row_dim), product_.out.sizes,
                 std::vector<bool>(last_ + 1, true));
    const auto write = [&](const char* name, const ir::TensorRef& ref, const Lines& lines,
                           const char* count) {
      k_.line(fmt::format("const {}<{}> {}{{{} + {}, {}, sizes.{}}};",
                          lines.along_depth ? "RowsAlongDepth" : "RowsAcrossDepth", element(), name,
                          k_.input(ref.buffer), k_.operand(offset(ref), product_.out.sizes),
                          k_.expr(lines.stride, {}), count));
    };
    write("a", product_.a, plan_.a, "rows");
    write("b", product_.b, plan_.b, "columns");
    open_product(product_.a.sizes[last_]);
  }

  void write_windows(const Windows& of) {
    const ir::Convolution& k = *convolution_;
    const auto first_of = [&](const ir::TensorRef& ref, Expr group) {
      return fmt::format("{} + {} + static_cast<int64_t>(place.matrix) * {}", k_.input(ref.buffer),
                         k_.operand(ref.offset, {}), k_.operand(group, {}));
    };
    // In two dimensions: those of one have rows of a single pixel's height.
    const auto pair = [&](Expr row, const auto& of_dimension) {
      return fmt::format("{{{}, {}}}", of.spatial == 2 ? size(of_dimension(0)) : size(row),
                         size(of_dimension(of.spatial - 1)));
    };
    const auto window = [&](std::size_t d) -> const ir::Window& { return k.windows[d]; };
    k_.line(fmt::format("const ImageWindows<{}> a{{", element()));
    k_.line(fmt::format("    .data = {}, .lines = sizes.rows, .channels = {},", first_of(k.a, of.channels),
                        size(of.channels)));
    k_.line(fmt::format("    .image = {}, .step = {},", size(k.a.strides[0]),
                        pair(0, [&](std::size_t d) { return k.a.strides[d + 1]; })));
    k_.line(fmt::format("    .size = {}, .out = {},",
                        pair(1, [&](std::size_t d) { return k.a.sizes[d + 1]; }),
                        pair(1, [&](std::size_t d) { return k.out.sizes[d + 1]; })));
    k_.line(fmt::format("    .taps = {}, .stride = {}, .dilation = {}, .pad = {}}};",
                        pair(1, [&](std::size_t d) { return Expr(window(d).taps); }),
                        pair(1, [&](std::size_t d) { return Expr(window(d).stride); }),
                        pair(1, [&](std::size_t d) { return Expr(window(d).dilation); }),
                        pair(0, [&](std::size_t d) { return window(d).pad; })));
    k_.line(fmt::format("const RowsAlongDepth<{}> b{{{}, {}, sizes.columns}};", element(),
                        first_of(k.b, k.b.strides.front()), k_.expr(plan_.b.stride, {})));
    open_product(of.terms);
  }

  void write_epilogue() {
    const LoopPlan& plan = plan_.epilogue;
    const LoopPlan::Member& member = plan.members[0];
    k_.decompose("row", range(plan_.first_row_dim, last_), product_.out.sizes, used_indices(member.loops));
    const bool parts = plan.pack < kChunk;
    if (parts) {
      k_.line("#pragma unroll");
      k_.open(fmt::format("for (int part = 0; part < {}; part += pack)", kChunk));
    }
    const bool groups = convolution_ != nullptr && !Windows(*convolution_).groups.is_constant(1);
    k_.line(fmt::format("const {} i{} = column{}{};", k_.index_type(), last_,
                        groups ? " + place.matrix * sizes.columns" : "", parts ? " + part" : ""));
    k_.line(fmt::format("Pack<{}, pack> results;", memory_type(graph_[member.out].dtype)));
    member_.write_pack(0, "results");
    if (parts) k_.close();
  }

  // Whether there are as many tiles as processors, at the largest sizes and on a small GPU.
  template <class Tile>
  static bool may_occupy_device(Expr rows, Expr columns, Expr matrices) {
    constexpr std::int64_t kFewProcessors = 8;
    return rt::device::tile_grid<Tile>(ir::bounds(rows).max, ir::bounds(columns).max,
                                       ir::bounds(matrices).max) >= kFewProcessors;
  }

  // Without those that no size of the dims needs, because nvcc compiles each.
  static std::vector<Variant> variants(Expr rows, Expr columns, Expr matrices) {
    using namespace rt::device;
    const ir::Bounds of_rows = ir::bounds(rows), of_columns = ir::bounds(columns);
    if (of_rows.max <= FlatTile::kRows) return {variant<FlatTile>("FlatTile", "")};
    const auto occupies = [](const std::string& tile) {
      return fmt::format("occupies_device(tile_grid<{}>(rows, columns, matrices))", tile);
    };
    std::vector<Variant> out;
    if (of_rows.min <= FlatTile::kRows)
      out.push_back(variant<FlatTile>("FlatTile", "rows <= FlatTile::kRows"));
    if (of_columns.min <= TallTile::kColumns && may_occupy_device<TallTile>(rows, columns, matrices))
      out.push_back(
          variant<TallTile>("TallTile", "columns <= TallTile::kColumns && " + occupies("TallTile")));
    if (of_columns.max > TallTile::kColumns && may_occupy_device<LargeTile>(rows, columns, matrices))
      out.push_back(variant<LargeTile>("LargeTile", occupies("LargeTile")));
    out.push_back(variant<SmallTile>("SmallTile", ""));
    return out;
  }

  template <class Tile>
  static Variant variant(const std::string& name, const std::string& condition) {
    return {.argument = name,
            .condition = condition,
            .grid = fmt::format("static_cast<unsigned>(tile_grid<{}>(rows, columns, matrices))", name),
            .block = name + "::kThreads",
            .shared = name + "::kSharedBytes",
            .max_shared = Tile::kSharedBytes};
  }

  const ir::Graph& graph_;
  const ir::Convolution* const convolution_;  // null: a product of matrices
  const ir::Product& product_;
  const Plan plan_;
  const std::size_t last_;  // dimension
  KernelBuilder k_;
  MemberWriter member_;
};

}  // namespace

bool takes_tile_product(const ir::Graph& graph, const ir::Product& product) {
  return plan_product(graph, product).has_value();
}

bool takes_tile_convolution(const ir::Graph& graph, const ir::Convolution& convolution) {
  return plan_convolution(graph, convolution).has_value();
}

bool prefers_tile_convolution(const ir::Graph& graph, const ir::Convolution& convolution) {
  if (!takes_images(graph, convolution)) return false;
  const bool pixels = std::ranges::all_of(convolution.windows, [](const ir::Window& w) {
    return w.taps == 1 && w.stride == 1 && w.pad.is_constant(0);
  });
  const Windows of(convolution);
  return !pixels && (ir::bounds(of.filters).max <= kMostFilters ||
                     most_operations(convolution, of.terms) <= kMostOperations);
}

Launch tile_product_kernel(const ir::Graph& graph, ir::OpId op, bool precise) {
  const auto* convolution = graph[op].as<ir::Convolution>();
  std::optional<Plan> plan = convolution != nullptr ? plan_convolution(graph, *convolution)
                                                    : plan_product(graph, *graph[op].as<ir::Gemm>());
  ir::internal_check(plan.has_value(), "'{}' is no product for a tile kernel", graph[op].name);
  if (!precise) choose_forms(graph, plan->epilogue);
  return Writer(graph, graph[op], *std::move(plan)).write();
}

}  // namespace braid::codegen::cuda
