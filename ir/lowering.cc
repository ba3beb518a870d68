#include "ir/lowering.h"

#include <algorithm>

#include "ir/error.h"

namespace braid::ir {
namespace {

constexpr int kSizesDiffer = 305;
constexpr std::size_t kMaxBody = 256;       // instructions in one lazy body; beyond, operands are realized
constexpr std::size_t kMaxSharedLoads = 2;  // loads that every user of a shared body may repeat

std::vector<Expr> index_symbols(ExprPool& pool, std::size_t count) {
  std::vector<Expr> indices(count);
  for (std::size_t k = 0; k < count; ++k) indices[k] = pool.index(static_cast<int>(k));
  return indices;
}

// Indices of extent 1 are 0; the rest as the ranges allow.
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
      return indexed && (e.kind() == ExprKind::floor_div || e.kind() == ExprKind::mod || divides(e.lhs()) || divides(e.rhs()));
    }
  }
}

bool heavy(OpCode code) {
  switch (code) {
    case OpCode::exp:
    case OpCode::log:
    case OpCode::sqrt:
    case OpCode::rsqrt:
    case OpCode::erf:
    case OpCode::tanh:
    case OpCode::sigmoid:
    case OpCode::sin:
    case OpCode::cos:
    case OpCode::pow:
      return true;
    default:
      return false;
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

}  // namespace

// ---------------------------------------------------------------------------------------------------------- boxes

TensorBox Lowering::box(StorageBox storage, DType dtype) {
  if (!origin_.empty()) merge_origins(storage.origins, {origin_});
  TensorBox x;
  x.box_ = std::make_shared<StorageBox>(std::move(storage));
  x.dtype_ = dtype;
  std::vector<Expr> scratch;
  x.sizes_ = box_sizes(graph_, *x.box_, scratch);
  x.map_ = index_symbols(pool(), x.sizes_.size());
  return x;
}

TensorBox Lowering::from_buffer(BufferId buffer) {
  TensorBox x;
  x.box_ = std::make_shared<StorageBox>(StorageBox{buffer, graph_[buffer].name, {}});
  x.dtype_ = graph_[buffer].dtype;
  x.sizes_ = graph_[buffer].sizes;
  x.map_ = index_symbols(pool(), x.sizes_.size());
  return x;
}

TensorBox Lowering::input(const std::string& name, DType dtype, std::vector<Expr> sizes) {
  const BufferId b = graph_.add_owned(name, dtype, std::move(sizes), StorageKind::input);
  graph_.inputs.push_back({name, b});
  return from_buffer(b);
}

TensorBox Lowering::constant(const std::string& name, DType dtype, std::vector<std::int64_t> sizes, ConstantData data) {
  const BufferId b = graph_.add_owned(name, dtype, std::vector<Expr>(sizes.begin(), sizes.end()), StorageKind::constant);
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
  for (std::size_t k = 0; k < graph_.buffers.size(); ++k) freeze(BufferId{static_cast<std::int32_t>(k)});
  return order_;
}

OpId Lowering::emit(Operation op) {
  const OpId id = graph_.add_op(std::move(op));
  order_.push_back(id);
  return id;
}

// ---------------------------------------------------------------------------------------------------- elementwise

ValueId Lowering::load(BodyBuilder& body, const TensorBox& x, std::span<const Expr> index, std::optional<ValueId> mask) {
  internal_check(index.size() == x.rank(), "load of a rank {} tensor with {} indices", x.rank(), index.size());
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

void Lowering::require_equal(Expr a, Expr b) {
  if (a == b) return;
  const Bounds x = bounds(a), y = bounds(b), d = bounds(a - b);
  if (x.max < y.min || y.max < x.min || d.min > 0 || d.max < 0) {
    user_error(kSizesDiffer, {.node = origin_},
               fmt::format("sizes {} and {} can never be equal", to_string(a), to_string(b)),
               "check the shapes of the inputs and the bounds of the dimensions");
  }
  if (compare(a, b) > 0) std::swap(a, b);
  for (const Guard& g : graph_.guards) {
    if (g.relation == Guard::Relation::equal && g.lhs == a && g.rhs == b) return;
  }
  graph_.guards.push_back({a, b, Guard::Relation::equal, origin_});
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
    } else {
      require_equal(have, want);
      result[k] = want.is_constant() ? want : have;
    }
    if (in_x) map[xk] = have.is_constant(1) ? Expr(0) : pool().index(static_cast<int>(k));
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
  return pointwise({std::move(x)}, [&](BodyBuilder& b, std::span<const ValueId> v) { return b.cast(v[0], dtype); });
}

// ------------------------------------------------------------------------------------------------------ reductions

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
      source[k] = pool().index(static_cast<int>(r.sizes.size()));
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
    if (!reduced[k] || axes.empty()) map.push_back(pool().index(static_cast<int>(k)));
  }
  return view(std::move(out), std::move(sizes), std::move(map));
}

