#include "tests/support/random_loops.h"

#include <algorithm>
#include <utility>

namespace braid::test {

using namespace ir;

namespace {

Expr zero() { return Expr(std::int64_t{0}); }

bool may_be_empty(const Expr& size) { return bounds(size).min < 1; }

Expr flat(const std::vector<Expr>& index, const std::vector<Expr>& strides) {
  Expr e = zero();
  for (std::size_t k = 0; k < index.size(); ++k) e = e + index[k] * strides[k];
  return e;
}

}  // namespace

void RandomLoops::add_dim(const std::string& name, std::int64_t min, std::int64_t max) {
  dims_.push_back(graph().add_dim(name, {min, max}));
  actual_[name] = min + pick(static_cast<int>(max - min + 1));
}

BufferId RandomLoops::any() {
  // Recent results more often, so that chains arise.
  const int n = static_cast<int>(ready_.size());
  const int k = pick(2) == 0 ? n - 1 - pick(std::min(n, 4)) : pick(n);
  return ready_[static_cast<std::size_t>(k)];
}

DType RandomLoops::random_dtype() {
  const int k = pick(10);
  return k == 0 ? DType::i32 : k == 1 ? DType::f64 : k == 2 ? DType::bf16 : k == 3 ? DType::i64 : DType::f32;
}

BufferId RandomLoops::fresh(std::vector<Expr> sizes, DType dtype) {
  return b_.activation("t", std::move(sizes), dtype);
}

ValueId RandomLoops::load(BodyBuilder& body, BufferId from, const std::vector<Expr>& sizes) {
  const std::vector<Expr> have = graph()[from].sizes, strides = strides_of(graph(), from);
  const DType dtype = graph()[from].dtype;
  std::vector<Expr> at(have.size(), zero());
  if (have == sizes && pick(8) != 0) {
    for (std::size_t k = 0; k < have.size(); ++k) at[k] = i(k);
  } else if (!(have == sizes) && numel(have) == numel(sizes) && is_contiguous(have, strides)) {
    const Expr e = simplify(flat(indices(sizes.size()), contiguous_strides(sizes)), sizes);
    return body.load(from, dtype, e);
  } else {
    // Dimension by dimension: an index of that extent where there is one, in any order; else one element,
    // or a gather.
    for (std::size_t k = 0; k < have.size(); ++k) {
      std::vector<std::size_t> fitting;
      for (std::size_t d = 0; d < sizes.size(); ++d) {
        if (sizes[d] == have[k]) fitting.push_back(d);
      }
      if (!fitting.empty() && pick(6) != 0) {
        const Expr index = i(fitting[static_cast<std::size_t>(pick(static_cast<int>(fitting.size())))]);
        at[k] = pick(6) == 0 ? have[k] - 1 - index : index;
      } else if (have[k].is_constant() && have[k].constant() >= 4 && pick(2) == 0) {
        const ValueId id = body.load(ids_, DType::i64, Expr(std::int64_t{pick(4)}));
        at[k] = body.as_index(body.check_index(id, have[k]));
      } else if (may_be_empty(have[k])) {
        return body.constant_of(dtype, 2);  // there may be no element
      }
    }
  }
  return body.load(from, dtype, simplify(flat(at, strides), sizes));
}

std::vector<Expr> RandomLoops::indices(std::size_t n) {
  std::vector<Expr> out;
  for (std::size_t k = 0; k < n; ++k) out.push_back(i(k));
  return out;
}

ValueId RandomLoops::bend(BodyBuilder& body, ValueId v, DType dtype) {
  const auto number = [&](double n) { return body.constant_of(dtype, n); };
  const auto max = [&](ValueId a, ValueId b) { return body.binary(OpCode::max, a, b); };
  const auto min = [&](ValueId a, ValueId b) { return body.binary(OpCode::min, a, b); };
  switch (pick(8)) {
    case 0:
    case 1:
      return max(v, number(0));
    case 2:
      return body.where(body.binary(OpCode::lt, v, number(0)), number(0), v);
    case 3:
      return min(max(v, number(0)), number(pick(2) == 0 ? 6 : 20));
    case 4:  // leaky, with a slope that keeps whole numbers whole
      return body.where(body.binary(OpCode::lt, v, number(0)), body.binary(OpCode::mul, v, number(2)), v);
    case 5:
      return max(v, number(-1));
    case 6:
      return body.where(body.binary(OpCode::gt, v, number(12)), number(3), max(v, number(0)));
    default:
      return min(v, number(0));
  }
}

ValueId RandomLoops::combine(BodyBuilder& body, std::vector<ValueId> values, DType dtype) {
  const auto small = [&](ValueId v, DType type) {
    return body.binary(OpCode::max, body.binary(OpCode::min, v, body.constant_of(type, 64)),
                       body.constant_of(type, -64));
  };
  // Other types have no numbers for those of 64 bits.
  const auto converted = [&](ValueId v) {
    const bool wide = body.dtype(v) == DType::i64 && dtype != DType::i64;
    return body.cast(wide ? small(v, DType::i64) : v, dtype);
  };
  ValueId v = converted(values[0]);
  for (std::size_t k = 1; k < values.size(); ++k) {
    constexpr OpCode codes[] = {OpCode::add, OpCode::sub, OpCode::max, OpCode::min};
    v = body.binary(codes[pick(4)], v, converted(values[k]));
  }
  const int last = pick(5);
  if (last == 0) v = body.unary(OpCode::neg, v);
  if (last == 1) v = bend(body, v, dtype);
  if (dtype != DType::i64) return small(v, dtype);
  // Integers of 64 bits wrap, and lie beyond those of 32 bits and beyond what f64 counts.
  constexpr std::int64_t kFactors[] = {1, 3, (std::int64_t{1} << 31) + 1, (std::int64_t{1} << 53) + 1, -7};
  return body.binary(OpCode::mul, v, body.constant(dtype, kFactors[pick(5)]));
}

void RandomLoops::emit_loops(BufferId out, const std::vector<Expr>& sizes, int reduced, ReduceKind kind,
                             const LoopBody& body) {
  std::vector<Expr> kept(sizes.begin(), sizes.end() - reduced);
  std::vector<Expr> at = indices(kept.size());
  Expr store;
  if (kept == graph()[out].sizes) {
    store = simplify(flat(at, strides_of(graph(), out)), kept);
  } else {
    store =
        simplify(flat(at, contiguous_strides(kept)), kept);  // another factorisation of a contiguous buffer
  }
  b_.emit({"op", Loops{sizes, reduced, kind, body, store}, {out}, {}, {}});
}

std::vector<Expr> RandomLoops::factorisation(BufferId out) {
  std::vector<Expr> sizes = graph()[out].sizes;
  if (sizes.size() >= 2 && is_contiguous(sizes, strides_of(graph(), out)) && pick(4) == 0) {
    const auto k = static_cast<std::size_t>(pick(static_cast<int>(sizes.size()) - 1));
    sizes[k] = sizes[k] * sizes[k + 1];
    sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(k) + 1);
  }
  return sizes;
}

