#include "passes/lower_precision.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "analysis/costs/roofline.h"
#include "ir/effects.h"
#include "ir/error.h"
#include "ir/kernel_parts.h"
#include "ir/typing.h"
#include "passes/compact.h"
#include "passes/constant_matrix.h"
#include "passes/new_operations.h"
#include "passes/pass_context.h"

namespace braid::passes {
namespace {

using namespace ir;

constexpr double kSteps = 127;  // of i8, on both sides of 0
constexpr double kSmallestRow =
    1e-36;  // rows whose largest value is below this are 0: 127 divided by it must be finite

// The type of both operands.
DType operand_type(const std::string& type) {
  if (type == "bf16") return DType::bf16;
  if (type == "f16") return DType::f16;
  if (type == "int8") return DType::i8;
  user_error(542, {}, fmt::format("option 'type' of pass '{}' cannot be '{}'", LowerPrecision::kName, type),
             "write bf16, f16 or int8");
}

// What a product costs in f32 and in the type, in us.
class Pricing {
 public:
  explicit Pricing(const analysis::CostModel& costs) : costs_(costs) {}

  double f32(const Graph& graph, OpId id) const { return us(work_of(graph, id)); }

  double narrow(const Graph& graph, OpId id, DType type) const {
    const Gemm& gemm = *graph[id].as<Gemm>();
    analysis::KernelWork work = work_of(graph, id);
    const double saved = 4.0 - static_cast<double>(size_of(type)), rows = elements(gemm.a);
    work.bytes -= saved * (rows + elements(gemm.b));
    work.dtype = type;
    analysis::KernelWork cast{analysis::KernelClass::elementwise, DType::f32, rows,
                              (4.0 + static_cast<double>(size_of(type))) * rows};
    double result = us(work) + us(cast);
    if (type == DType::i8) {
      cast.kernel_class = analysis::KernelClass::reduction;
      cast.bytes = 4 * rows;
      result += us(cast);
    }
    return result;
  }

 private:
  double elements(const TensorRef& ref) const {
    double n = 1;
    for (std::size_t d = 0; d < ref.sizes.size(); ++d) {
      if (!ref.strides[d].is_constant(0)) n *= static_cast<double>(costs_.value(ref.sizes[d]));
    }
    return n;
  }
  analysis::KernelWork work_of(const Graph& graph, OpId id) const {
    return analysis::kernel_work(
        graph, graph[id], [&](const Expr& e) { return costs_.value(e); }, [](BufferId) { return false; });
  }
  double us(const analysis::KernelWork& work) const {
    return costs_.machine().launch_us + analysis::roofline(costs_.machine(), work).us();
  }

  const analysis::CostModel& costs_;
};

PrecisionChoice choose(const LowerPrecision& pass, const Graph& graph, OpId id, DType type,
                       const Pricing& pricing) {
  PrecisionChoice choice{id, graph[id].name, {}, 0, 0};
  const Gemm& gemm = *graph[id].as<Gemm>();
  const std::optional<ConstantMatrix> weights = constant_matrix(graph, gemm.b);
  if (!weights) {
    choice.reason = "its weights are no constant matrix";
    return choice;
  }
  constexpr auto kMost =
      static_cast<std::int64_t>(std::numeric_limits<std::int32_t>::max() / (kSteps * kSteps));
  if (type == DType::i8 && weights->k > kMost) {
    choice.reason = fmt::format("sums of {} products may not fit i32", weights->k);
    return choice;
  }
  choice.us = pricing.f32(graph, id);
  choice.narrow_us = pricing.narrow(graph, id, type);
  if (std::find(pass.keep.begin(), pass.keep.end(), choice.name) != pass.keep.end())
    choice.reason = "asked for";
  else if (!pass.always && choice.narrow_us >= choice.us)
    choice.reason = "it would take no less time";
  return choice;
}

class Rewriter {
 public:
  Rewriter(Schedule& schedule, DType type) : schedule_(schedule), graph_(schedule.graph), type_(type) {
    std::vector<StorageTouch> touches;
    for (OpId op : execution_order(schedule_)) {
      storages_of(graph_, op, touches);
      std::set<StorageId> written;
      for (const StorageTouch& t : touches) {
        if (t.writes || t.inside) written.insert(t.storage);
      }
      for (StorageId s : written) ++writers_[s];
    }
  }