// ----------------------------------------------------------------------------------------------------------- views

TensorBox Lowering::view(TensorBox x, std::vector<Expr> sizes, std::vector<Expr> map) {
  TensorBox out = x;
  for (std::size_t k = 0; k < out.map_.size(); ++k) {
    Expr e = substitute_indices(x.map_[k], map);
    e = substitute(e, [&](Expr s) -> std::optional<Expr> {
      if (!s.is_symbol(SymbolKind::index)) return std::nullopt;
      const auto d = static_cast<std::size_t>(s.symbol_number());
      return d < sizes.size() && sizes[d].is_constant(1) ? std::optional<Expr>(0) : std::nullopt;
    });
    out.map_[k] = simplify(e, sizes);
  }
  out.sizes_ = std::move(sizes);
  return out;
}

TensorBox Lowering::permute(TensorBox x, std::vector<int> order) {
  std::vector<Expr> sizes(order.size()), map(order.size());
  for (std::size_t k = 0; k < order.size(); ++k) {
    const auto from = static_cast<std::size_t>(order[k]);
    sizes[k] = x.sizes()[from];
    map[from] = pool().index(static_cast<int>(k));
  }
  return view(std::move(x), std::move(sizes), std::move(map));
}

TensorBox Lowering::slice(TensorBox x, int axis, Expr start, Expr count, std::int64_t step) {
  std::vector<Expr> sizes = x.sizes(), map = index_symbols(pool(), x.rank());
  const auto a = static_cast<std::size_t>(axis);
  sizes[a] = count;
  map[a] = start + map[a] * step;
  return view(std::move(x), std::move(sizes), std::move(map));
}

TensorBox Lowering::squeeze(TensorBox x, int axis) {
  std::vector<Expr> sizes = x.sizes(), map;
  const auto a = static_cast<std::size_t>(axis);
  require_equal(sizes[a], 1);
  sizes.erase(sizes.begin() + axis);
  for (std::size_t k = 0; k < x.rank(); ++k) {
    map.push_back(k == a ? Expr(0) : pool().index(static_cast<int>(k < a ? k : k - 1)));
  }
  return view(std::move(x), std::move(sizes), std::move(map));
}

TensorBox Lowering::unsqueeze(TensorBox x, int axis) {
  std::vector<Expr> sizes = x.sizes(), map;
  const auto a = static_cast<std::size_t>(axis);
  sizes.insert(sizes.begin() + axis, Expr(1));
  for (std::size_t k = 0; k < x.rank(); ++k) map.push_back(pool().index(static_cast<int>(k < a ? k : k + 1)));
  return view(std::move(x), std::move(sizes), std::move(map));
}

