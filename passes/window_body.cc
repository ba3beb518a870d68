#include "passes/window_body.h"

namespace braid::passes {

using namespace ir;

Expr WindowBody::element(const Window& w, bool transposed, Expr position, Expr tap, Expr size) {
  Expr at = position + w.pad - tap * w.dilation;
  if (!transposed) {
    at = position * w.stride + tap * w.dilation - w.pad;
  } else if (w.stride > 1) {
    require(binary(OpCode::eq, index(mod(at, w.stride)), index(0)));
    at = floor_div(at, w.stride);
  }
  if (!provably_non_negative(at, sizes_)) require(binary(OpCode::ge, index(at), index(0)));
  if (!provably_less(at, size, sizes_)) require(binary(OpCode::lt, index(at), index(size)));
  return at;
}

ValueId WindowBody::element_of(const TensorRef& ref, std::span<const Expr> at) {
  return load(ref.buffer, graph_[ref.buffer].dtype, simplify(offset(ref, at), sizes_), inside_);
}

Expr WindowBody::offset(const TensorRef& ref, std::span<const Expr> at) {
  Expr e = ref.offset;
  for (std::size_t d = 0; d < ref.sizes.size(); ++d) e = e + at[d] * ref.strides[d];
  return e;
}

Loops WindowBody::loops(std::size_t kept, ReduceKind reduce, ValueId value, Expr store) {
  Loops out;
  out.sizes = sizes_;
  out.reduced = static_cast<int>(sizes_.size() - kept);
  out.reduce = reduce;
  out.body = finish(value);
  out.store_index = simplify(store, std::span(sizes_).first(kept));
  return out;
}

void WindowBody::require(ValueId condition) {
  inside_ = inside_ ? binary(OpCode::logical_and, *inside_, condition) : condition;
}

}  // namespace braid::passes
