#include "passes/narrow_operands.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <span>

#include "ir/error.h"
#include "ir/kernel_parts.h"
#include "ir/strided_view.h"
#include "ir/typing.h"
#include "passes/compact.h"
#include "passes/constant_weights.h"

namespace braid::passes {

using namespace ir;

namespace {

constexpr double kSteps = 127;  // of i8, on both sides of 0
constexpr double kSmallest =
    1e-36;  // what is nowhere larger than this is 0: 127 divided by it must be finite

std::vector<Expr> packed_sizes(const TensorRef& ref) {
  std::vector<Expr> sizes = ref.sizes;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (ref.strides[d].is_constant(0)) sizes[d] = 1;
  }
  return sizes;
}

std::vector<std::size_t> as_given(std::size_t rank) {
  std::vector<std::size_t> order(rank);
  std::iota(order.begin(), order.end(), std::size_t{0});
  return order;
}

// Returns the dimensions by descending strides, as far as these are comparable: the order in which the
// operand lies in memory. Dimensions of one element stay where they are.
std::vector<std::size_t> memory_order(const TensorRef& ref) {
  const std::vector<Expr> sizes = packed_sizes(ref);
  std::vector<std::size_t> order = as_given(sizes.size()), places;
  for (const std::size_t d : order) {
    if (!sizes[d].is_constant(1)) places.push_back(d);
  }
  const auto inside_of = [&](std::size_t a, std::size_t b) {
    return !(ref.strides[a] == ref.strides[b]) && provably_non_negative(ref.strides[b] - ref.strides[a]);
  };
  for (std::size_t i = 1; i < places.size(); ++i) {
    for (std::size_t k = i; k > 0 && inside_of(order[places[k - 1]], order[places[k]]); --k)
      std::swap(order[places[k - 1]], order[places[k]]);
  }
  return order;
}

std::vector<Expr> permuted(const std::vector<Expr>& sizes, const std::vector<std::size_t>& order) {
  std::vector<Expr> out;
  for (const std::size_t d : order) out.push_back(sizes[d]);
  return out;
}

// Element of a view, dimension order[k] of which has index k.
Expr element_of(const Graph& graph, const TensorRef& ref, const std::vector<std::size_t>& order) {
  Expr at = ref.offset;
  for (std::size_t k = 0; k < order.size(); ++k) {
    if (!ref.strides[order[k]].is_constant(0)) at = at + graph.pool->index(k) * ref.strides[order[k]];
  }
  return at;
}
Expr given_element(const Graph& graph, const TensorRef& ref) {
  return element_of(graph, ref, as_given(ref.sizes.size()));
}
Expr row_major(const Graph& graph, std::span<const Expr> sizes) {
  return strided_index(*graph.pool, sizes, contiguous_strides(sizes));
}

bool is_whole(const Graph& graph, BufferId buffer) {
  return is_contiguous(graph[buffer].sizes, strides_of(graph, buffer));
}

}  // namespace

NarrowOperands::NarrowOperands(Schedule& schedule, DType type)
    : schedule_(schedule), graph_(schedule.graph), type_(type), writers_(schedule) {}

bool NarrowOperands::narrow_product(OpId id) {
  const auto weights = weights_of(*as_product(graph_[id].kernel));
  if (!weights) return false;
  const bool convolution = graph_[id].as<Convolution>() != nullptr;
  const TensorRef a = as_product(graph_[id].kernel)->a;
  Rows rows;
  if (const auto result = narrow_result(a))
    rows.values = *result;
  else
    rows = values_of(id, a, convolution ? memory_order(a) : as_given(a.sizes.size()),
                     convolution ? 1 : a.sizes.size() - 1);
  Product& product = *as_product(graph_[id].kernel);
  product.a = rows.values;
  product.b = weights->values;
  if (type_ == DType::i8) scale_sums(id, rows, *weights);
  graph_[id].cost.reset();
  return true;
}