// The old indices as functions of the new ones. Dimensions are matched in groups of equal products from the left, so
// that divisions appear only where a new dimension really crosses old ones.
std::optional<std::vector<Expr>> Lowering::reshape_map(const TensorBox& x, const std::vector<Expr>& sizes) {
  const std::vector<Expr>& old = x.sizes();
  std::vector<Expr> map(old.size(), 0);
  std::size_t o = 0, n = 0;
  while (o < old.size() || n < sizes.size()) {
    const std::size_t o0 = o, n0 = n;
    Expr left = o < old.size() ? old[o++] : Expr(1);
    Expr right = n < sizes.size() ? sizes[n++] : Expr(1);
    while (!(left == right)) {
      // Take from the side that is a factor of the other; if neither is, from the one with fewer elements at most.
      const bool take_right = n < sizes.size() && (o == old.size() || (right == Expr(1) || divide_exactly(left, right)));
      if (take_right) {
        right = right * sizes[n++];
      } else if (o < old.size()) {
        left = left * old[o++];
      } else if (n < sizes.size()) {
        right = right * sizes[n++];
      } else {
        return std::nullopt;
      }
    }
    const std::vector<Expr> new_strides = contiguous_strides(std::span(sizes).subspan(n0, n - n0));
    const std::vector<Expr> old_strides = contiguous_strides(std::span(old).subspan(o0, o - o0));
    Expr flat = 0;
    for (std::size_t k = n0; k < n; ++k) flat = flat + pool().index(static_cast<int>(k)) * new_strides[k - n0];
    flat = simplify(flat, sizes);
    for (std::size_t k = o0; k < o; ++k) {
      Expr e = flat;
      if (!old_strides[k - o0].is_constant(1)) e = simplify(floor_div(e, old_strides[k - o0]), sizes);
      if (k != o0) e = simplify(mod(e, old[k]), sizes);
      map[k] = e;
    }
  }
  return map;
}

bool Lowering::cheap_to_index(const TensorBox& x) {
  if (const auto* p = std::get_if<Pointwise>(&x.box_->data)) {
    BodyBuilder b(pool());
    const LoopBody body = simplify_body(b.finish(b.inline_body(p->body, x.map_)), x.sizes());
    return std::none_of(body.instrs.begin(), body.instrs.end(), [](const Instr& i) { return divides(i.index); });
  }
  if (const auto* b = std::get_if<BufferId>(&x.box_->data)) {
    return !divides(simplify(flat_index(x.map_, strides_of(graph_, *b)), x.sizes()));
  }
  return std::none_of(x.map_.begin(), x.map_.end(), [](Expr e) { return divides(e); });
}

TensorBox Lowering::reshape(TensorBox x, std::vector<Expr> sizes) {
  for (const Expr& s : sizes) {
    if (s.is_constant(0)) return view(std::move(x), sizes, std::vector<Expr>(x.rank(), 0));
  }
  require_equal(numel(x.sizes()), numel(sizes));
  std::optional<std::vector<Expr>> map = reshape_map(x, sizes);
  if (!map) {
    // The factors do not match by name (only by a guard): go through the flat index.
    const std::vector<Expr> new_strides = contiguous_strides(sizes), old_strides = contiguous_strides(x.sizes());
    const Expr flat = flat_index(index_symbols(pool(), sizes.size()), new_strides);
    map.emplace();
    for (std::size_t k = 0; k < x.rank(); ++k) {
      map->push_back(mod(floor_div(flat, max(old_strides[k], 1)), max(x.sizes()[k], 1)));
    }
  }
  TensorBox out = view(x, sizes, *map);
  if (cheap_to_index(out)) return out;
  if (freeze_permuted(x) && cheap_to_index(out)) return out;
  // Copying in the old shape needs no division; then the reshape is free.
  return view(copy(x), std::move(sizes), *map);
}

// ---------------------------------------------------------------------------------------------------- realization

BufferId Lowering::realize_into(StorageBox& box, BufferId target) {
  Loops loops;
  std::size_t kept = 0;
  if (auto* p = std::get_if<Pointwise>(&box.data)) {
    loops.sizes = p->sizes;
    loops.body = p->body;
    kept = p->sizes.size();
  } else {
    auto& r = std::get<Reduction>(box.data);
    loops.sizes = r.sizes;
    loops.reduced = r.reduced;
    loops.reduce = r.reduce;
    loops.body = r.body;
    kept = loops.kept();
  }
  std::vector<Expr> index = index_symbols(pool(), kept);
  for (std::size_t k = 0; k < kept; ++k) {
    if (loops.sizes[k].is_constant(1)) index[k] = 0;
  }
  loops.store_index = simplify(flat_index(index, strides_of(graph_, target)), loops.sizes);
  emit({graph_[target].name, std::move(loops), {target}, box.origins, std::nullopt});
  box.data = target;
  return target;
}