  // Whether the product has been rewritten; its weights may not fit the type.
  bool narrow(OpId id) {
    const auto weights = weights_of(graph_[id].as<Gemm>()->b);
    if (!weights) return false;
    const Rows rows = rows_of(id);
    Gemm& gemm = *graph_[id].as<Gemm>();
    gemm.a = rows.values;
    gemm.b = weights->values;
    if (type_ == DType::i8) scale_sums(id, rows, *weights);
    graph_[id].cost.reset();
    return true;
  }

  void finish() {
    added_.place(schedule_);
    schedule_.plan.reset();
    compact(schedule_);
  }

 private:
  struct Rows {
    TensorRef values;
    TensorRef largest;  // int8: without the last dimension
  };
  struct Weights {
    TensorRef values;
    BufferId scales;  // int8
  };

  Schedule& schedule_;
  Graph& graph_;
  DType type_;
  std::map<StorageId, int> writers_;
  NewOperations added_;
  std::vector<std::pair<TensorRef, Rows>> rows_;
  std::vector<std::pair<TensorRef, std::optional<Weights>>> weights_;

  // Memory whose contents are the same for all that read it.
  bool never_changes(BufferId buffer) {
    const StorageId root = root_storage(graph_, buffer);
    if (!root.valid() || graph_[root].kind == StorageKind::comm) return false;
    const StorageKind kind = graph_[root].kind;
    const int most = kind == StorageKind::activation || kind == StorageKind::output ? 1 : 0;
    return writers_[root] <= most;
  }

  std::string suffix() const { return "." + std::string(to_string(type_)); }

  // A new row-major buffer behind a view of `sizes`, with one element for dimensions along which `like` repeats itself.
  TensorRef packed_view(const TensorRef& like, BufferId buffer) const {
    TensorRef view = whole(graph_, buffer);
    for (std::size_t d = 0; d < view.sizes.size(); ++d) {
      if (like.strides[d].is_constant(0)) view.strides[d] = 0;
      view.sizes[d] = like.sizes[d];
    }
    return view;
  }
  static std::vector<Expr> packed_sizes(const TensorRef& ref) {
    std::vector<Expr> sizes = ref.sizes;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      if (ref.strides[d].is_constant(0)) sizes[d] = 1;
    }
    return sizes;
  }
  Expr element_of(const TensorRef& ref) const {
    Expr at = ref.offset;
    for (std::size_t d = 0; d < ref.sizes.size(); ++d) {
      if (!ref.strides[d].is_constant(0)) at = at + graph_.pool->index(d) * ref.strides[d];
    }
    return at;
  }
  Expr row_major(std::span<const Expr> sizes) const {
    const std::vector<Expr> strides = contiguous_strides(sizes);
    Expr at = 0;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      if (!sizes[d].is_constant(1)) at = at + graph_.pool->index(d) * strides[d];
    }
    return at;
  }

  void add_before(OpId reader, const std::string& name, Loops loops, BufferId out) {
    const OpId added = graph_.add_op({name, std::move(loops), {out}, graph_[reader].origins, std::nullopt});
    added_.add_before(reader, added);
    ++writers_[root_storage(graph_, out)];
  }

  std::optional<Weights> weights_of(const TensorRef& ref) {
    for (const auto& [known, weights] : weights_) {
      if (known == ref) return weights;
    }
    return weights_.emplace_back(ref, made_weights(ref)).second;
  }

  std::optional<Weights> made_weights(const TensorRef& ref) {
    const std::optional<ConstantMatrix> matrix = constant_matrix(graph_, ref);
    internal_check(matrix.has_value(), "lower_precision: '{}' is no constant matrix",
                   graph_[ref.buffer].name);
    ConstantData values, scales;
    if (type_ == DType::i8) {
      std::optional<QuantisedColumns> columns = quantised_columns(*matrix);
      if (!columns) return std::nullopt;
      values = std::move(columns->bytes);
      scales = std::move(columns->scales);
    } else {
      std::optional<ConstantData> halves = rounded(*matrix, type_);
      if (!halves) return std::nullopt;
      values = std::move(*halves);
    }
    const std::string name = graph_[ref.buffer].name;
    std::vector<Expr> sizes = packed_sizes(ref);
    sizes[sizes.size() - 2] = matrix->k;
    sizes.back() = matrix->n;
    Weights weights;
    const BufferId buffer = graph_.add_owned(name + suffix(), type_, sizes, StorageKind::constant);
    graph_[graph_[buffer].storage].data = std::move(values);
    weights.values = whole(graph_, buffer);
    for (std::size_t d = 0; d + 2 < sizes.size(); ++d) {
      if (ref.strides[d].is_constant(0)) weights.values.strides[d] = 0;
      weights.values.sizes[d] = ref.sizes[d];
    }
    if (type_ == DType::i8) {
      weights.scales =
          graph_.add_owned(name + ".scale", DType::f32, {Expr(sizes.back())}, StorageKind::constant);
      graph_[graph_[weights.scales].storage].data = std::move(scales);
    }
    return weights;
  }