void NarrowOperands::narrow_attention(OpId id) {
  const Attention given = *graph_[id].as<Attention>();
  const std::vector<TensorRef> all = {given.query, given.key, given.value};
  const TensorRef query = operand(id, given.query, all), key = operand(id, given.key, all),
                  value = operand(id, given.value, all);
  const BufferId wide = given.out.buffer;
  const BufferId narrow = graph_.add_owned(graph_[wide].name + suffix(), type_, graph_[wide].sizes);
  graph_[narrow].layout = graph_[wide].layout;
  Operation& op = graph_[id];
  Attention& k = *op.as<Attention>();
  k.query = query;
  k.key = key;
  k.value = value;
  k.out.buffer = narrow;
  op.outputs = {narrow};
  op.cost.reset();
  graph_[narrow].producer = id;

  const TensorRef elements = whole(graph_, wide);
  const std::vector<std::size_t> order = memory_order(elements);
  Loops loops;
  loops.sizes = permuted(elements.sizes, order);
  loops.store_index = simplify(element_of(graph_, elements, order), loops.sizes);
  BodyBuilder body(*graph_.pool);
  loops.body = body.finish(body.cast(body.load(narrow, type_, loops.store_index), DType::f32));
  const OpId cast =
      graph_.add_op({graph_[wide].name + ".f32", std::move(loops), {wide}, graph_[id].origins, std::nullopt});
  added_.add_after(id, cast);
  writers_.add(narrow);
  if (writers_.never_changes(wide)) results_[root_storage(graph_, wide)] = {narrow, cast};
}

void NarrowOperands::finish() {
  added_.place(schedule_);
  std::set<OpId> casts;  // back to f32
  for (const auto& [storage, result] : results_) casts.insert(result.widened);
  drop_unread(schedule_, casts);
  schedule_.plan.reset();
  compact(schedule_);
}

// Returns the same elements of an attention's narrow result, if `ref` reads such a result.
std::optional<TensorRef> NarrowOperands::narrow_result(const TensorRef& ref) const {
  const MemoryRegion where = region(graph_, ref.buffer);
  const auto found = results_.find(where.storage);
  if (!where.storage.valid() || found == results_.end() || !where.offset.is_constant(0)) return std::nullopt;
  TensorRef narrow = ref;
  narrow.buffer = found->second.narrow;
  return narrow;
}

std::string NarrowOperands::suffix() const { return "." + std::string(to_string(type_)); }

void NarrowOperands::add_before(OpId reader, const std::string& name, Loops loops, BufferId out) {
  const OpId added = graph_.add_op({name, std::move(loops), {out}, graph_[reader].origins, std::nullopt});
  added_.add_before(reader, added);
  writers_.add(out);
}

std::optional<NarrowOperands::Weights> NarrowOperands::weights_of(const Product& product) {
  for (const auto& [known, weights] : weights_) {
    if (known == product.b) return weights;
  }
  return weights_.emplace_back(product.b, made_weights(product)).second;
}

std::optional<NarrowOperands::Weights> NarrowOperands::made_weights(const Product& product) {
  const TensorRef ref = product.b;
  const std::optional<ConstantWeights> given = constant_weights(graph_, product);
  internal_check(given.has_value(), "lower_precision: '{}' is not constant", graph_[ref.buffer].name);
  ConstantData values, scales;
  if (type_ == DType::i8) {
    std::optional<QuantisedColumns> columns = quantised_columns(*given);
    if (!columns) return std::nullopt;
    values = std::move(columns->bytes);
    scales = std::move(columns->scales);
  } else {
    std::optional<ConstantData> halves = rounded(*given, type_);
    if (!halves) return std::nullopt;
    values = std::move(*halves);
  }
  const std::string name = graph_[ref.buffer].name;
  const std::size_t batch = ref.sizes.size() - given->sizes.size();
  std::vector<Expr> sizes(batch, 1);
  sizes.insert(sizes.end(), given->sizes.begin(), given->sizes.end());
  Weights weights;
  const BufferId buffer = graph_.add_owned(name + suffix(), type_, sizes, StorageKind::constant);
  graph_[graph_[buffer].storage].data = std::move(values);
  weights.values = whole(graph_, buffer);
  for (std::size_t d = 0; d < batch; ++d) {
    if (ref.strides[d].is_constant(0)) weights.values.strides[d] = 0;
    weights.values.sizes[d] = ref.sizes[d];
  }
  if (type_ == DType::i8) {
    weights.scales =
        graph_.add_owned(name + ".scale", DType::f32, {Expr(given->columns())}, StorageKind::constant);
    graph_[graph_[weights.scales].storage].data = std::move(scales);
  }
  return weights;
}

