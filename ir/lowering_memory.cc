// When a computation gets memory, in which layout, and the operations that have memory of their own.
#include <algorithm>

#include "ir/capacity.h"
#include "ir/error.h"
#include "ir/extern_registry.h"
#include "ir/kernel_parts.h"
#include "ir/lowering_internal.h"
#include "ir/strided_view.h"

namespace braid::ir {
namespace {

constexpr std::size_t kMaxSharedLoads = 2;  // loads that every user of a shared body may repeat

// Calls visit(value) for values that the result needs, from the last to the first. Follows the operands of a
// value if visit returns true.
template <class Visit>
void for_each_needed(const LoopBody& body, const Visit& visit) {
  std::vector<bool> needed(body.instrs.size());
  needed[static_cast<std::size_t>(body.result.index)] = true;
  for (std::size_t k = body.instrs.size(); k-- > 0;) {
    if (!needed[k] || !visit(ValueId{static_cast<std::int32_t>(k)})) continue;
    for (ValueId v : body.instrs[k].operands) needed[static_cast<std::size_t>(v.index)] = true;
  }
}

// Whether every user of a result may compute it again instead of reading it.
bool is_cheap(const Instr& instr) {
  const OpRow& row = row_of(instr.code);
  return row.repetition == Repetition::cheap && row.flops <= 1 && instr.code != OpCode::check_index;
}

// The value, rounded to 8 bits, that the result is a cheap function of, besides literals.
std::optional<ValueId> rounded_to_byte(const LoopBody& body) {
  std::optional<ValueId> byte;
  bool known = true;
  for_each_needed(body, [&](ValueId v) {
    const Instr& instr = body[v];
    const bool integer = instr.dtype == DType::i8 || instr.dtype == DType::u8;
    if (integer && instr.code == OpCode::cast && is_float(body.operand_dtype(instr))) {
      known = known && !byte;
      byte = v;
      return false;
    }
    known = known && is_cheap(instr) && instr.code != OpCode::load && instr.code != OpCode::index;
    return true;
  });
  return known ? byte : std::nullopt;
}

// Whether each element is a cheap function of one narrower element.
bool only_widens(const LoopBody& body) {
  std::size_t loads = 0;
  bool narrow = true;
  for (const Instr& i : body.instrs) {
    narrow = narrow && is_cheap(i);
    if (i.code != OpCode::load) continue;
    ++loads;
    narrow = narrow && i.operands.empty() && size_of(i.dtype) < size_of(body.result_dtype());
  }
  return narrow && loads == 1;
}

}  // namespace

// ----------------------------------------------------------------------------------------------------
// realization

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
  const DType dtype = std::holds_alternative<Pointwise>(box.data)
                          ? std::get<Pointwise>(box.data).body.result_dtype()
                          : std::get<Reduction>(box.data).body.result_dtype();
  const std::string name = !box.name.empty() ? box.name : !box.origins.empty() ? box.origins.back() : "buf";
  // A box made outside of a region may be read after it, or by another region: it is computed where it was
  // made.
  const AtDepth at(depth_, std::min(box.depth, depth_));
  return realize_into(box, graph_.add_owned(name, dtype, std::move(sizes)));
}

TensorBox Lowering::realize(TensorBox x) {
  if (const auto* p = std::get_if<Pointwise>(&x.box_->data); p && only_widens(p->body)) {
    std::shared_ptr<StorageBox>& widened = x.box_->widened;
    if (!widened) {
      widened = std::make_shared<StorageBox>(*x.box_);
      track(widened);
    }
    x.box_ = widened;
  }
  freeze(realize_box(*x.box_));
  return x;
}

void Lowering::mark_reuse(const TensorBox& x, int uses) {
  auto* p = std::get_if<Pointwise>(&x.box_->data);
  if (!p || uses < 2) return;
  if (const std::optional<ValueId> byte = rounded_to_byte(p->body)) return realize_bytes(*x.box_, *byte);
  std::size_t loads = 0;
  bool dear = false;
  for (const Instr& i : p->body.instrs) {
    loads += i.code == OpCode::load;
    dear |= row_of(i.code).repetition == Repetition::dear;
  }
  if (loads > 0 && (dear || loads > kMaxSharedLoads)) freeze(realize_box(*x.box_));
}

void Lowering::realize_bytes(StorageBox& box, ValueId byte) {
  auto& p = std::get<Pointwise>(box.data);
  StorageBox bytes = box;
  std::get<Pointwise>(bytes.data).body = BodyBuilder(pool(), p.body).finish(byte);
  if (!(byte == p.body.result) && !box.name.empty()) bytes.name = box.name + ".bytes";
  const BufferId buffer = realize_box(bytes);
  freeze(buffer);
  Instr load;
  load.code = OpCode::load;
  load.dtype = graph_[buffer].dtype;
  load.buffer = buffer;
  load.index =
      simplify(flat_index(index_symbols(pool(), p.sizes.size()), strides_of(graph_, buffer)), p.sizes);
  p.body.instrs[static_cast<std::size_t>(byte.index)] = std::move(load);
  p.body = without_dead_code(p.body, pool());
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

TensorRef& Lowering::written_view(BufferId buffer) {
  TensorRef* view = nullptr;
  for_each_operand(graph_[graph_[buffer].producer].kernel, [&](TensorRef& ref, bool written) {
    if (written && ref.buffer == buffer) view = &ref;
  });
  return *view;
}

// The producer's strides become final: row-major unless a reader has requested otherwise.
void Lowering::freeze(BufferId buffer) {
  Buffer& b = graph_[buffer];
  if (!std::holds_alternative<FlexibleLayout>(b.layout)) return;
  b.layout = FixedLayout{contiguous_strides(b.sizes)};
  written_view(buffer).strides = contiguous_strides(b.sizes);
}

// If x is a permutation of a buffer whose layout is still flexible: store it in x's order, so that x is
// contiguous.
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
  // x repeats the elements of the buffer along a dimension that no dimension of the buffer is.
  for (std::size_t d = 0; d < x.rank(); ++d) {
    if (!seen[d] && !x.sizes()[d].is_constant(1)) return false;
  }
  b.layout = FixedLayout{strides};
  written_view(*buffer).strides = strides;
  return true;
}