  Rows rows_of(OpId id) {
    const TensorRef ref = graph_[id].as<Gemm>()->a;
    for (const auto& [known, rows] : rows_) {
      if (known == ref) return rows;
    }
    Rows rows;
    const std::string name = graph_[ref.buffer].name;
    const std::vector<Expr> sizes = packed_sizes(ref);
    if (type_ == DType::i8) add_largest(id, ref, sizes, rows);
    Loops loops;
    loops.sizes = sizes;
    loops.store_index = row_major(sizes);
    BodyBuilder body(*graph_.pool);
    ValueId value = body.load(ref.buffer, DType::f32, simplify(element_of(ref), sizes));
    if (type_ == DType::i8) {
      const ValueId largest =
          body.load(rows.largest.buffer, DType::f32, row_major(std::span(sizes).first(sizes.size() - 1)));
      const ValueId some = body.binary(OpCode::gt, largest, body.constant_of(DType::f32, kSmallestRow));
      const ValueId steps = body.binary(OpCode::div, body.constant_of(DType::f32, kSteps), largest);
      const ValueId factor = body.where(some, steps, body.constant_of(DType::f32, 0));
      value = body.unary(OpCode::round, body.binary(OpCode::mul, value, factor));
    }
    loops.body = body.finish(body.cast(value, type_));
    const BufferId out = graph_.add_owned(name + suffix(), type_, sizes);
    add_before(id, graph_[out].name, std::move(loops), out);
    rows.values = packed_view(ref, out);
    if (never_changes(ref.buffer)) rows_.emplace_back(ref, rows);
    return rows;
  }

  // The largest absolute value of each row.
  void add_largest(OpId id, const TensorRef& ref, const std::vector<Expr>& sizes, Rows& rows) {
    const std::vector<Expr> kept(sizes.begin(), sizes.end() - 1);
    Loops loops;
    loops.sizes = sizes;
    loops.reduced = 1;
    loops.reduce = ReduceKind::max;
    loops.store_index = row_major(kept);
    BodyBuilder body(*graph_.pool);
    loops.body = body.finish(
        body.unary(OpCode::abs, body.load(ref.buffer, DType::f32, simplify(element_of(ref), loops.sizes))));
    const BufferId out = graph_.add_owned(graph_[ref.buffer].name + ".largest", DType::f32, kept);
    add_before(id, graph_[out].name, std::move(loops), out);
    TensorRef per_row = ref;
    per_row.sizes.pop_back();
    per_row.strides.pop_back();
    rows.largest = packed_view(per_row, out);
  }

  // The epilogue begins with the i32 sum times both scales.
  void scale_sums(OpId id, const Rows& rows, const Weights& weights) {
    Product& product = *as_product(graph_[id].kernel);
    const std::size_t rank = product.out.sizes.size();
    BodyBuilder body(*graph_.pool);
    std::vector<Expr> same;
    for (std::size_t d = 0; d < rank; ++d) same.push_back(graph_.pool->index(d));
    const ValueId largest =
        body.load(rows.largest.buffer, DType::f32, simplify(element_of(rows.largest), product.out.sizes));
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
};

}  // namespace

std::vector<PrecisionChoice> LowerPrecision::choices(const Schedule& schedule,
                                                     const PassContext& context) const {
  const DType narrow = operand_type(type);
  const Graph& graph = schedule.graph;
  const Pricing pricing(*context.costs);
  std::vector<PrecisionChoice> out;
  for (const ScheduleNode& node : schedule.nodes) {
    if (node.kind != ScheduleNode::Kind::single) continue;
    const auto* gemm = graph[node.op].as<Gemm>();
    if (gemm == nullptr || graph[gemm->a.buffer].dtype != DType::f32 ||
        graph[gemm->b.buffer].dtype != DType::f32)
      continue;
    out.push_back(choose(*this, graph, node.op, narrow, pricing));
  }
  return out;
}

bool LowerPrecision::run(Schedule& schedule, PassContext& context) {
  Rewriter rewriter(schedule, operand_type(type));
  bool changed = false;
  for (const PrecisionChoice& choice : choices(schedule, context)) {
    if (choice.reason.empty() && rewriter.narrow(choice.op)) changed = true;
  }
  if (changed) rewriter.finish();
  return changed;
}

}  // namespace braid::passes