BufferId Lowering::realize_box(StorageBox& box) {
  if (const auto* b = std::get_if<BufferId>(&box.data)) return *b;
  std::vector<Expr> scratch;
  std::vector<Expr> sizes = box_sizes(graph_, box, scratch);
  const DType dtype = std::holds_alternative<Pointwise>(box.data) ? std::get<Pointwise>(box.data).body.result_dtype()
                                                                  : std::get<Reduction>(box.data).body.result_dtype();
  const std::string name = !box.name.empty() ? box.name : !box.origins.empty() ? box.origins.back() : "buf";
  return realize_into(box, graph_.add_owned(name, dtype, std::move(sizes)));
}

TensorBox Lowering::realize(TensorBox x) {
  freeze(realize_box(*x.box_));
  return x;
}

void Lowering::mark_reuse(const TensorBox& x, int uses) {
  const auto* p = std::get_if<Pointwise>(&x.box_->data);
  if (!p || uses < 2) return;
  std::size_t loads = 0;
  bool is_heavy = false;
  for (const Instr& i : p->body.instrs) {
    loads += i.code == OpCode::load;
    is_heavy |= heavy(i.code) && !i.operands.empty();
  }
  if (loads > 0 && (is_heavy || loads > kMaxSharedLoads)) realize(x);
}

bool Lowering::lazy_and_reordered(const TensorBox& x) {
  const auto* p = std::get_if<Pointwise>(&x.box_->data);
  return p && !(p->sizes == x.sizes() && x.map_ == index_symbols(pool(), x.rank()));
}

LoopBody Lowering::copy_body(const TensorBox& x) {
  BodyBuilder b(pool());
  return simplify_body(b.finish(load(b, x, index_symbols(pool(), x.rank()))), x.sizes());
}

TensorBox Lowering::copy(const TensorBox& x, StorageKind kind) {
  LoopBody body = copy_body(x);
  StorageBox storage{Pointwise{x.sizes(), std::move(body)}, x.box_->name, x.box_->origins};
  TensorBox out = box(std::move(storage), x.dtype());
  const std::string name = (out.box_->name.empty() ? "copy" : out.box_->name);
  realize_into(*out.box_, graph_.add_owned(name, x.dtype(), x.sizes(), kind));
  return out;
}

// The producer's own idea of the strides becomes final: row-major unless a reader wanted otherwise before.
void Lowering::freeze(BufferId buffer) {
  Buffer& b = graph_[buffer];
  if (!std::holds_alternative<FlexibleLayout>(b.layout)) return;
  b.layout = FixedLayout{contiguous_strides(b.sizes)};
  graph_[b.producer].as<Gemm>()->out.strides = contiguous_strides(b.sizes);
}

// If x is a permutation of a buffer whose layout is still flexible: store it in x's order, so that x is contiguous.
bool Lowering::freeze_permuted(const TensorBox& x) {
  const auto* buffer = std::get_if<BufferId>(&x.box_->data);
  if (!buffer || !std::holds_alternative<FlexibleLayout>(graph_[*buffer].layout)) return false;
  Buffer& b = graph_[*buffer];
  if (x.rank() != b.sizes.size()) return false;
  const std::vector<Expr> wanted = contiguous_strides(x.sizes());
  std::vector<Expr> strides(x.rank());
  std::vector<bool> seen(x.rank(), false);
  for (std::size_t k = 0; k < x.rank(); ++k) {
    if (b.sizes[k].is_constant(1)) {
      strides[k] = 1;
      continue;
    }
    if (!x.map_[k].is_symbol(SymbolKind::index)) return false;
    const auto d = static_cast<std::size_t>(x.map_[k].symbol_number());
    if (seen[d] || !(x.sizes()[d] == b.sizes[k])) return false;
    seen[d] = true;
    strides[k] = wanted[d];
  }
  b.layout = FixedLayout{strides};
  graph_[b.producer].as<Gemm>()->out.strides = strides;
  return true;
}