std::optional<TensorRef> Lowering::strided(const TensorBox& x) {
  const auto* buffer = std::get_if<BufferId>(&x.box_->data);
  if (!buffer) return std::nullopt;
  const Expr flat = simplify(flat_index(x.map_, strides_of(graph_, *buffer)), x.sizes());
  return strided_view(graph_, *buffer, flat, x.sizes());
}

// ------------------------------------------------------------------------------------------- GEMM and
// concatenation

// A matrix operand needs strides, with adjacent elements along one of its two matrix dimensions.
TensorRef Lowering::gemm_operand(TensorBox x) {
  x = realize(std::move(x));
  std::optional<TensorRef> ref = strided(x);
  auto usable = [&] {
    if (!ref) return false;
    const std::size_t n = ref->sizes.size();
    if (!runs_forwards(*ref)) return false;
    return ref->strides[n - 1].is_constant(1) || ref->strides[n - 2].is_constant(1) ||
           ref->sizes[n - 1].is_constant(1) || ref->sizes[n - 2].is_constant(1);
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
    std::vector<Expr> batch_a(a.sizes().begin(), a.sizes().end() - 2),
        batch_b(b.sizes().begin(), b.sizes().end() - 2);
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

TensorRef Lowering::extern_operand(const TensorBox& x, bool any_strides) {
  if (lazy_and_reordered(x)) return *strided(copy(x));
  const BufferId id = realize_box(*x.box_);
  if (!freeze_permuted(x)) freeze(id);
  const std::optional<TensorRef> ref = strided(x);
  const auto usable = [&] {
    return any_strides ? runs_forwards(*ref) : is_contiguous(ref->sizes, ref->strides);
  };
  return ref && usable() ? *ref : *strided(copy(x));
}

Expr Lowering::measure(const std::string& name, const TensorBox& value, Bounds bounds) {
  internal_check(depth() == 0, "'{}' is measured within a region", name);
  internal_check(value.dtype() == DType::i64 && value.rank() == 0, "'{}' is measured of no i64 scalar", name);
  const TensorRef scalar = extern_operand(value, false);
  std::string unique = name;
  for (int k = 1; pool().find_dim(unique); ++k) unique = fmt::format("{}.{}", name, k);
  const Expr dim = graph_.add_dim(unique, bounds);
  emit({unique + ".measured", Measure{dim, scalar}, {}, {origin_}, std::nullopt});
  return dim;
}

std::vector<TensorBox> Lowering::extern_call(
    const std::string& symbol, const std::vector<TensorBox>& operands,
    const std::vector<ExternResult>& results,
    std::map<std::string, std::variant<std::int64_t, double, std::string>> attributes) {
  const ExternKernelSpec* spec = find_extern_kernel(symbol);
  internal_check(spec != nullptr, "there is no extern kernel '{}'", symbol);
  ExternKernel kernel;
  kernel.callee = symbol;
  kernel.attributes = std::move(attributes);
  for (const TensorBox& x : operands) kernel.reads.push_back(extern_operand(x, spec->strided));
  const std::string name = origin_.empty() ? symbol : origin_;
  std::vector<BufferId> outputs;
  for (const ExternResult& result : results) {
    outputs.push_back(graph_.add_owned(name, result.dtype, result.sizes));
    kernel.writes.push_back(whole(graph_, outputs.back()));
  }
  emit({name, std::move(kernel), outputs, {origin_}, std::nullopt});
  std::vector<TensorBox> boxes;
  for (BufferId out : outputs) boxes.push_back(from_buffer(out));
  return boxes;
}

// Gives `buffer` the layout that leaves the elements of `before` where they are, if `before` is a whole input
// that has room for the elements of `buffer`.
void Lowering::grow_in_place(BufferId buffer, const TensorBox& before) {
  const auto* input = std::get_if<BufferId>(&before.box_->data);
  if (input == nullptr) return;
  const StorageId storage = graph_[*input].storage;
  if (!storage.valid() || graph_[storage].kind != StorageKind::input ||
      before.sizes() != graph_[*input].sizes || before.map_ != index_symbols(pool(), before.rank()))
    return;
  const std::vector<Expr> strides = strides_of(graph_, *input);
  const std::vector<Expr>& sizes = graph_[buffer].sizes;
  if (is_contiguous(graph_[*input].sizes, strides) || !has_capacity_strides(sizes, strides)) return;
  graph_[buffer].layout = FixedLayout{strides};
  graph_[graph_[buffer].storage].bytes = sizes[0] * strides[0] * size_of(graph_[buffer].dtype);
}

TensorBox Lowering::realize_grown(TensorBox x, const TensorBox& before) {
  if (lazy_and_reordered(x) || x.box_->realized()) return x;
  const std::string name = x.box_->name.empty() ? origin_.empty() ? "cache" : origin_ : x.box_->name;
  const BufferId buffer = graph_.add_owned(name, x.dtype(), x.sizes());
  grow_in_place(buffer, before);
  realize_into(*x.box_, buffer);
  return x;
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
  grow_in_place(whole_buffer, parts[0]);
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

}  // namespace braid::ir
