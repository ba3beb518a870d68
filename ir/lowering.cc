// Boxes, elementwise operations and reductions.
#include "ir/lowering.h"

#include <algorithm>

#include "ir/coordinate.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "ir/lowering_internal.h"
#include "ir/measured_dims.h"

namespace braid::ir {
namespace {

constexpr std::size_t kMaxBody = 256;  // instructions in one lazy body; beyond, operands are realized

}  // namespace

std::vector<Expr> index_symbols(ExprPool& pool, std::size_t count) {
  std::vector<Expr> indices(count);
  for (std::size_t k = 0; k < count; ++k) indices[k] = pool.index(k);
  return indices;
}

LoopBody simplify_body(const LoopBody& body, const std::vector<Expr>& sizes) {
  LoopBody out = body;
  for (Instr& instr : out.instrs) {
    Expr e = substitute(instr.index, [&](Expr s) -> std::optional<Expr> {
      if (!s.is_symbol(SymbolKind::index)) return std::nullopt;
      const auto k = static_cast<std::size_t>(s.symbol_number());
      if (k < sizes.size() && sizes[k].is_constant(1)) return Expr(0);
      return std::nullopt;
    });
    instr.index = simplify(e, sizes);
  }
  return out;
}

Expr flat_index(std::span<const Expr> index, std::span<const Expr> strides) {
  Expr flat = 0;
  for (std::size_t k = 0; k < index.size(); ++k) flat = flat + index[k] * strides[k];
  return flat;
}

bool divides(Expr e) {
  switch (e.kind()) {
    case ExprKind::constant:
    case ExprKind::symbol:
      return false;
    case ExprKind::polynomial: {
      const std::vector<Term> all = terms(e);
      return std::any_of(all.begin(), all.end(), [](const Term& t) {
        return std::any_of(t.atoms.begin(), t.atoms.end(), [](Expr a) { return divides(a); });
      });
    }
    default: {
      // A quotient of dimensions is a number; one of loop indices costs a division per element.
      bool indexed = false;
      for_each_symbol(e, [&](Expr s) { indexed |= s.is_symbol(SymbolKind::index); });
      return indexed && (e.kind() == ExprKind::floor_div || e.kind() == ExprKind::mod || divides(e.lhs()) ||
                         divides(e.rhs()));
    }
  }
}

void merge_origins(std::vector<std::string>& into, const std::vector<std::string>& from) {
  for (const std::string& o : from) {
    if (std::find(into.begin(), into.end(), o) == into.end()) into.push_back(o);
  }
}

const std::vector<Expr>& box_sizes(const Graph& graph, const StorageBox& box, std::vector<Expr>& scratch) {
  if (const auto* p = std::get_if<Pointwise>(&box.data)) return p->sizes;
  if (const auto* r = std::get_if<Reduction>(&box.data)) {
    scratch.assign(r->sizes.begin(), r->sizes.end() - r->reduced);
    return scratch;
  }
  return graph[std::get<BufferId>(box.data)].sizes;
}

// ----------------------------------------------------------------------------------------------------------
// boxes

TensorBox Lowering::box(StorageBox storage, DType dtype) {
  if (!origin_.empty()) merge_origins(storage.origins, {origin_});
  TensorBox x;
  storage.depth = depth_;
  x.box_ = std::make_shared<StorageBox>(std::move(storage));
  x.dtype_ = dtype;
  std::vector<Expr> scratch;
  x.sizes_ = box_sizes(graph_, *x.box_, scratch);
  x.map_ = index_symbols(pool(), x.sizes_.size());
  track(x.box_);
  return x;
}

TensorBox Lowering::from_buffer(BufferId buffer) {
  TensorBox x;
  x.box_ = std::make_shared<StorageBox>(StorageBox{buffer, graph_[buffer].name, {}, depth_});
  x.dtype_ = graph_[buffer].dtype;
  x.sizes_ = graph_[buffer].sizes;
  x.map_ = index_symbols(pool(), x.sizes_.size());
  track(x.box_);
  return x;
}

TensorBox Lowering::input(const std::string& name, DType dtype, std::vector<Expr> sizes) {
  const BufferId b = graph_.add_owned(name, dtype, std::move(sizes), StorageKind::input);
  graph_.inputs.push_back({name, b});
  return from_buffer(b);
}

TensorBox Lowering::constant(const std::string& name, DType dtype, std::vector<std::int64_t> sizes,
                             ConstantData data) {
  const BufferId b =
      graph_.add_owned(name, dtype, std::vector<Expr>(sizes.begin(), sizes.end()), StorageKind::constant);
  graph_[graph_[b].storage].data = std::move(data);
  return from_buffer(b);
}

TensorBox Lowering::full(std::vector<Expr> sizes, DType dtype, double value) {
  return generate(std::move(sizes),
                  [&](BodyBuilder& b, std::span<const Expr>) { return b.constant_of(dtype, value); });
}

TensorBox Lowering::scalar(DType dtype, double value) { return full({}, dtype, value); }

void Lowering::set_name(const TensorBox& x, const std::string& name) {
  if (!x.box_->realized() && x.box_->name.empty()) x.box_->name = name;
}

std::vector<OpId> Lowering::order() {
  internal_check(frames_.size() == 1, "the order of the program is asked for inside of a region");
  for (std::size_t k = 0; k < graph_.buffers.size(); ++k) freeze(BufferId{static_cast<std::int32_t>(k)});
  return frames_[0];
}

OpId Lowering::emit(Operation op) {
  const OpId id = graph_.add_op(std::move(op));
  frames_[depth_].push_back(id);
  return id;
}

// ----------------------------------------------------------------------------------------------------
// elementwise

namespace {

bool depends_on_values(Expr e) {
  bool found = false;
  for_each_symbol(e, [&](Expr symbol) { found |= symbol.is_symbol(SymbolKind::value); });
  return found;
}

}  // namespace

ValueId Lowering::load(BodyBuilder& body, const TensorBox& x, std::span<const Expr> index,
                       std::optional<ValueId> mask) {
  internal_check(index.size() == x.rank(), "load of a rank {} tensor with {} indices", x.rank(),
                 index.size());
  // A checked index that is out of range becomes 0, and the step an error. An empty tensor has no element 0:
  // its load is masked.
  for (std::size_t k = 0; k < index.size(); ++k) {
    const Expr size = x.sizes()[k];
    if (bounds(size).min > 0 || !depends_on_values(index[k])) continue;
    const ValueId any = body.binary(OpCode::gt, body.index(size), body.index(0));
    mask = mask ? body.binary(OpCode::logical_and, *mask, any) : any;
  }
  std::vector<Expr> at(x.map_.size());
  for (std::size_t k = 0; k < at.size(); ++k) at[k] = substitute_indices(x.map_[k], index);
  if (const auto* pointwise = std::get_if<Pointwise>(&x.box_->data); pointwise && !mask) {
    return body.inline_body(pointwise->body, at);
  }
  const BufferId buffer = realize_box(*x.box_);
  freeze(buffer);
  const Buffer& b = graph_[buffer];
  if (b.storage.valid() && graph_[b.storage].kind == StorageKind::constant && numel(b.sizes).is_constant(1) &&
      graph_[b.storage].data.per_rank.size() == 1 && !mask) {
    const std::byte* bytes = graph_[b.storage].data.per_rank[0].data();
    auto as = [&]<class T>(T value) {
      std::copy_n(bytes, sizeof(T), reinterpret_cast<std::byte*>(&value));
      return value;
    };
    if (b.dtype == DType::f32) return body.constant(b.dtype, static_cast<double>(as(float{})));
    if (b.dtype == DType::f64) return body.constant(b.dtype, as(double{}));
    if (b.dtype == DType::i64) return body.constant(b.dtype, as(std::int64_t{}));
    if (b.dtype == DType::i32) return body.constant(b.dtype, std::int64_t{as(std::int32_t{})});
    if (b.dtype == DType::boolean) return body.constant(b.dtype, std::int64_t{as(std::uint8_t{}) != 0});
  }
  return body.load(buffer, b.dtype, flat_index(at, strides_of(graph_, buffer)), mask);
}

TensorBox Lowering::generate(std::vector<Expr> sizes, const GenerateFn& compute) {
  BodyBuilder b(pool());
  const std::vector<Expr> index = index_symbols(pool(), sizes.size());
  LoopBody body = b.finish(compute(b, index));
  body = simplify_body(body, sizes);
  const DType dtype = body.result_dtype();
  return box({Pointwise{std::move(sizes), std::move(body)}, {}, {}}, dtype);
}

SizesNeverFit::SizesNeverFit(std::string node, Expr a, Expr b, std::string_view relation)
    : UserError(errors::kSizesDiffer, {.node = std::move(node)},
                fmt::format("the size {} can never be {} {}", to_string(a), relation, to_string(b)),
                "check the shapes of the inputs and the bounds of the dimensions"),
      numbers_(a.is_constant() && b.is_constant()) {}

void Lowering::require_equal(Expr a, Expr b) {
  if (a == b) return;
  const Bounds x = bounds(a), y = bounds(b), d = bounds(a - b);
  if (x.max < y.min || y.max < x.min || d.min > 0 || d.max < 0) {
    throw SizesNeverFit(origin_, a, b, "equal to");
  }
  if (compare(a, b) > 0) std::swap(a, b);
  add_guard({a, b, Guard::Relation::equal, origin_});
}

void Lowering::require_at_most(Expr a, Expr b) {
  if (provably_non_negative(b - a)) return;
  if (bounds(b - a).max < 0) {
    throw SizesNeverFit(origin_, a, b, "at most");
  }
  add_guard({a, b, Guard::Relation::less_equal, origin_});
}

void Lowering::add_guard(Guard guard) {
  if (depends_on_rank(guard.lhs) || depends_on_rank(guard.rhs)) {
    user_error(
        errors::kSizesDiffer, {.node = origin_},
        fmt::format("whether {} and {} fit depends on the rank", to_string(guard.lhs), to_string(guard.rhs)),
        "sizes must be equal on all ranks");
  }
  const bool known = std::any_of(graph_.guards.begin(), graph_.guards.end(), [&](const Guard& g) {
    return g.relation == guard.relation && g.lhs == guard.lhs && g.rhs == guard.rhs;
  });
  if (!known) graph_.guards.push_back(std::move(guard));
}

TensorBox Lowering::expand(TensorBox x, std::vector<Expr> sizes) {
  const std::size_t rank = std::max(x.rank(), sizes.size());
  std::vector<Expr> result(rank), map(x.rank());
  for (std::size_t k = 0; k < rank; ++k) {
    // Dimensions are matched from the last one.
    const bool in_x = k + x.rank() >= rank, in_sizes = k + sizes.size() >= rank;
    const std::size_t xk = k + x.rank() - rank;
    const Expr have = in_x ? x.sizes()[xk] : Expr(1);
    const Expr want = in_sizes ? sizes[k + sizes.size() - rank] : Expr(1);
    if (have.is_constant(1)) {
      result[k] = want;
    } else if (want.is_constant(1)) {
      result[k] = have;
    } else if (is_measured(graph_, want) && provably_less(1, have)) {
      require_equal((want - 1) * (want - have), 0);  // 1, which repeats, or the same
      result[k] = have;
    } else {
      require_equal(have, want);
      result[k] = want.is_constant() ? want : have;
    }
    if (in_x) map[xk] = have.is_constant(1) ? Expr(0) : pool().index(k);
  }
  return view(std::move(x), std::move(result), std::move(map));
}

TensorBox Lowering::pointwise(std::vector<TensorBox> inputs, const PointwiseFn& compute) {
  std::vector<Expr> sizes;
  for (const TensorBox& x : inputs) {
    const std::size_t rank = std::max(sizes.size(), x.rank());
    std::vector<Expr> merged(rank);
    for (std::size_t k = 0; k < rank; ++k) {
      const Expr a = k + sizes.size() >= rank ? sizes[k + sizes.size() - rank] : Expr(1);
      const Expr b = k + x.rank() >= rank ? x.sizes()[k + x.rank() - rank] : Expr(1);
      if (a.is_constant(1) || b.is_constant(1)) {
        merged[k] = a.is_constant(1) ? b : a;
      } else {
        require_equal(a, b);
        merged[k] = b.is_constant() ? b : a;
      }
    }
    sizes = std::move(merged);
  }
  for (TensorBox& x : inputs) x = expand(std::move(x), sizes);
  auto build = [&] {
    return generate(sizes, [&](BodyBuilder& b, std::span<const Expr> index) {
      std::vector<ValueId> values;
      for (const TensorBox& x : inputs) values.push_back(load(b, x, index));
      return compute(b, values);
    });
  };
  TensorBox out = build();
  if (std::get<Pointwise>(out.box_->data).body.instrs.size() > kMaxBody) {
    for (TensorBox& x : inputs) x = realize(std::move(x));
    out = build();
  }
  std::vector<std::string> origins;
  for (const TensorBox& x : inputs) {
    if (!x.box_->realized()) merge_origins(origins, x.box_->origins);
  }
  merge_origins(origins, out.box_->origins);
  out.box_->origins = std::move(origins);
  return out;
}

TensorBox Lowering::cast(TensorBox x, DType dtype) {
  if (x.dtype() == dtype) return x;
  return pointwise({std::move(x)},
                   [&](BodyBuilder& b, std::span<const ValueId> v) { return b.cast(v[0], dtype); });
}

// ------------------------------------------------------------------------------------------------------
// reductions

TensorBox Lowering::reduce(TensorBox x, ReduceKind kind, std::vector<int> axes, bool keepdims) {
  const std::size_t rank = x.rank();
  std::vector<bool> reduced(rank, false);
  for (int a : axes) reduced[static_cast<std::size_t>(a)] = true;
  Reduction r;
  r.reduce = kind;
  std::vector<Expr> kept_sizes, source(rank);
  for (bool pass : {false, true}) {
    for (std::size_t k = 0; k < rank; ++k) {
      if (reduced[k] != pass) continue;
      source[k] = pool().index(r.sizes.size());
      r.sizes.push_back(x.sizes()[k]);
      if (pass) ++r.reduced;
    }
  }
  std::vector<std::string> origins;
  if (!x.box_->realized()) origins = x.box_->origins;
  TensorBox out;
  if (r.reduced == 0) {
    out = x;
  } else {
    BodyBuilder b(pool());
    r.body = simplify_body(b.finish(load(b, x, source)), r.sizes);
    out = box({std::move(r), {}, std::move(origins)}, x.dtype());
  }
  if (!keepdims) return out;
  std::vector<Expr> sizes(rank), map;
  for (std::size_t k = 0; k < rank; ++k) {
    sizes[k] = reduced[k] ? Expr(1) : x.sizes()[k];
    if (!reduced[k] || axes.empty()) map.push_back(pool().index(k));
  }
  return view(std::move(out), std::move(sizes), std::move(map));
}

}  // namespace braid::ir