std::optional<TensorRef> Lowering::strided(const TensorBox& x) {
  const auto* buffer = std::get_if<BufferId>(&x.box_->data);
  if (!buffer) return std::nullopt;
  TensorRef ref{*buffer, 0, x.sizes(), {}};
  const Expr flat = simplify(flat_index(x.map_, strides_of(graph_, *buffer)), x.sizes());
  Expr rest = flat;
  for (std::size_t k = 0; k < x.rank(); ++k) {
    const Expr i = pool().index(static_cast<int>(k));
    const std::optional<Expr> stride = stride_of(flat, i);
    if (!stride) return std::nullopt;
    bool affine = true;
    for_each_symbol(*stride, [&](Expr s) { affine &= s.is_symbol(SymbolKind::dim); });
    if (!affine) return std::nullopt;
    ref.strides.push_back(*stride);
    rest = rest - *stride * i;
  }
  bool constant = true;
  for_each_symbol(rest, [&](Expr s) { constant &= s.is_symbol(SymbolKind::dim); });
  if (!constant) return std::nullopt;
  ref.offset = rest;
  return ref;
}

// ------------------------------------------------------------------------------------------- GEMM and concatenation

// A matrix operand needs strides, and elements next to each other along one of its two matrix dimensions.
TensorRef Lowering::gemm_operand(TensorBox x) {
  x = realize(std::move(x));
  std::optional<TensorRef> ref = strided(x);
  auto usable = [&] {
    if (!ref) return false;
    const std::size_t n = ref->sizes.size();
    for (const Expr& s : ref->strides) {
      if (!provably_non_negative(s)) return false;
    }
    return ref->strides[n - 1].is_constant(1) || ref->strides[n - 2].is_constant(1) || ref->sizes[n - 1].is_constant(1) ||
           ref->sizes[n - 2].is_constant(1);
  };
  if (!usable()) ref = strided(copy(x));
  return *ref;
}

TensorBox Lowering::matmul(TensorBox a, TensorBox b) {
  const bool vector_a = a.rank() == 1, vector_b = b.rank() == 1;
  if (vector_a) a = unsqueeze(std::move(a), 0);
  if (vector_b) b = unsqueeze(std::move(b), 1);
  require_equal(a.sizes().back(), b.sizes()[b.rank() - 2]);
  std::vector<Expr> out_sizes;
  if (b.rank() == 2 && a.rank() > 2) {
    // One matrix for all: the batch is just more rows.
    out_sizes.assign(a.sizes().begin(), a.sizes().end() - 1);
    out_sizes.push_back(b.sizes()[1]);
    const Expr rows = numel(std::span(a.sizes()).first(a.rank() - 1));
    const Expr depth = a.sizes().back();
    a = reshape(std::move(a), {rows, depth});
  } else if (a.rank() > 2 || b.rank() > 2) {
    std::vector<Expr> batch_a(a.sizes().begin(), a.sizes().end() - 2), batch_b(b.sizes().begin(), b.sizes().end() - 2);
    std::vector<Expr> want_a = batch_b, want_b = batch_a;
    want_a.insert(want_a.end(), {a.sizes()[a.rank() - 2], a.sizes()[a.rank() - 1]});
    want_b.insert(want_b.end(), {b.sizes()[b.rank() - 2], b.sizes()[b.rank() - 1]});
    a = expand(std::move(a), want_a);
    b = expand(std::move(b), want_b);
  }
  Gemm gemm;
  gemm.a = gemm_operand(a);
  gemm.b = gemm_operand(b);
  std::vector<Expr> sizes(gemm.a.sizes.begin(), gemm.a.sizes.end() - 1);
  sizes.push_back(gemm.b.sizes.back());
  const BufferId out = graph_.add_owned(origin_.empty() ? "matmul" : origin_, a.dtype(), sizes);
  graph_[out].layout = FlexibleLayout{};
  gemm.out = whole(graph_, out);
  emit({graph_[out].name, std::move(gemm), {out}, {origin_}, std::nullopt});
  TensorBox result = from_buffer(out);
  if (!out_sizes.empty()) {
    std::optional<std::vector<Expr>> map = reshape_map(result, out_sizes);
    internal_check(map.has_value(), "rows of a matrix product do not unfold");
    result = view(std::move(result), std::move(out_sizes), *map);
  }
  if (vector_b) result = squeeze(result, static_cast<int>(result.rank()) - 1);
  if (vector_a) result = squeeze(result, static_cast<int>(result.rank()) - (vector_b ? 1 : 2));
  return result;
}