void RandomLoops::fill(BufferId out, std::optional<BufferId> first) {
  const std::vector<Expr> sizes = factorisation(out);
  BodyBuilder body(pool());
  std::vector<ValueId> values;
  if (first) values.push_back(load(body, *first, sizes));
  for (int n = (first ? 0 : 1) + pick(3); n > 0; --n) values.push_back(load(body, any(), sizes));
  emit_loops(out, sizes, 0, ReduceKind::sum, body.finish(combine(body, values, graph()[out].dtype)));
}

void RandomLoops::pointwise() {
  const BufferId like = any();
  const BufferId out = fresh(graph()[like].sizes, random_dtype());
  fill(out, like);
  add(out);
}

void RandomLoops::copies() {
  const BufferId from = any();
  const std::vector<Expr> sizes = graph()[from].sizes, strides = strides_of(graph(), from);
  if (sizes.size() != 2 || !sizes[1].is_constant() || sizes[1].constant() < 2) return pointwise();
  const DType dtype = graph()[from].dtype;
  const auto emit_copy = [&](BufferId out, BufferId of, Expr at) {
    BodyBuilder body(pool());
    const std::vector<Expr> over = graph()[out].sizes;
    emit_loops(out, over, 0, ReduceKind::sum, body.finish(body.load(of, dtype, simplify(at, over))));
  };
  const std::int64_t columns = sizes[1].constant(), all = 3 * columns;
  const BufferId rows = fresh({sizes[0], 3, columns}, dtype);
  const Expr row = pick(2) == 0 ? i(0) : sizes[0] - 1 - i(0);
  emit_copy(rows, from, row * strides[0] + i(2) * strides[1]);
  const std::int64_t first = pick(2) == 0 ? 0 : pick(static_cast<int>(columns));
  const std::int64_t width = 1 + pick(static_cast<int>(all - first));
  const std::vector<Expr> cut = {sizes[0], width};
  const bool is_result = pick(2) == 0;
  const BufferId out = is_result ? b_.result("cut", cut, dtype) : fresh(cut, dtype);
  emit_copy(out, rows, i(0) * all + i(1) + first);
  if (!is_result) add(out);
}

