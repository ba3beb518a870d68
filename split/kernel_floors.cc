#include "split/kernel_floors.h"

#include <algorithm>
#include <map>
#include <utility>

#include "split/machine_costs.h"
#include "split/work.h"

namespace braid::split {

using analysis::KernelClass;

bool is_own_kernel(const Graph& graph, const GraphNode& node) {
  if (node.work.kind == WorkKind::attention) return true;
  if (!node.work.exact) return false;
  const GraphValue* b = value_of(graph, node.inputs, node.work.b);
  return b != nullptr && b->rank() == 2 && (b->constant || b->moved_constant);
}

bool multiplies_computed(const Graph& graph, const GraphNode& node) {
  const GraphValue *a = value_of(graph, node.inputs, node.work.a),
                   *b = value_of(graph, node.inputs, node.work.b);
  const auto computed = [&](const GraphValue* v) {
    return v != nullptr && !v->constant && !v->moved_constant;
  };
  return node.work.exact && computed(a) && computed(b);
}

bool reduces(const Graph& graph, const GraphNode& node, const SplitCosts& sizes, int parts) {
  const GraphValue *x = value_of(graph, node.inputs, 0), *y = value_of(graph, node.outputs, 0);
  if (x == nullptr || y == nullptr || x->constant) return false;
  switch (node.work.folded) {
    case Folded::rows:
      return x->rank() > 0 && sizes.size(x->sizes.back()) > parts;
    case Folded::rest:
      return elements(*x, sizes) > parts * elements(*y, sizes);
    case Folded::unknown:
      break;
  }
  return false;
}

namespace {

bool is_empty(const Graph& graph, ValueId value) {
  return value.valid() && std::ranges::any_of(graph.values[value].sizes,
                                              [](const ir::Expr& size) { return static_size(size) == 0; });
}

// Returns the product of scores from which the weights of this one, its first input, are computed. Null if
// there is none, or more than one.
const GraphNode* product_of_scores(const Graph& graph, const GraphNode& weighted) {
  const GraphNode* found = nullptr;
  std::vector<ValueId> open = {weighted.inputs[0]};
  IdVector<ValueId, char> seen(graph.values.ids(), 0);
  while (!open.empty()) {
    const ValueId value = open.back();
    open.pop_back();
    if (!value.valid() || std::exchange(seen[value], 1) != 0 || !graph.values[value].producer.valid())
      continue;
    const GraphNode& node = graph.nodes[graph.values[value].producer];
    if (multiplies_computed(graph, node)) {
      if (found != nullptr && found != &node) return nullptr;
      found = &node;
    } else if (node.work.kind == WorkKind::softmax || node.work.kind == WorkKind::view ||
               node.work.kind == WorkKind::pointwise) {
      // Scales, masks and casts may stand in between; a single product before all of them is the one.
      open.insert(open.end(), node.inputs.begin(), node.inputs.end());
    }
  }
  return found;
}

// All elements of the input are in the result.
bool keeps_all(WorkKind kind) {
  return kind == WorkKind::view || kind == WorkKind::reorder || kind == WorkKind::repeat;
}

// Returns the bytes of a program input that are in a value, moved or joined once with others. 0: none.
double given_bytes(const Graph& graph, const GraphValue* value, const SplitCosts& sizes,
                   bool joined = false) {
  while (value != nullptr && !value->graph_input) {
    if (!value->producer.valid()) return 0;
    const GraphNode& node = graph.nodes[value->producer];
    const WorkKind kind = node.work.kind;
    if (kind == WorkKind::join && !joined) {
      double most = 0;
      for (int k = 0; k < count_of(node.inputs); ++k)
        most = std::max(most, given_bytes(graph, value_of(graph, node.inputs, k), sizes, true));
      return most;
    }
    // Others may take a part of it, or know its sizes only.
    if (!keeps_all(kind)) return 0;
    value = value_of(graph, node.inputs, 0);
  }
  return value == nullptr ? 0 : local_bytes(*value, sizes, 1);
}

// A cache that the program returns with new rows, which it copies.
bool returns_cache(const Graph& graph, const GraphNode& node) {
  const GraphValue* y = value_of(graph, node.outputs, 0);
  return y != nullptr && node.work.kind == WorkKind::join &&
         std::ranges::any_of(y->readers, [](const GraphUse& use) { return !use.node.valid(); });
}

// Whether nothing reads the value but products of computed tensors and attention, perhaps moved.
bool is_only_multiplied(const Graph& graph, const GraphValue& value) {
  return std::ranges::all_of(value.readers, [&](const GraphUse& use) {
    if (!use.node.valid()) return true;
    const GraphNode& node = graph.nodes[use.node];
    const WorkKind kind = node.work.kind;
    if (node.compile_time || multiplies_computed(graph, node) || kind == WorkKind::attention ||
        kind == WorkKind::sizes)
      return true;
    if (!keeps_all(kind)) return false;
    const GraphValue* y = value_of(graph, node.outputs, 0);
    return y != nullptr && is_only_multiplied(graph, *y);
  });
}

// Whether the node's copy of a cache, in that many parts, is in a kernel of its own.
bool copies_alone(const Graph& graph, const GraphNode& node, const SplitCosts& sizes, int parts,
                  double most) {
  const GraphValue* y = value_of(graph, node.outputs, 0);
  for (int k = 0; k < count_of(node.inputs); ++k) {
    const GraphValue* x = value_of(graph, node.inputs, k);
    if (x != nullptr && x->graph_input && x->readers.size() == 1 && elements(*x, sizes) / parts > most)
      return is_only_multiplied(graph, *y);
  }
  return false;
}

// The time of the work in the fastest kernel of these classes.
double least_us(const analysis::Machine& machine, analysis::KernelWork work,
                std::initializer_list<KernelClass> classes) {
  double least = -1;
  for (const KernelClass c : classes) {
    work.kernel_class = c;
    const double us = roofline(machine, work).us();
    least = least < 0 ? us : std::min(least, us);
  }
  return least;
}
// The time of the node's share of an attention kernel, for the whole program.
double attention_us(const analysis::Machine& machine, const Graph& graph, const GraphNode& node,
                    const BoundOptions& options) {
  const auto known = options.attention_flops.find(node.label);
  if (known == options.attention_flops.end()) return 0;
  analysis::KernelWork work;
  work.flops = known->second;
  const ir::DType own = value_of(graph, node.inputs, 0)->dtype;
  double least = -1;
  for (const ir::DType dtype : {own, options.precision.value_or(own)}) {
    work.dtype = dtype;
    const double us = least_us(machine, work, {KernelClass::attention, KernelClass::gemm});
    least = least < 0 ? us : std::min(least, us);
  }
  return least;
}

}  // namespace

KernelFloors::KernelFloors(const analysis::CostModel& costs, const Graph& graph, const SplitCosts& sizes,
                           BoundOptions options)
    : costs_(costs), graph_(graph), sizes_(sizes), options_(std::move(options)) {
  // If several nodes have one name, the flops of that name cannot be told apart.
  std::unordered_map<std::string_view, int> bearers;
  for (const GraphNode& node : graph.nodes) ++bearers[node.label];
  std::erase_if(options_.attention_flops, [&](const auto& known) {
    const auto found = bearers.find(known.first);
    return found == bearers.end() || found->second != 1;
  });
  share_attention(bearers);
  // Whether attention needs memory for longer than it computes.
  double computing = 0, reading = 0;
  for (const GraphNode& node : graph.nodes) {
    if (!multiplies_computed(graph, node)) continue;
    computing += attention_us(costs.machine(), graph, node, options_);
    reading += bytes_us(costs.machine(), given_bytes(graph, value_of(graph, node.inputs, node.work.b), sizes),
                        {KernelClass::attention, KernelClass::gemm});
  }
  by_memory_ = reading > computing;
}

// A kernel that was found in spelled-out attention has the name of its second product. A split program may
// have a kernel for each of the two products, each with only its own work, and cut them differently.
void KernelFloors::share_attention(const std::unordered_map<std::string_view, int>& bearers) {
  std::map<std::string, double> first;
  for (const GraphNode& node : graph_.nodes) {
    if (!multiplies_computed(graph_, node)) continue;
    const auto known = options_.attention_flops.find(node.label);
    if (known == options_.attention_flops.end()) continue;
    const double all = known->second;
    known->second = std::min(all, exact_flops(graph_, node, sizes_));
    const GraphNode* scores = product_of_scores(graph_, node);
    if (scores == nullptr || bearers.at(scores->label) != 1) continue;
    first.try_emplace(scores->label, std::min(all - known->second, exact_flops(graph_, *scores, sizes_)));
  }
  options_.attention_flops.merge(first);
}

Cost KernelFloors::operator()(const GraphNode& node, const KernelParts& parts) const {
  const analysis::Machine& machine = costs_.machine();
  const double launch = machine.launch_us;
  double us = 0;
  if (multiplies_computed(graph_, node)) {
    // A kernel of both products lasts as long as it needs one of its resources. The same resource is counted
    // for both.
    const double read = given_bytes(graph_, value_of(graph_, node.inputs, node.work.b), sizes_) / parts.input;
    us = launch / 2 + (by_memory_ ? bytes_us(machine, read, {KernelClass::attention, KernelClass::gemm})
                                  : attention_us(machine, graph_, node, options_) / parts.work);
  } else if (options_.copies_caches && returns_cache(graph_, node)) {
    const double all = given_bytes(graph_, value_of(graph_, node.outputs, 0), sizes_);
    us = bytes_us(machine, 2 * all / parts.output,
                  {KernelClass::copy, KernelClass::elementwise, KernelClass::gather});
    if (copies_alone(graph_, node, sizes_, parts.output, options_.largest_fused_copy)) us += launch;
  } else if (is_own_kernel(graph_, node)) {
    us = launch;
    if (node.work.kind == WorkKind::attention)
      us += attention_us(machine, graph_, node, options_) / parts.work;
    const GraphValue* b = value_of(graph_, node.inputs, node.work.b);
    // Dequantised weights may be multiplied in their own type.
    const bool quantised = b != nullptr && !b->moved_constant;
    const double all = node.work.exact && !quantised ? exact_flops(graph_, node, sizes_) : 0;
    if (all > 0) {
      double least = -1;
      for (const ir::DType dtype : {b->dtype, options_.precision.value_or(b->dtype)}) {
        analysis::KernelWork work;
        work.kernel_class = KernelClass::gemm;
        work.dtype = dtype;
        work.flops = all / parts.work;
        work.bytes = local_bytes(*b, sizes_, parts.input) / ir::size_of(b->dtype) *
                     std::min(ir::size_of(dtype), ir::size_of(b->dtype));
        const double time = roofline(machine, work).us();
        least = least < 0 ? time : std::min(least, time);
      }
      us += least;
    }
  }
  return static_cast<Cost>(us * 1e6 * (1 - 1e-9));
}

double bytes_us(const analysis::Machine& machine, double bytes, std::initializer_list<KernelClass> classes) {
  analysis::KernelWork work;
  work.bytes = bytes;
  return least_us(machine, work, classes);
}
bool may_leave_out(const Graph& graph) {
  IdVector<NodeId, char> needed(graph.nodes.ids(), 0);
  std::vector<ValueId> open = graph.outputs;
  for (const ValueId v : graph.values.ids()) {
    if (graph.values[v].pinned) open.push_back(v);
  }
  while (!open.empty()) {
    const ValueId value = open.back();
    open.pop_back();
    const NodeId producer = value.valid() ? graph.values[value].producer : NodeId{};
    if (!producer.valid() || is_empty(graph, value)) continue;
    const GraphNode& node = graph.nodes[producer];
    if (std::exchange(needed[producer], 1) != 0) continue;
    if (!node.compile_time && node.work.kind != WorkKind::sizes)
      open.insert(open.end(), node.inputs.begin(), node.inputs.end());
  }
  for (const NodeId n : graph.nodes.ids()) {
    const GraphNode& node = graph.nodes[n];
    const WorkKind kind = node.work.kind;
    if (node.compile_time || kind == WorkKind::view || kind == WorkKind::sizes) continue;
    if (needed[n] == 0) return true;
    const auto empty = [&](ValueId value) { return is_empty(graph, value); };
    if (multiplies(kind) && std::ranges::any_of(node.inputs, empty)) return true;
  }
  return false;
}

analysis::Time least_time(const Graph& graph, int ranks,
                          const std::shared_ptr<const analysis::CostModel>& costs,
                          const BoundOptions& options) {
  if (may_leave_out(graph)) return {};
  SplitCosts sizes;
  sizes.size = [costs](const ir::Expr& size) { return costs->value(size); };
  const KernelFloors kernels(*costs, graph, sizes, options);
  analysis::Time sum;
  for (const GraphNode& node : graph.nodes) {
    if (!node.compile_time) sum.ps += kernels(node, KernelParts{ranks, ranks, ranks});
  }
  return sum;
}

}  // namespace braid::split