TensorBox Lowering::concat(std::vector<TensorBox> parts, int axis) {
  if (parts.size() == 1) return parts[0];
  const auto a = static_cast<std::size_t>(axis);
  std::vector<Expr> sizes = parts[0].sizes();
  for (std::size_t p = 1; p < parts.size(); ++p) {
    for (std::size_t k = 0; k < sizes.size(); ++k) {
      if (k == a) {
        sizes[k] = sizes[k] + parts[p].sizes()[k];
      } else {
        require_equal(sizes[k], parts[p].sizes()[k]);
        if (parts[p].sizes()[k].is_constant()) sizes[k] = parts[p].sizes()[k];
      }
    }
  }
  const std::string name = origin_.empty() ? "concat" : origin_;
  const BufferId whole_buffer = graph_.add_owned(name, parts[0].dtype(), sizes);
  const std::vector<Expr> strides = strides_of(graph_, whole_buffer);
  Expr start = 0;
  for (const TensorBox& part : parts) {
    Buffer slice;
    slice.name = name + ".part";
    slice.dtype = part.dtype();
    slice.sizes = part.sizes();
    slice.layout = NonOwningLayout{whole_buffer, start * strides[a], strides};
    start = start + part.sizes()[a];
    if (numel(part.sizes()).is_constant(0)) continue;
    LoopBody body = copy_body(part);
    StorageBox storage{Pointwise{part.sizes(), std::move(body)}, {}, {}};
    if (!part.box_->realized()) storage.origins = part.box_->origins;
    TensorBox copied = box(std::move(storage), part.dtype());
    realize_into(*copied.box_, graph_.add_buffer(std::move(slice)));
  }
  return from_buffer(whole_buffer);
}

// ---------------------------------------------------------------------------------------------- collectives, output

// Moving is allowed where a kernel of ours fills the whole storage through this very buffer.
Storage* Lowering::movable_storage(const TensorBox& x) {
  const auto* id = std::get_if<BufferId>(&x.box_->data);
  if (!id) return nullptr;
  const Buffer& b = graph_[*id];
  if (!b.storage.valid() || graph_[b.storage].kind != StorageKind::activation) return nullptr;
  // No producer: a concatenation, filled through its slices.
  if (b.producer.valid() && !graph_[b.producer].as<Loops>() && !graph_[b.producer].as<Gemm>()) return nullptr;
  freeze(*id);
  const std::optional<TensorRef> ref = strided(x);
  if (!ref || !ref->offset.is_constant(0) || !is_contiguous(ref->sizes, ref->strides) ||
      !(numel(ref->sizes) == numel(b.sizes))) {
    return nullptr;
  }
  return &graph_[b.storage];
}