void RandomLoops::reduction() {
  const BufferId from = any();
  const std::vector<Expr> sizes = graph()[from].sizes;
  if (sizes.empty()) return;
  const int reduced = 1 + pick(static_cast<int>(std::min<std::size_t>(sizes.size(), 2)));
  const BufferId out = fresh({sizes.begin(), sizes.end() - reduced}, graph()[from].dtype);
  BodyBuilder body(pool());
  std::vector<ValueId> values = {load(body, from, sizes)};
  if (pick(2) == 0) values.push_back(load(body, any(), sizes));
  constexpr ReduceKind kinds[] = {ReduceKind::sum, ReduceKind::max, ReduceKind::min};
  ReduceKind kind = kinds[pick(3)];
  // The largest of nothing is infinite.
  if (std::any_of(sizes.end() - reduced, sizes.end(), may_be_empty)) kind = ReduceKind::sum;
  emit_loops(out, sizes, reduced, kind, body.finish(combine(body, values, graph()[out].dtype)));
  add(out);
}

void RandomLoops::gemm() {
  std::vector<BufferId> matrices;
  for (BufferId b : ready_) {
    if (graph()[b].sizes.size() == 2 && (graph()[b].dtype == DType::f32 || graph()[b].dtype == DType::i64))
      matrices.push_back(b);
  }
  std::shuffle(matrices.begin(), matrices.end(), random_);
  for (BufferId x : matrices) {
    for (BufferId y : matrices) {
      TensorRef a = whole(graph(), x), w = whole(graph(), y);
      if (!(a.sizes[1] == w.sizes[0])) {
        std::swap(w.sizes[0], w.sizes[1]);
        std::swap(w.strides[0], w.strides[1]);
      }
      const DType dtype = graph()[x].dtype;
      if (!(a.sizes[1] == w.sizes[0]) || graph()[y].dtype != dtype) continue;
      const BufferId out = fresh({a.sizes[0], w.sizes[1]}, dtype);
      b_.emit({"gemm", Gemm{a, w, whole(graph(), out), {}}, {out}, {}, {}});
      const std::vector<Expr> sizes = graph()[out].sizes;
      if (pick(2) == 0) {  // a reader that an epilogue can take
        BufferId from = out;
        if (pick(2) == 0) {  // an activation, whose values are seen before they are made small
          from = in_region_ ? fresh(sizes, dtype) : b_.result("bent", sizes, dtype);
          BodyBuilder body(pool());
          const ValueId v =
              body.load(out, dtype, simplify(flat(indices(2), strides_of(graph(), out)), sizes));
          emit_loops(from, sizes, 0, ReduceKind::sum, body.finish(bend(body, v, dtype)));
        }
        const BufferId next = fresh(sizes, random_dtype());
        fill(next, from);
        add(next);
      } else {
        add(out);
      }
      return;
    }
  }
}

void RandomLoops::concatenation() {
  const BufferId like = any();
  std::vector<Expr> part = graph()[like].sizes;
  if (part.empty()) return;
  const auto axis = static_cast<std::size_t>(pick(static_cast<int>(part.size())));
  const int parts = 2 + pick(2);
  std::vector<Expr> sizes = part;
  sizes[axis] = sizes[axis] * parts;
  const BufferId base = fresh(sizes, graph()[like].dtype);
  const std::vector<Expr> strides = contiguous_strides(sizes);
  for (int k = 0; k < parts; ++k) {
    Buffer view;
    view.name = "part";
    view.dtype = graph()[base].dtype;
    view.sizes = part;
    view.layout = NonOwningLayout{base, part[axis] * strides[axis] * k, strides};
    const BufferId b = graph().add_buffer(view);
    fill(b, like);
    if (pick(3) == 0) pick(3) == 0 ? reduction() : pointwise();
  }
  add(base);
}

