// Views: index maps over boxes.
#include <algorithm>

#include "ir/error.h"
#include "ir/lowering_internal.h"

namespace braid::ir {

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
    map[from] = pool().index(k);
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

// The old indices as functions of the new ones. Dimensions are matched in groups of equal products from the
// left, so that divisions appear only where a new dimension really crosses old ones.
std::optional<std::vector<Expr>> Lowering::reshape_map(const TensorBox& x, const std::vector<Expr>& sizes) {
  const std::vector<Expr>& old = x.sizes();
  std::vector<Expr> map(old.size(), 0);
  if (numel(old).is_constant(0)) return map;  // no element is ever accessed, and sizes of 0 have no factors
  std::size_t o = 0, n = 0;
  while (o < old.size() || n < sizes.size()) {
    const std::size_t o0 = o, n0 = n;
    Expr left = o < old.size() ? old[o++] : Expr(1);
    Expr right = n < sizes.size() ? sizes[n++] : Expr(1);
    while (!(left == right)) {
      // Take from the side that is a factor of the other; if neither is, from the one with the smaller upper
      // bound.
      const bool take_right =
          n < sizes.size() && (o == old.size() || (right == Expr(1) || divide_exactly(left, right)));
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
    for (std::size_t k = n0; k < n; ++k) flat = flat + pool().index(k) * new_strides[k - n0];
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
    return std::none_of(body.instrs.begin(), body.instrs.end(),
                        [](const Instr& i) { return divides(i.index); });
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
    const std::vector<Expr> new_strides = contiguous_strides(sizes),
                            old_strides = contiguous_strides(x.sizes());
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

}  // namespace braid::ir