NarrowOperands::Rows NarrowOperands::values_of(OpId id, const TensorRef& ref,
                                               const std::vector<std::size_t>& order, std::size_t apart) {
  for (const auto& [known, rows] : rows_) {
    if (known == ref && rows.apart == apart) return rows;
  }
  Rows rows;
  rows.apart = apart;
  const std::string name = graph_[ref.buffer].name;
  const std::vector<Expr> sizes = packed_sizes(ref);
  if (type_ == DType::i8) add_largest(id, ref, sizes, rows);
  Loops loops;
  loops.sizes = permuted(sizes, order);
  loops.store_index = row_major(graph_, loops.sizes);
  BodyBuilder body(*graph_.pool);
  ValueId value = body.load(ref.buffer, DType::f32, simplify(element_of(graph_, ref, order), loops.sizes));
  if (type_ == DType::i8) {
    const std::vector<Expr> strides = contiguous_strides(std::span(sizes).first(apart));
    Expr at = 0;
    for (std::size_t k = 0; k < order.size(); ++k) {
      if (order[k] < apart && !sizes[order[k]].is_constant(1))
        at = at + graph_.pool->index(k) * strides[order[k]];
    }
    const ValueId largest = body.load(rows.largest.buffer, DType::f32, at);
    const ValueId some = body.binary(OpCode::gt, largest, body.constant_of(DType::f32, kSmallest));
    const ValueId steps = body.binary(OpCode::div, body.constant_of(DType::f32, kSteps), largest);
    const ValueId factor = body.where(some, steps, body.constant_of(DType::f32, 0));
    value = body.unary(OpCode::round, body.binary(OpCode::mul, value, factor));
  }
  loops.body = body.finish(body.cast(value, type_));
  const BufferId out = graph_.add_owned(name + suffix(), type_, loops.sizes);
  add_before(id, graph_[out].name, std::move(loops), out);
  const TensorRef packed = whole(graph_, out);
  rows.values = {out, 0, ref.sizes, ref.strides};
  for (std::size_t k = 0; k < order.size(); ++k) {
    if (!ref.strides[order[k]].is_constant(0)) rows.values.strides[order[k]] = packed.strides[k];
  }
  if (writers_.never_changes(ref.buffer)) rows_.emplace_back(ref, rows);
  return rows;
}

TensorRef NarrowOperands::operand(OpId id, const TensorRef& ref, const std::vector<TensorRef>& all) {
  if (const auto result = narrow_result(ref)) return *result;
  const BufferId from = ref.buffer;
  Expr read = 0;
  for (std::size_t k = 0; k < all.size(); ++k) {
    const auto same = std::find(all.begin(), all.end(), all[k]) - all.begin();
    if (all[k].buffer == from && static_cast<std::size_t>(same) == k)
      read = read + numel(packed_sizes(all[k]));
  }
  if (!is_whole(graph_, from) || !provably_equal(numel(graph_[from].sizes), read))
    return values_of(id, ref, memory_order(ref), ref.sizes.size()).values;
  TensorRef out = ref;
  for (const auto& [known, copy] : copies_) {
    if (known != from) continue;
    out.buffer = copy;
    return out;
  }
  const std::vector<Expr> sizes = graph_[from].sizes;
  Loops loops;
  loops.sizes = sizes;
  loops.store_index = row_major(graph_, sizes);
  BodyBuilder body(*graph_.pool);
  loops.body = body.finish(body.cast(body.load(from, DType::f32, loops.store_index), type_));
  out.buffer = graph_.add_owned(graph_[from].name + suffix(), type_, sizes);
  add_before(id, graph_[out.buffer].name, std::move(loops), out.buffer);
  if (writers_.never_changes(from)) copies_.emplace_back(from, out.buffer);
  return out;
}