TensorRef Lowering::comm_input(const TensorBox& x, GroupId group) {
  auto prepare = [&](TensorBox t) {
    const BufferId id = std::get<BufferId>(t.box_->data);
    Storage& storage = graph_[graph_[id].storage];
    storage.kind = StorageKind::comm;
    storage.comm_kind = CommBufferKind::symmetric;
    storage.group = group;
    graph_[id].layout = CommBufferLayout{strides_of(graph_, id), CommBufferKind::symmetric, group};
    return TensorRef{id, 0, t.sizes(), contiguous_strides(t.sizes())};
  };
  // Realize what is still lazy, then let the producer write straight into the segment where its storage can move there.
  if (lazy_and_reordered(x)) return prepare(copy(x));
  realize_box(*x.box_);
  if (movable_storage(x)) return prepare(x);
  // Already a comm buffer of this group and not the landing place of another collective: nothing to do.
  const BufferId id = std::get<BufferId>(x.box_->data);
  if (const auto* comm = std::get_if<CommBufferLayout>(&graph_[id].layout); comm && comm->group == group) {
    const std::optional<TensorRef> ref = strided(x);
    if (ref && is_contiguous(ref->sizes, ref->strides)) return *ref;
  }
  return prepare(copy(x));
}

TensorBox Lowering::collective(CollectiveKernel kernel, const TensorBox& x, DType dtype, std::vector<Expr> out_sizes) {
  const std::string name = origin_.empty() ? std::string(to_string(kernel.kind)) : origin_;
  if (x.valid()) kernel.inputs = {comm_input(x, kernel.group)};
  const GroupId group = kernel.group;
  const bool has_result = kernel.kind != CollectiveKind::send;
  std::vector<BufferId> outs;
  if (has_result) {
    const BufferId out = graph_.add_owned(name, dtype, out_sizes, StorageKind::comm);
    Storage& storage = graph_[graph_[out].storage];
    storage.comm_kind = CommBufferKind::registered;
    storage.group = group;
    graph_[out].layout = CommBufferLayout{contiguous_strides(out_sizes), CommBufferKind::registered, group};
    kernel.outputs = {whole(graph_, out)};
    outs = {out};
  }
  const OpId start = emit({name + ".start", std::move(kernel), outs, {origin_}, std::nullopt});
  std::vector<BufferId> waited;
  if (has_result) waited = {graph_.add_mutation(outs[0], name + ".wait")};
  emit({name + ".wait", WaitKernel{start}, waited, {origin_}, std::nullopt});
  emit({name + ".release", ReleaseKernel{start}, {}, {origin_}, std::nullopt});
  return has_result ? from_buffer(waited[0]) : TensorBox{};
}

TensorBox Lowering::all_reduce(TensorBox x, GroupId group, ReduceKind kind) {
  CollectiveKernel k;
  k.kind = CollectiveKind::all_reduce;
  k.group = group;
  k.reduce = kind;
  return collective(std::move(k), x, x.dtype(), x.sizes());
}

TensorBox Lowering::all_gather(TensorBox x, GroupId group, int axis) {
  CollectiveKernel k;
  k.kind = CollectiveKind::all_gather;
  k.group = group;
  const auto n = static_cast<std::int64_t>(graph_[group].ranks.size());
  std::vector<Expr> slabs = x.sizes();
  slabs.insert(slabs.begin(), Expr(n));
  TensorBox all = collective(std::move(k), x, x.dtype(), slabs);
  // [n, ..., d, ...] -> [..., n, d, ...] -> [..., n*d, ...]: views only.
  std::vector<int> order;
  for (int d = 1; d <= static_cast<int>(x.rank()); ++d) {
    if (d == axis + 1) order.push_back(0);
    order.push_back(d);
  }
  std::vector<Expr> sizes = x.sizes();
  const auto a = static_cast<std::size_t>(axis);
  const Expr part = sizes[a];
  sizes[a] = part * n;
  // result[.., j, ..] = all[j / part, .., j % part, ..]
  std::vector<Expr> map = index_symbols(pool(), x.rank());
  const Expr j = map[a];
  map[a] = simplify(mod(j, part), sizes);
  map.insert(map.begin(), simplify(floor_div(j, part), sizes));
  TensorBox out = view(all, sizes, map);
  if (cheap_to_index(out)) return out;
  // Copying slab by slab needs no division: one strided loop over [..., n, d, ...].
  TensorBox unfolded = copy(permute(std::move(all), order));
  std::optional<std::vector<Expr>> folded = reshape_map(unfolded, sizes);
  internal_check(folded.has_value(), "an all-gather's result does not fold");
  return view(std::move(unfolded), std::move(sizes), *folded);
}

