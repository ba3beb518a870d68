#include "frontend/sharding/machine_costs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <tuple>

namespace braid::frontend::sharding {

using analysis::KernelClass;

namespace {

enum class Kind { view, pointwise, reduction, movement, product, convolution, attention };

Kind kind_of(const GraphNode& node) {
  static const std::set<std::string_view> views = {"Identity",  "Reshape", "Flatten", "Squeeze",
                                                   "Unsqueeze", "Shape",   "Size"};
  static const std::set<std::string_view> products = {"MatMul",      "Gemm",          "Einsum",
                                                      "MatMulNBits", "MatMulInteger", "QLinearMatMul",
                                                      "FusedMatMul", "FusedGemm",     "MatMulIntegerToFloat"};
  static const std::set<std::string_view> convolutions = {"Conv", "ConvTranspose", "FusedConv", "ConvInteger",
                                                          "QLinearConv"};
  static const std::set<std::string_view> attentions = {"Attention", "MultiHeadAttention",
                                                        "GroupQueryAttention", "PackedMultiHeadAttention"};
  static const std::set<std::string_view> movements = {
      "Transpose", "Concat",          "Split",     "Slice",         "Gather", "GatherElements",
      "GatherND",  "ScatterElements", "ScatterND", "TensorScatter", "Pad",    "Expand",
      "Tile"};
  const std::string& op = node.proto->op_type();
  if (views.contains(op)) return Kind::view;
  if (products.contains(op)) return Kind::product;
  if (convolutions.contains(op)) return Kind::convolution;
  if (attentions.contains(op)) return Kind::attention;
  if (movements.contains(op)) return Kind::movement;
  const bool reduces = op.starts_with("Reduce") || op.find("Norm") != std::string::npos ||
                       op.find("Softmax") != std::string::npos || op == "CumSum" || op == "TopK" ||
                       op.starts_with("Arg") || op.find("Pool") != std::string::npos;
  return reduces ? Kind::reduction : Kind::pointwise;
}

double elements(const GraphValue& value, const SplitCosts& sizes) {
  double product = 1;
  for (const ir::Expr& size : value.sizes) product *= static_cast<double>(sizes.size(size));
  return product;
}

double size_at(const GraphValue& value, int from_end, const SplitCosts& sizes) {
  if (value.rank() < from_end) return 1;
  return static_cast<double>(sizes.size(value.sizes[static_cast<std::size_t>(value.rank() - from_end)]));
}

const GraphValue* value_of(const Graph& graph, const std::vector<int>& list, std::size_t k) {
  return k < list.size() && list[k] >= 0 ? &graph.values[static_cast<std::size_t>(list[k])] : nullptr;
}

// Of a matrix product whose sizes say exactly how much it computes; 0 for others.
double exact_flops(const Graph& graph, const GraphNode& node, const SplitCosts& sizes) {
  const std::string& op = node.proto->op_type();
  const GraphValue* a = value_of(graph, node.inputs, 0);
  const GraphValue* y = value_of(graph, node.outputs, 0);
  if (a == nullptr || y == nullptr || (op != "MatMul" && op != "Gemm")) return 0;
  int reduced = 1;
  for (const onnx::AttributeProto& attribute : node.proto->attribute()) {
    if (op == "Gemm" && attribute.name() == "transA" && attribute.i() != 0) reduced = 2;
  }
  return 2 * elements(*y, sizes) * size_at(*a, reduced, sizes);
}

// Whether it multiplies with weights.
bool has_weights(const Graph& graph, const GraphNode& node) {
  for (std::size_t k = 0; k < std::min<std::size_t>(node.inputs.size(), 2); ++k) {
    const GraphValue* value = value_of(graph, node.inputs, k);
    if (value != nullptr && value->constant && value->rank() >= 2) return true;
  }
  return false;
}

double flops(const Graph& graph, const GraphNode& node, Kind kind, const SplitCosts& sizes) {
  const GraphValue* a = value_of(graph, node.inputs, 0);
  const GraphValue* b = value_of(graph, node.inputs, 1);
  const GraphValue* y = value_of(graph, node.outputs, 0);
  if (a == nullptr || y == nullptr) return 0;
  const std::string& op = node.proto->op_type();
  if (kind == Kind::product) {
    if (const double exact = exact_flops(graph, node, sizes); exact > 0) return exact;
    if (op == "Einsum" && b != nullptr) {
      const double all =
          std::sqrt(elements(*a, sizes)) * std::sqrt(elements(*b, sizes)) * std::sqrt(elements(*y, sizes));
      return 2 * all / (b->rank() > 2 ? std::sqrt(size_at(*y, y->rank(), sizes)) : 1.0);
    }
    return 2 * elements(*y, sizes) * size_at(*a, 1, sizes);
  }
  if (kind == Kind::convolution && b != nullptr) {
    const bool transposed = op == "ConvTranspose";
    const double filters = size_at(*b, transposed ? b->rank() - 1 : b->rank(), sizes);
    return 2 * elements(transposed ? *a : *y, sizes) * elements(*b, sizes) / std::max(filters, 1.0);
  }
  if (kind == Kind::attention) {
    double keys = b != nullptr ? size_at(*b, 2, sizes) : size_at(*a, 2, sizes);
    for (std::size_t k = 3; k < node.inputs.size(); ++k) {  // a cache of earlier keys
      const GraphValue* past = value_of(graph, node.inputs, k);
      if (past != nullptr && past->rank() == 4)
        keys = std::max(keys, size_at(*past, 2, sizes) + (b ? size_at(*b, 2, sizes) : 0));
    }
    return 4 * elements(*y, sizes) * keys;
  }
  return 0;
}

// Into how many parts a combination cuts an input, an output, or the work of a node.
int parts_of_input(Combination axes, const Mesh& mesh, std::size_t k) {
  int parts = 1;
  for (std::size_t a = 0; a < axes.size(); ++a)
    parts *= axes[a]->inputs[k].is_split() ? mesh.axes[a].size : 1;
  return parts;
}
int parts_of_output(Combination axes, const Mesh& mesh, std::size_t k) {
  int parts = 1;
  for (std::size_t a = 0; a < axes.size(); ++a)
    parts *= axes[a]->outputs[k].is_split() ? mesh.axes[a].size : 1;
  return parts;
}
int parts_of_work(Combination axes, const Mesh& mesh) {
  int parts = 1;
  for (std::size_t a = 0; a < axes.size(); ++a) parts *= axes[a]->letter >= 0 ? mesh.axes[a].size : 1;
  return parts;
}

double local_bytes(const GraphValue& value, const SplitCosts& sizes, int parts) {
  return elements(value, sizes) * ir::size_of(value.dtype) / parts;
}

// The same for one axis.
void set_nodes(SplitCosts& costs,
               std::function<Cost(const Graph&, const GraphNode&, Combination, const Mesh&)> on_mesh) {
  costs.node = [on_mesh](const Graph& graph, const GraphNode& node, const Strategy& strategy, int ranks) {
    const Strategy* one = &strategy;
    return on_mesh(graph, node, {&one, 1}, Mesh::line(ranks));
  };
  costs.node_on_mesh = std::move(on_mesh);
}

Cost picoseconds(double us) { return static_cast<Cost>(std::llround(us * 1e6)); }

KernelClass class_of(Kind kind) {
  switch (kind) {
    case Kind::product:
      return KernelClass::gemm;
    case Kind::convolution:
      return KernelClass::conv;
    case Kind::attention:
      return KernelClass::attention;
    case Kind::reduction:
      return KernelClass::reduction;
    case Kind::movement:
      return KernelClass::copy;
    case Kind::view:
    case Kind::pointwise:
      break;
  }
  return KernelClass::elementwise;
}

Cost node_cost(const analysis::CostModel& costs, const Graph& graph, const GraphNode& node, Combination axes,
               const Mesh& mesh, const SplitCosts& sizes) {
  const Kind kind = kind_of(node);
  const GraphValue* y = value_of(graph, node.outputs, 0);
  if (kind == Kind::view || y == nullptr) return 0;
  const bool fused = kind == Kind::pointwise || kind == Kind::movement;
  analysis::KernelWork work;
  work.kernel_class = class_of(kind);
  work.dtype = y->dtype;
  work.flops = flops(graph, node, kind, sizes) / parts_of_work(axes, mesh);
  for (std::size_t k = 0; k < node.outputs.size(); ++k) {
    if (const GraphValue* value = value_of(graph, node.outputs, k);
        value != nullptr && !value->readers.empty())
      work.bytes += local_bytes(*value, sizes, parts_of_output(axes, mesh, k));
  }
  for (std::size_t k = 0; !fused && k < node.inputs.size(); ++k) {
    if (const GraphValue* value = value_of(graph, node.inputs, k); value != nullptr)
      work.bytes += local_bytes(*value, sizes, parts_of_input(axes, mesh, k));
  }
  return picoseconds(roofline(costs.machine(), work).us() + (fused ? 0 : costs.machine().launch_us));
}

analysis::CollectiveCost collective_cost(const analysis::CostModel& costs, const ConversionStep& step,
                                         int ranks) {
  std::vector<int> group(static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r) group[static_cast<std::size_t>(r)] = r * step.stride;
  analysis::CollectiveShape shape;
  shape.dtype = step.dtype;
  shape.bytes = step.bytes;
  shape.ranks = group;
  switch (step.kind) {
    case StepKind::all_gather:
      shape.kind = ir::CollectiveKind::all_gather;
      shape.bytes = step.bytes * ranks;
      break;
    case StepKind::reduce_scatter:
      shape.kind = ir::CollectiveKind::reduce_scatter;
      break;
    case StepKind::all_to_all:
      shape.kind = ir::CollectiveKind::all_to_all;
      break;
    default:
      shape.kind = ir::CollectiveKind::all_reduce;
  }
  return costs.collective(shape);
}

// The same steps are asked for again and again: layers are equal.
SplitCosts with_memory(SplitCosts costs) {
  using Key = std::tuple<StepKind, std::int64_t, ir::DType, int, int>;
  auto known = std::make_shared<std::map<Key, Cost>>();
  costs.step = [known, step_cost = std::move(costs.step)](const ConversionStep& step, int ranks) {
    const auto [entry, fresh] =
        known->try_emplace(Key{step.kind, step.bytes, step.dtype, ranks, step.stride}, 0);
    if (fresh) entry->second = step_cost(step, ranks);
    return entry->second;
  };
  return costs;
}

bool moves_between_ranks(StepKind kind) { return kind != StepKind::slice && kind != StepKind::permute; }

std::function<std::int64_t(const ir::Expr&)> size_with(
    const std::shared_ptr<const analysis::CostModel>& costs) {
  return [costs](const ir::Expr& size) { return costs->value(size); };
}

constexpr int kParts = 16;

}  // namespace

SplitCosts split_costs(std::shared_ptr<const analysis::CostModel> costs, const SplitCostOptions& options) {
  SplitCosts result;
  result.size = size_with(costs);
  set_nodes(result, [costs, options, sizes = result](const Graph& graph, const GraphNode& node,
                                                     Combination axes, const Mesh& mesh) {
    // Per axis along which it could be split.
    const auto whole =
        std::count_if(axes.begin(), axes.end(), [](const Strategy* s) { return s->letter < 0; });
    const bool asked = kind_of(node) == Kind::product && has_weights(graph, node);
    return node_cost(*costs, graph, node, axes, mesh, sizes) + (asked ? whole * options.whole_product : 0);
  });
  result.step = [costs, options](const ConversionStep& step, int ranks) -> Cost {
    if (!moves_between_ranks(step.kind)) {
      analysis::KernelWork copy;
      copy.dtype = step.dtype;
      copy.bytes = static_cast<double>(step.bytes) * (step.kind == StepKind::slice ? 2.0 / ranks : 2.0);
      return picoseconds(roofline(costs->machine(), copy).us());
    }
    return collective_cost(*costs, step, ranks).time.ps * options.communication / 1000;
  };
  return with_memory(std::move(result));
}

SplitCosts floor_costs(std::shared_ptr<const analysis::CostModel> costs, Load load, int part) {
  SplitCosts result;
  result.size = size_with(costs);
  set_nodes(result,
            [costs, load, part, sizes = result](const Graph& graph, const GraphNode& node, Combination axes,
                                                const Mesh& mesh) -> Cost {
              // Products of two computed tensors may become part of an attention kernel, which has another peak.
              const double all = has_weights(graph, node) ? exact_flops(graph, node, sizes) : 0;
              if (all == 0) return 0;
              analysis::KernelWork work;
              work.kernel_class = KernelClass::gemm;
              work.dtype = graph.values[static_cast<std::size_t>(node.outputs[0])].dtype;
              if (load == Load::flops) work.flops = all / parts_of_work(axes, mesh);
              for (std::size_t k = 0; load == Load::weights && k < node.inputs.size(); ++k) {
                const GraphValue* value = value_of(graph, node.inputs, k);
                // One that other nodes read too may be read once for all of them.
                if (value != nullptr && value->constant && value->readers.size() == 1)
                  work.bytes += local_bytes(*value, sizes, parts_of_input(axes, mesh, k));
              }
              return static_cast<Cost>(roofline(costs->machine(), work).us() * 1e6 * (1 - 1e-9)) * part;
            });
  result.step = [costs, part](const ConversionStep& step, int ranks) -> Cost {
    return moves_between_ranks(step.kind) ? collective_cost(*costs, step, ranks).floor.ps * (kParts - part)
                                          : 0;
  };
  return with_memory(std::move(result));
}

analysis::Time bound_over_plans(const SplitSpace& space, std::shared_ptr<const analysis::CostModel> costs,
                                const SolveOptions& options) {
  Cost best = 0;
  for (const Load load : {Load::flops, Load::weights}) {
    std::array<Cost, kParts + 1> known;
    known.fill(-1);
    const auto at = [&](int part) {
      Cost& bound = known[static_cast<std::size_t>(part)];
      if (bound < 0) {
        bound = solve(space.problem(floor_costs(costs, load, part)), options).bound;
        bound = bound == kForbidden ? 0 : bound / kParts;
        best = std::max(best, bound);
      }
      return bound;
    };
    // The least of linear functions is concave in the weight: its largest value by halving steps. Every value is a bound.
    int part = kParts / 2;
    at(part);
    for (int step = kParts / 4; step >= 1; step /= 2) {
      const int lower = std::max(0, part - step), upper = std::min(kParts, part + step);
      if (at(lower) > at(part)) {
        part = lower;
      } else if (at(upper) > at(part)) {
        part = upper;
      }
    }
    at(0);
    at(kParts);
  }
  return {best};
}

}  // namespace braid::frontend::sharding