// Adds the reductions to the largest absolute value per row or image. Images are reduced line by line first,
// because the kept dimensions are distributed over threads.
void NarrowOperands::add_largest(OpId id, const TensorRef& ref, const std::vector<Expr>& sizes, Rows& rows) {
  const std::string name = graph_[ref.buffer].name + ".largest";
  const auto add = [&](const std::string& what, std::vector<Expr> extents, std::size_t kept, ValueId value,
                       BodyBuilder& body) {
    Loops loops;
    loops.reduced = static_cast<int>(extents.size() - kept);
    loops.reduce = ReduceKind::max;
    const std::vector<Expr> results(extents.begin(), extents.begin() + static_cast<std::ptrdiff_t>(kept));
    loops.sizes = std::move(extents);
    loops.store_index = row_major(graph_, results);
    loops.body = body.finish(value);
    const BufferId out = graph_.add_owned(what, DType::f32, results);
    add_before(id, what, std::move(loops), out);
    return out;
  };
  const std::size_t rank = sizes.size(), kept = rows.apart;
  const bool lines = rank - kept > 2;
  BodyBuilder body(*graph_.pool);
  const ValueId value =
      body.unary(OpCode::abs, body.load(ref.buffer, DType::f32, simplify(given_element(graph_, ref), sizes)));
  BufferId out = add(lines ? name + ".lines" : name, sizes, lines ? kept + 1 : kept, value, body);
  if (lines) {
    const std::vector<Expr> of_lines = graph_[out].sizes;
    BodyBuilder last(*graph_.pool);
    const ValueId line = last.load(out, DType::f32, row_major(graph_, of_lines));
    out = add(name, of_lines, kept, line, last);
  }
  rows.largest = whole(graph_, out);
  for (std::size_t d = 0; d < kept; ++d) {
    if (ref.strides[d].is_constant(0)) rows.largest.strides[d] = 0;
    rows.largest.sizes[d] = ref.sizes[d];
  }
}

// The epilogue begins with the i32 sum times both scales.
void NarrowOperands::scale_sums(OpId id, const Rows& rows, const Weights& weights) {
  Product& product = *as_product(graph_[id].kernel);
  const std::size_t rank = product.out.sizes.size();
  BodyBuilder body(*graph_.pool);
  std::vector<Expr> same;
  for (std::size_t d = 0; d < rank; ++d) same.push_back(graph_.pool->index(d));
  const ValueId largest = body.load(rows.largest.buffer, DType::f32,
                                    simplify(given_element(graph_, rows.largest), product.out.sizes));
  const ValueId step = body.binary(OpCode::div, largest, body.constant_of(DType::f32, kSteps));
  const ValueId scale = body.load(weights.scales, DType::f32, graph_.pool->index(rank - 1));
  ValueId value = body.binary(OpCode::mul, body.cast(body.acc(DType::i32), DType::f32),
                              body.binary(OpCode::mul, step, scale));
  if (product.epilogue)
    value = body.inline_body(*product.epilogue, same, value);
  else
    value = body.cast(value, graph_[product.out.buffer].dtype);
  product.epilogue = body.finish(value);
  product.post_ops.clear();
}

}  // namespace braid::passes