void RandomLoops::view() {
  const BufferId base = any();
  const std::vector<Expr> sizes = graph()[base].sizes, strides = strides_of(graph(), base);
  if (sizes.size() < 2) return;
  // One row, or the tensor with its first two dimensions exchanged.
  Buffer v;
  v.name = "view";
  v.dtype = graph()[base].dtype;
  if (pick(2) == 0 && !may_be_empty(sizes[0])) {
    v.sizes = {sizes.begin() + 1, sizes.end()};
    v.layout = NonOwningLayout{
        base, pick(2) == 0 ? zero() : (sizes[0] - 1) * strides[0], {strides.begin() + 1, strides.end()}};
  } else {
    v.sizes = sizes;
    std::vector<Expr> s = strides;
    std::swap(v.sizes[0], v.sizes[1]);
    std::swap(s[0], s[1]);
    v.layout = NonOwningLayout{base, zero(), s};
  }
  add(graph().add_buffer(v));
}

void RandomLoops::forget(StorageId storage) {
  std::erase_if(ready_, [&](BufferId b) { return root_storage(graph(), b) == storage; });
}

void RandomLoops::mutation() {
  BufferId of = any();
  std::optional<BufferId> reader;
  // Often what a late loop reads, and with its result: a write after a read that fusion might put into
  // one node.
  const Operation& last = graph()[b_.schedule.nodes.back().op];
  if (const auto* loops = last.as<Loops>(); loops != nullptr && pick(4) != 0) {
    for (const Instr& instr : loops->body.instrs) {
      if (instr.code == OpCode::load && std::find(ready_.begin(), ready_.end(), instr.buffer) != ready_.end())
        of = instr.buffer;
    }
    if (std::find(ready_.begin(), ready_.end(), last.outputs[0]) != ready_.end()) reader = last.outputs[0];
  }
  const StorageId s = root_storage(graph(), of);
  const StorageKind kind = graph()[s].kind;
  if (kind != StorageKind::activation || pinned_.contains(s)) return;
  if (std::holds_alternative<NonOwningLayout>(graph()[unmutated(graph(), of)].layout)) return;
  const BufferId changed = graph().add_mutation(of, "");
  const std::vector<Expr> sizes = graph()[changed].sizes;
  BodyBuilder body(pool());
  // The loop reads its own old version only at the element that it writes: other elements are undefined by
  // then.
  std::vector<ValueId> values;
  if (pick(2) == 0) {
    values.push_back(body.load(of, graph()[of].dtype,
                               simplify(flat(indices(sizes.size()), strides_of(graph(), of)), sizes)));
  }
  forget(s);
  if (ready_.empty()) {
    add(of);
    return;
  }
  if (reader && root_storage(graph(), *reader) == s) reader.reset();
  values.push_back(load(body, reader ? *reader : any(), sizes));
  emit_loops(changed, sizes, 0, ReduceKind::sum, body.finish(combine(body, values, graph()[changed].dtype)));
  add(changed);
}

void RandomLoops::region() {
  const BufferId from = any();
  const BufferId inner = fresh(graph()[from].sizes, DType::f32),
                 result = fresh(graph()[from].sizes, DType::f32);
  Region body;
  std::set<BufferId> operands;
  const auto take = [&] {
    const OpId op = b_.schedule.nodes.back().op;
    b_.schedule.nodes.pop_back();
    body.ops.push_back(op);
    for (const Instr& instr : graph()[op].as<Loops>()->body.instrs) {
      if (instr.code == OpCode::load && instr.buffer != inner) operands.insert(instr.buffer);
    }
  };
  fill(inner, from);
  take();
  fill(result, inner);
  take();
  body.yields = {result};
  const BufferId out = fresh(graph()[from].sizes, DType::f32);
  RegionKernel kernel;
  kernel.operands.assign(operands.begin(), operands.end());
  kernel.regions = {body};
  b_.emit({"call", kernel, {out}, {}, {}});
  add(out);
}

void RandomLoops::results() {
  for (int k = 1 + pick(3); k > 0; --k) {
    const BufferId from = any();
    const BufferId y = b_.result("y", graph()[from].sizes, graph()[from].dtype);
    BodyBuilder body(pool());
    const std::vector<Expr> sizes = graph()[from].sizes;
    const ValueId v = body.load(from, graph()[from].dtype,
                                simplify(flat(indices(sizes.size()), strides_of(graph(), from)), sizes));
    emit_loops(y, sizes, 0, ReduceKind::sum, body.finish(v));
  }
}

}  // namespace braid::test