TensorBox Lowering::reduce_scatter(TensorBox x, GroupId group, int axis, ReduceKind kind) {
  CollectiveKernel k;
  k.kind = CollectiveKind::reduce_scatter;
  k.group = group;
  k.reduce = kind;
  const auto n = static_cast<std::int64_t>(graph_[group].ranks.size());
  const auto a = static_cast<std::size_t>(axis);
  const std::optional<Expr> part = divide_exactly(x.sizes()[a], n);
  if (!part) {
    user_error(kSizesDiffer, {.node = origin_},
               fmt::format("axis {} of size {} cannot be scattered evenly over {} ranks", axis, to_string(x.sizes()[a]), n));
  }
  std::vector<Expr> sizes = x.sizes();
  sizes[a] = *part;
  if (axis != 0) {
    // [..., n, d, ...] -> [n, ..., d, ...]
    std::vector<Expr> unfolded = x.sizes();
    unfolded[a] = *part;
    unfolded.insert(unfolded.begin() + axis, Expr(n));
    std::vector<int> order{axis};
    for (int d = 0; d <= static_cast<int>(x.rank()); ++d) {
      if (d != axis) order.push_back(d);
    }
    x = permute(reshape(std::move(x), std::move(unfolded)), order);
  }
  return collective(std::move(k), x, x.dtype(), std::move(sizes));
}

TensorBox Lowering::all_to_all(TensorBox x, GroupId group) {
  CollectiveKernel k;
  k.kind = CollectiveKind::all_to_all;
  k.group = group;
  const auto n = static_cast<std::int64_t>(graph_[group].ranks.size());
  if (!divide_exactly(numel(x.sizes()), n)) {
    user_error(kSizesDiffer, {.node = origin_},
               fmt::format("{} elements cannot be dealt evenly to {} ranks", to_string(numel(x.sizes())), n));
  }
  return collective(std::move(k), x, x.dtype(), x.sizes());
}

TensorBox Lowering::broadcast(TensorBox x, GroupId group, int root) {
  CollectiveKernel k;
  k.kind = CollectiveKind::broadcast;
  k.group = group;
  k.root = root;
  return collective(std::move(k), x, x.dtype(), x.sizes());
}

void Lowering::send(TensorBox x, GroupId group, int peer) {
  CollectiveKernel k;
  k.kind = CollectiveKind::send;
  k.group = group;
  k.root = peer;
  collective(std::move(k), x, x.dtype(), {});
}

TensorBox Lowering::recv(DType dtype, std::vector<Expr> sizes, GroupId group, int peer) {
  CollectiveKernel k;
  k.kind = CollectiveKind::recv;
  k.group = group;
  k.root = peer;
  return collective(std::move(k), {}, dtype, std::move(sizes));
}

void Lowering::output(const std::string& name, TensorBox x) {
  const bool reordered = lazy_and_reordered(x);
  if (!reordered) realize_box(*x.box_);
  if (Storage* storage = reordered ? nullptr : movable_storage(x)) {
    const BufferId b = std::get<BufferId>(x.box_->data);
    storage->kind = StorageKind::output;
    if (graph_[b].sizes == x.sizes()) {
      graph_.outputs.push_back({name, b});
      return;
    }
    // The same memory in another shape.
    Buffer shaped;
    shaped.name = name;
    shaped.dtype = x.dtype();
    shaped.sizes = x.sizes();
    shaped.layout = NonOwningLayout{b, 0, contiguous_strides(x.sizes())};
    graph_.outputs.push_back({name, graph_.add_buffer(std::move(shaped))});
    return;
  }
  const TensorBox copied = copy(x, StorageKind::output);
  graph_.outputs.push_back({name, std::get<BufferId>(copied.box_->data)});
}

}  // namespace braid::ir
