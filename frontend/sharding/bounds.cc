#include "frontend/sharding/bounds.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "frontend/load.h"
#include "frontend/sharding/machine_costs.h"
#include "frontend/sharding/work.h"
#include "passes/forward_copies.h"
#include "passes/fuse_horizontal.h"

namespace braid::frontend::sharding {

namespace {

using analysis::KernelClass;

constexpr Cost kParts = 64;  // weights are multiples of one part

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// A product that is a kernel of its own in every program: one with a matrix of weights. What multiplies two computed tensors
// may become a half of an attention kernel.
bool is_own_kernel(const Graph& graph, const GraphNode& node) {
  if (kind_of(node) == WorkKind::attention) return true;
  const std::string& op = node.proto->op_type();
  if (op != "MatMul" && op != "Gemm") return false;
  const GraphValue* b = value_of(graph, node.inputs, 1);
  return b != nullptr && b->rank() == 2 && (b->constant || is_moved_constant(graph, *b));
}

bool multiplies_computed(const Graph& graph, const GraphNode& node) {
  const GraphValue *a = value_of(graph, node.inputs, 0), *b = value_of(graph, node.inputs, 1);
  const auto computed = [&](const GraphValue* v) {
    return v != nullptr && !v->constant && !is_moved_constant(graph, *v);
  };
  return node.proto->op_type() == "MatMul" && computed(a) && computed(b);
}

// Bytes of what the program is given that are, moved or joined once with others, in a value. 0: nothing.
double given_bytes(const Graph& graph, const GraphValue* value, const SplitCosts& sizes,
                   bool joined = false) {
  while (value != nullptr && !value->graph_input) {
    if (value->producer < 0) return 0;
    const GraphNode& node = graph.nodes[at(value->producer)];
    const std::string& op = node.proto->op_type();
    if (op == "Concat" && !joined) {
      double most = 0;
      for (std::size_t k = 0; k < node.inputs.size(); ++k)
        most = std::max(most, given_bytes(graph, value_of(graph, node.inputs, k), sizes, true));
      return most;
    }
    // Others may take a part of it, or know its sizes only.
    const bool view = kind_of(node) == WorkKind::view && op != "Shape" && op != "Size";
    if (!view && op != "Transpose" && op != "Expand") return 0;
    value = value_of(graph, node.inputs, 0);
  }
  return value == nullptr ? 0 : local_bytes(*value, sizes, 1);
}

// A cache that the program returns with new rows, which it copies.
bool returns_cache(const Graph& graph, const GraphNode& node) {
  const GraphValue* y = value_of(graph, node.outputs, 0);
  return y != nullptr && node.proto->op_type() == "Concat" &&
         std::ranges::any_of(y->readers, [](const GraphUse& use) { return use.node < 0; });
}

// Whether nothing reads the value but products of computed tensors and attention, perhaps moved.
bool is_only_multiplied(const Graph& graph, const GraphValue& value) {
  return std::ranges::all_of(value.readers, [&](const GraphUse& use) {
    if (use.node < 0) return true;
    const GraphNode& node = graph.nodes[at(use.node)];
    if (node.compile_time || multiplies_computed(graph, node) || kind_of(node) == WorkKind::attention)
      return true;
    const std::string& op = node.proto->op_type();
    if (op == "Shape" || op == "Size") return true;
    if (kind_of(node) != WorkKind::view && op != "Transpose" && op != "Expand") return false;
    const GraphValue* y = value_of(graph, node.outputs, 0);
    return y != nullptr && is_only_multiplied(graph, *y);
  });
}

// Whether what the node copies of a cache, in so many parts, is in a kernel of its own.
bool copies_alone(const Graph& graph, const GraphNode& node, const SplitCosts& sizes, int parts) {
  const GraphValue* y = value_of(graph, node.outputs, 0);
  // A copy may be made in several loops.
  const auto most =
      static_cast<double>(passes::FuseHorizontal{}.small_points * passes::ForwardCopies{}.max_parts);
  for (std::size_t k = 0; k < node.inputs.size(); ++k) {
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
double bytes_us(const analysis::Machine& machine, double bytes, std::initializer_list<KernelClass> classes) {
  analysis::KernelWork work;
  work.bytes = bytes;
  return least_us(machine, work, classes);
}
// Of what the node does in an attention kernel, of the whole program.
double attention_us(const analysis::Machine& machine, const Graph& graph, const GraphNode& node,
                    const BoundOptions& options) {
  const auto known = options.attention_flops.find(name_of(*node.proto));
  if (known == options.attention_flops.end()) return 0;
  analysis::KernelWork work;
  work.dtype = value_of(graph, node.inputs, 0)->dtype;
  work.flops = known->second;
  return least_us(machine, work, {KernelClass::attention, KernelClass::gemm});
}

// Into how many parts a node's work and its tensors are cut.
struct PartsOfTuple {
  Combination axes;
  const Mesh& mesh;
  int work() const { return parts_of_work(axes, mesh); }
  int input(std::size_t k) const { return parts_of_input(axes, mesh, k); }
  int output(std::size_t k) const { return parts_of_output(axes, mesh, k); }
};
struct EqualParts {
  int ranks;
  int work() const { return ranks; }
  int input(std::size_t /*k*/) const { return ranks; }
  int output(std::size_t /*k*/) const { return ranks; }
};

// The fastest kernels that nodes can become.
class KernelFloors {
 public:
  KernelFloors(const analysis::CostModel& costs, const Graph& graph, const SplitCosts& sizes,
               BoundOptions options)
      : costs_(costs), graph_(graph), sizes_(sizes), options_(std::move(options)) {
    // Of nodes with one name it is not known which one it is.
    std::map<std::string, int> bearers;
    for (const GraphNode& node : graph.nodes) ++bearers[name_of(*node.proto)];
    std::erase_if(options_.attention_flops, [&](const auto& known) { return bearers[known.first] != 1; });
    // Whether attention needs memory for longer than it computes.
    double computing = 0, reading = 0;
    for (const GraphNode& node : graph.nodes) {
      if (!multiplies_computed(graph, node)) continue;
      computing += attention_us(costs.machine(), graph, node, options_);
      reading += bytes_us(costs.machine(), given_bytes(graph, value_of(graph, node.inputs, 1), sizes),
                          {KernelClass::attention, KernelClass::gemm});
    }
    by_memory_ = reading > computing;
  }

  // On its own. `parts` is a PartsOfTuple or EqualParts.
  template <class Parts>
  Cost operator()(const GraphNode& node, const Parts& parts) const {
    const analysis::Machine& machine = costs_.machine();
    const double launch = machine.launch_us;
    double us = 0;
    if (multiplies_computed(graph_, node)) {
      // A kernel that does both products lasts as long as one of its resources is needed: the same one for both.
      const double read = given_bytes(graph_, value_of(graph_, node.inputs, 1), sizes_) / parts.input(1);
      us = launch / 2 + (by_memory_ ? bytes_us(machine, read, {KernelClass::attention, KernelClass::gemm})
                                    : attention_us(machine, graph_, node, options_) / parts.work());
    } else if (options_.copies_caches && returns_cache(graph_, node)) {
      const double all = given_bytes(graph_, value_of(graph_, node.outputs, 0), sizes_);
      us = bytes_us(machine, 2 * all / parts.output(0),
                    {KernelClass::copy, KernelClass::elementwise, KernelClass::gather});
      if (copies_alone(graph_, node, sizes_, parts.output(0))) us += launch;
    } else if (is_own_kernel(graph_, node)) {
      us = launch;
      if (kind_of(node) == WorkKind::attention)
        us += attention_us(machine, graph_, node, options_) / parts.work();
      const GraphValue* b = value_of(graph_, node.inputs, 1);
      // What is dequantised may be multiplied in its own type.
      const bool quantised = b != nullptr && !is_moved_constant(graph_, *b);
      const double all =
          kind_of(node) == WorkKind::product && !quantised ? exact_flops(graph_, node, sizes_) : 0;
      if (all > 0) {
        double least = -1;
        for (const ir::DType dtype : {b->dtype, options_.precision.value_or(b->dtype)}) {
          analysis::KernelWork work;
          work.kernel_class = KernelClass::gemm;
          work.dtype = dtype;
          work.flops = all / parts.work();
          work.bytes = local_bytes(*b, sizes_, parts.input(1)) / ir::size_of(b->dtype) *
                       std::min(ir::size_of(dtype), ir::size_of(b->dtype));
          const double time = roofline(machine, work).us();
          least = least < 0 ? time : std::min(least, time);
        }
        us += least;
      }
    }
    return static_cast<Cost>(us * 1e6 * (1 - 1e-9));
  }

 private:
  const analysis::CostModel& costs_;
  const Graph& graph_;
  const SplitCosts& sizes_;
  BoundOptions options_;
  bool by_memory_ = false;
};

// Whether each of so many parts has several elements to reduce.
bool reduces(const Graph& graph, const GraphNode& node, const SplitCosts& sizes, int parts) {
  const GraphValue *x = value_of(graph, node.inputs, 0), *y = value_of(graph, node.outputs, 0);
  if (x == nullptr || y == nullptr || x->constant) return false;
  const std::string& op = node.proto->op_type();
  if (op == "LayerNormalization" || op == "RMSNormalization" || op == "SimplifiedLayerNormalization" ||
      op == "SkipLayerNormalization" || op == "SkipSimplifiedLayerNormalization")
    return x->rank() > 0 && sizes.size(x->sizes.back()) > parts;
  return op.starts_with("Reduce") && elements(*x, sizes) > parts * elements(*y, sizes);
}

// Weights of rows in parts that add up to kParts, for the least of the plans to be as much as possible: fictitious play.
std::vector<Cost> best_weights(const std::vector<std::vector<double>>& value) {  // [row][plan]
  const std::size_t rows = value.size(), plans = value[0].size();
  std::vector<double> of_row(rows, 0), of_plan(plans, 0);
  std::vector<std::int64_t> taken(rows, 0);
  constexpr int kRounds = 4000;
  for (int round = 0; round < kRounds; ++round) {
    const auto row =
        static_cast<std::size_t>(std::max_element(of_row.begin(), of_row.end()) - of_row.begin());
    ++taken[row];
    for (std::size_t p = 0; p < plans; ++p) of_plan[p] += value[row][p];
    const auto plan =
        static_cast<std::size_t>(std::min_element(of_plan.begin(), of_plan.end()) - of_plan.begin());
    for (std::size_t r = 0; r < rows; ++r) of_row[r] += value[r][plan];
  }
  std::vector<Cost> weights(rows, 0);
  Cost left = kParts;
  for (std::size_t r = 0; r < rows; ++r) {
    weights[r] = taken[r] * kParts / kRounds;
    left -= weights[r];
  }
  *std::max_element(weights.begin(), weights.end()) += left;
  return weights;
}

}  // namespace

namespace {

SplitCosts floors_of(const std::shared_ptr<const analysis::CostModel>& costs,
                     std::function<Cost(const ConversionStep& step, int ranks)> collective) {
  SplitCosts floors;
  floors.size = [costs](const ir::Expr& size) { return costs->value(size); };
  floors.prices = [](const Graph&, const GraphNode&) {
    return NodePrices{"", [](Combination, const Mesh&) { return Cost{0}; }};
  };
  floors.step = [collective = std::move(collective)](const ConversionStep& step, int ranks) {
    return ranks > 1 && moves_between_ranks(step.kind) ? collective(step, ranks) : 0;
  };
  return with_memory(std::move(floors));
}

// A program's own conversions are not faster than this alone on the machine, with any kernel.
SplitCosts alone(const std::shared_ptr<const analysis::CostModel>& costs) {
  return floors_of(costs, [costs](const ConversionStep& step, int ranks) {
    return std::min(collective_cost(*costs, step, ranks, false).time.ps,
                    collective_cost(*costs, step, ranks, true).time.ps);
  });
}

}  // namespace

BoundSearch::BoundSearch(const Graph& graph, const SplitSpace& space,
                         std::shared_ptr<const analysis::CostModel> costs, BoundOptions options)
    : options_(std::move(options)),
      passages_(space.passages(true, options_.cells)),
      prices_(space, alone(costs)) {
  launch_ = static_cast<Cost>(costs->machine().launch_us * 1e6 * (1 - 1e-9));
  SplitCosts sizes;
  sizes.size = [costs](const ir::Expr& size) { return costs->value(size); };
  collectives_ = space.problem(
      floors_of(costs, [costs](const ConversionStep& step,
                               int ranks) { return collective_cost(*costs, step, ranks).floor.ps; }),
      true, options_.cells);
  const KernelFloors kernels(*costs, graph, sizes, options_);
  kernels_.resize(collectives_.variables.size());
  for (std::size_t v = 0; v < kernels_.size(); ++v) kernels_[v].assign(collectives_.variables[v].size(), 0);
  std::map<const void*, std::vector<std::array<int, 3>>> parts_of;  // by the choices of nodes
  for (; nodes_ < static_cast<int>(kernels_.size()) && space.node_of(nodes_) >= 0; ++nodes_) {
    const GraphNode& node = graph.nodes[at(space.node_of(nodes_))];
    // All that the floor depends on, of equal nodes once.
    std::vector<std::array<int, 3>>& parts = parts_of[space.address_of_choices(nodes_)];
    for (int c = static_cast<int>(parts.size()); c < space.choices_of(nodes_); ++c) {
      const PartsOfTuple own{space.combination(nodes_, c), space.mesh()};
      parts.push_back(
          {own.work(), node.inputs.size() > 1 ? own.input(1) : 1, node.outputs.empty() ? 1 : own.output(0)});
    }
    std::map<std::array<int, 3>, Cost> known;
    for (int c = 0; c < space.choices_of(nodes_); ++c) {
      const auto [entry, fresh] = known.try_emplace(parts[at(c)], 0);
      if (fresh) entry->second = kernels(node, PartsOfTuple{space.combination(nodes_, c), space.mesh()});
      kernels_[at(nodes_)][at(c)] = entry->second;
    }
    reduction_.push_back(reduces(graph, node, sizes, space.mesh().ranks()) ? 1 : 0);
    product_.push_back(is_own_kernel(graph, node) || multiplies_computed(graph, node) ? 1 : 0);
    const std::vector<Cost>& own = kernels_[at(nodes_)];
    copy_.push_back(product_.back() == 0 && *std::max_element(own.begin(), own.end()) > 0 ? 1 : 0);
  }
  into_.resize(at(nodes_));
  out_of_.resize(at(nodes_));
  copies_.assign(passages_.size(), 0);
  for (std::size_t p = 0; p < passages_.size(); ++p) {
    // What a collective makes lies in the segment, and a kernel copies it into the memory of the program's output.
    if (passages_[p].reader < 0) {
      const double bytes = local_bytes(graph.values[at(passages_[p].value)], sizes, 1);
      const double us = costs->machine().launch_us +
                        bytes_us(costs->machine(), 2 * bytes,
                                 {KernelClass::copy, KernelClass::elementwise, KernelClass::gather});
      copies_[p] = static_cast<Cost>(us * 1e6 * (1 - 1e-9));
    }
    // What is kept between steps is given and returned like any other input and output.
    if (passages_[p].producer >= nodes_) passages_[p].producer = -1;
    if (passages_[p].reader >= nodes_) passages_[p].reader = -1;
    if (passages_[p].reader >= 0) into_[at(passages_[p].reader)].push_back(static_cast<int>(p));
    if (passages_[p].producer >= 0) out_of_[at(passages_[p].producer)].push_back(static_cast<int>(p));
  }
  find_joins(graph, space);
  count_loops();
  find_chain();
}

analysis::Time least_time(const Graph& graph, int ranks,
                          const std::shared_ptr<const analysis::CostModel>& costs,
                          const BoundOptions& options) {
  SplitCosts sizes;
  sizes.size = [costs](const ir::Expr& size) { return costs->value(size); };
  const KernelFloors kernels(*costs, graph, sizes, options);
  analysis::Time sum;
  for (const GraphNode& node : graph.nodes) {
    if (!node.compile_time) sum.ps += kernels(node, EqualParts{ranks});
  }
  return sum;
}

// The last node of each join: the one that all others lead to which the product leads to.
void BoundSearch::find_joins(const Graph& graph, const SplitSpace& space) {
  joined_.assign(at(nodes_), -1);
  std::map<std::string, std::vector<int>> named;
  for (int v = 0; v < nodes_; ++v) named[name_of(*graph.nodes[at(space.node_of(v))].proto)].push_back(v);
  for (const ProductJoin& join : options_.joins) {
    std::vector<int> members;
    bool known = true;
    int last = -1;
    for (const std::string& name : join.nodes) {
      const auto found = named.find(name);
      if (found == named.end()) continue;  // computed at compile time
      known = known && found->second.size() == 1;
      members.push_back(found->second[0]);
      last = std::max(last, members.back());
    }
    const auto source = named.find(join.product);
    if (!known || last < 0 || source == named.end() || source->second.size() != 1) continue;
    const int product = source->second[0];
    if (product_[at(product)] == 0 || product >= last) continue;
    // What the product leads to, and what leads to the last node.
    std::vector<char> after(at(nodes_), 0), before(at(nodes_), 0);
    after[at(product)] = before[at(last)] = 1;
    for (int v = product + 1; v <= last; ++v) {
      for (const int p : into_[at(v)]) {
        const int u = passages_[at(p)].producer;
        if (u >= 0 && after[at(u)] != 0) after[at(v)] = 1;
      }
    }
    for (int v = last; v >= 0; --v) {
      if (before[at(v)] == 0) continue;
      for (const int p : into_[at(v)]) {
        if (passages_[at(p)].producer >= 0) before[at(passages_[at(p)].producer)] = 1;
      }
    }
    const bool leads = std::all_of(members.begin(), members.end(), [&](int v) {
      return v == last || after[at(v)] == 0 || before[at(v)] != 0;
    });
    if (after[at(last)] != 0 && leads) joined_[at(last)] = product;
  }
}

void BoundSearch::count_loops() {
  constexpr int kNone = -1'000'000;
  loops_.assign(at(nodes_), 0);
  loops_open_.assign(at(nodes_), kNone);
  for (int v = 0; v < nodes_; ++v) {
    int &closed = loops_[at(v)], &open = loops_open_[at(v)];
    for (const int p : into_[at(v)]) {
      const int u = passages_[at(p)].producer;
      if (u < 0) continue;
      closed = std::max(closed, loops_[at(u)]);
      open = std::max(open, loops_open_[at(u)]);
    }
    if (reduction_[at(v)] != 0) open = std::max(open, closed);
    if (joined_[at(v)] >= 0) open = std::max(open, loops_[at(joined_[at(v)])]);
    if (product_[at(v)] != 0) {
      closed = std::max(closed, open + 1);
      open = kNone;
    }
    loop_kernels_ = std::max({loop_kernels_, closed, open + 1});
  }
}

// Sets of nodes as bits: which kernels a node comes after, and which come after it.
void BoundSearch::find_chain() {
  std::vector<int> kernels, number(at(nodes_), -1);
  int products = 0;
  for (int v = 0; v < nodes_; ++v) {
    if (product_[at(v)] == 0 && copy_[at(v)] == 0) continue;
    number[at(v)] = static_cast<int>(kernels.size());
    kernels.push_back(v);
    products += product_[at(v)];
  }
  const std::size_t words = kernels.size() / 64 + 1;
  std::vector<std::uint64_t> is_product(words, 0);
  for (std::size_t k = 0; k < kernels.size(); ++k)
    is_product[k / 64] |= static_cast<std::uint64_t>(product_[at(kernels[k])]) << (k % 64);
  const auto closure = [&](bool forward) {
    std::vector<std::uint64_t> bits(at(nodes_) * words, 0);
    for (int i = 0; i < nodes_; ++i) {
      const int v = forward ? i : nodes_ - 1 - i;
      std::uint64_t* own = &bits[at(v) * words];
      for (const int p : (forward ? into_ : out_of_)[at(v)]) {
        const int u = forward ? passages_[at(p)].producer : passages_[at(p)].reader;
        if (u < 0) continue;
        for (std::size_t w = 0; w < words; ++w) own[w] |= bits[at(u) * words + w];
        if (number[at(u)] >= 0) own[at(number[at(u)]) / 64] |= std::uint64_t{1} << (number[at(u)] % 64);
      }
    }
    return bits;
  };
  const std::vector<std::uint64_t> before = closure(true), after = closure(false);
  std::vector<char> behind(at(nodes_), 0);  // whether it comes after the last node of the chain
  std::vector<char> counted(kernels.size(), 0);
  int last = -1;
  for (int v = 0; v < nodes_; ++v) {
    for (const int p : into_[at(v)]) {
      const int u = passages_[at(p)].producer;
      if (u >= last && u >= 0 && (u == last || behind[at(u)] != 0)) behind[at(v)] = 1;
    }
    if (last >= 0 && behind[at(v)] == 0) continue;
    int known = product_[at(v)];
    for (std::size_t w = 0; w < words; ++w)
      known += std::popcount(before[at(v) * words + w] & is_product[w]) +
               std::popcount(after[at(v) * words + w] & is_product[w]);
    if (known < products) continue;
    chain_.push_back(last = v);
    between_.emplace_back();
    copies_before_.emplace_back();
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      const bool earlier = (before[at(v) * words + k / 64] >> (k % 64) & 1) != 0;
      if (earlier && copy_[at(kernels[k])] != 0) copies_before_.back().push_back(kernels[k]);
      if (counted[k] != 0 || product_[at(kernels[k])] == 0 || (!earlier && kernels[k] != v)) continue;
      counted[k] = 1;
      if (earlier) between_.back().push_back(kernels[k]);
    }
  }
  between_.emplace_back();
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    if (counted[k] == 0 && product_[at(kernels[k])] != 0) between_.back().push_back(kernels[k]);
  }
  // A join counts where its product is, if one of the products there must wait for it.
  joins_between_.assign(between_.size(), 0);
  for (int v = 0; v < nodes_; ++v) {
    if (joined_[at(v)] < 0 || std::find(chain_.begin(), chain_.end(), v) != chain_.end()) continue;
    for (std::size_t i = 0; i < between_.size(); ++i) {
      const std::vector<int>& inside = between_[i];
      const bool here = (i > 0 && chain_[i - 1] == joined_[at(v)]) ||
                        std::find(inside.begin(), inside.end(), joined_[at(v)]) != inside.end();
      if (!here) continue;
      const auto waits = [&](int u) {
        const int k = number[at(u)];
        return k >= 0 && product_[at(u)] != 0 && (after[at(v) * words + at(k) / 64] >> (k % 64) & 1) != 0;
      };
      if (i == chain_.size() || waits(chain_[i]) || std::any_of(inside.begin(), inside.end(), waits))
        joins_between_[i] = 1;
    }
  }
}

BoundSearch::Plan BoundSearch::plan(const std::vector<int>& choice, bool all) {
  Plan plan{choice, {}, {}, price(collectives_, choice)};
  for (int v = 0; v < nodes_; ++v) plan.kernels.push_back(kernels_[at(v)][at(choice[at(v)])]);
  for (std::size_t p = 0; p < passages_.size(); ++p) {
    const Passage& passage = passages_[p];
    Cost cost = 0;
    if (all || !passage.free)
      cost = prices_.of(passage, choice[at(passage.from)], passage.to < 0 ? -1 : choice[at(passage.to)]);
    plan.passages.push_back(cost > 0 ? cost + copies_[p] : 0);
  }
  return plan;
}

// The chain, with what is between its nodes: all products there, or the longest path, whichever is more in this plan; up to a
// node of the chain, all kernels that come before it if these are more.
BoundSearch::Row BoundSearch::longest(const Plan& plan) const {
  Row row;
  Cost total = 0;
  std::vector<Cost> start(at(nodes_), 0);  // of the longest path from the last node of the chain
  std::vector<int> through(at(nodes_), -1);
  std::vector<char> reached(at(nodes_), 0);
  std::vector<int> all;  // products so far
  int first = 0;
  const auto product = [&](int v) { return product_[at(v)] != 0 ? plan.kernels[at(v)] : 0; };
  const auto leave = [&](int v, int last) { return start[at(v)] + (v == last ? 0 : product(v)); };
  const auto add = [&](int v) {
    if (product_[at(v)] != 0) row.nodes.push_back(v);
  };
  bool open = false;  // a reduction since the last product
  for (std::size_t i = 0; i <= chain_.size(); ++i) {
    const int last = i == 0 ? -1 : chain_[i - 1], next = i < chain_.size() ? chain_[i] : -1;
    const int end = next < 0 ? nodes_ : next + 1;
    for (int v = first; v < end; ++v) {
      if (v == last) continue;
      start[at(v)] = 0;
      through[at(v)] = -1;
      reached[at(v)] = last < 0 ? 1 : 0;
      for (const int p : into_[at(v)]) {
        const int u = passages_[at(p)].producer;
        // Before the chain begins, paths begin anywhere.
        if (u < 0 ? last >= 0 : u < first || reached[at(u)] == 0) continue;
        const Cost arrives = (u < 0 ? 0 : leave(u, last)) + plan.passages[at(p)];
        if (reached[at(v)] != 0 && arrives <= start[at(v)]) continue;
        start[at(v)] = arrives;
        through[at(v)] = p;
        reached[at(v)] = 1;
      }
    }
    Cost path = 0, kernels = 0;
    int at_end = -1, out = -1;
    if (next >= 0) {
      path = start[at(next)];
      at_end = next;
    } else {
      for (int v = last < 0 ? 0 : last; v < nodes_; ++v) {
        if (v != last && reached[at(v)] == 0) continue;
        const Cost done = v == last ? 0 : leave(v, last);
        if (at_end < 0 || done > path) path = done, at_end = v, out = -1;
        for (const int p : out_of_[at(v)]) {
          if (passages_[at(p)].reader >= 0) continue;
          const Cost returned = done + plan.passages[at(p)];
          if (returned > path) path = returned, at_end = v, out = p;
        }
      }
    }
    const std::vector<int>& inside = between_[i];
    for (const int v : inside) kernels += plan.kernels[at(v)];
    // A loop between two of these products, or between one of them and a product that is next.
    const Cost joins = joins_between_[i] != 0 ? launch_ : 0;
    if (kernels + joins > path) {
      row.nodes.insert(row.nodes.end(), inside.begin(), inside.end());
      row.constant += joins;
      total += kernels + joins;
    } else {
      total += path;
      if (out >= 0) row.passages.push_back(out);
      int v = at_end;
      if (next < 0 && v >= 0 && v != last) add(v);
      while (v >= 0 && v != last && through[at(v)] >= 0) {
        const int p = through[at(v)];
        row.passages.push_back(p);
        v = passages_[at(p)].producer;
        if (v >= 0 && v != last) add(v);
      }
    }
    all.insert(all.end(), inside.begin(), inside.end());
    // A reduction is in a kernel of its own, beside those of products before and after it.
    const bool ends = next < 0 || product_[at(next)] != 0 || !inside.empty();
    if (ends && open) {
      row.constant += launch_;
      total += launch_;
    }
    if (ends) open = false;
    if (next < 0) break;
    add(next);
    total += product(next);
    if (product_[at(next)] != 0) all.push_back(next);
    open = open || reduction_[at(next)] != 0 || joined_[at(next)] >= 0;
    const bool opens = loops_open_[at(next)] >= loops_[at(next)];
    Cost before = launch_ * (opens ? loops_open_[at(next)] : loops_[at(next)]);
    for (const int v : all) before += plan.kernels[at(v)];
    for (const int v : copies_before_[i]) before += plan.kernels[at(v)];
    if (before > total) {
      row = {};
      row.nodes = all;
      row.nodes.insert(row.nodes.end(), copies_before_[i].begin(), copies_before_[i].end());
      row.constant = launch_ * (opens ? loops_open_[at(next)] : loops_[at(next)]);
      total = before;
      open = opens;
    }
    first = next;
    start[at(next)] = 0;
    reached[at(next)] = 1;
  }
  std::sort(row.nodes.begin(), row.nodes.end());
  std::sort(row.passages.begin(), row.passages.end());
  return row;
}

Cost BoundSearch::value(const Row& row, const Plan& plan) const {
  Cost sum = row.constant;
  if (row.kernels) {
    for (const Cost cost : plan.kernels) sum += cost;
  }
  if (row.collectives) sum += plan.collectives;
  for (const int v : row.nodes) sum += plan.kernels[at(v)];
  for (const int p : row.passages) sum += plan.passages[at(p)];
  return sum;
}

Problem BoundSearch::mixed(const std::vector<Row>& rows, const std::vector<Cost>& weights) {
  std::vector<Cost> of_node(kernels_.size(), 0), of_passage(passages_.size(), 0);
  Cost of_collectives = 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (rows[r].kernels) {
      for (Cost& weight : of_node) weight += weights[r];
    }
    if (rows[r].collectives) of_collectives += weights[r];
    for (const int v : rows[r].nodes) of_node[at(v)] += weights[r];
    for (const int p : rows[r].passages) of_passage[at(p)] += weights[r];
  }
  const auto mix = [](Cost a, Cost weight_a, Cost b, Cost weight_b) {
    return a == kForbidden || b == kForbidden ? kForbidden : a * weight_a + b * weight_b;
  };
  Problem problem;
  problem.variables.resize(kernels_.size());
  for (std::size_t v = 0; v < kernels_.size(); ++v) {
    for (std::size_t c = 0; c < kernels_[v].size(); ++c)
      problem.variables[v].push_back(
          mix(kernels_[v][c], of_node[v], collectives_.variables[v][c], of_collectives));
  }
  problem.order = collectives_.order;
  // Of equal layers once.
  std::map<std::pair<const void*, Cost>, CostTable> known;
  const auto weighted = [&](const CostTable& table, Cost weight) {
    const auto [entry, fresh] = known.try_emplace({table.address(), weight});
    if (fresh) {
      std::vector<Cost>& costs = entry->second.edit();
      for (const Cost cost : table) costs.push_back(mix(0, 0, cost, weight));
    }
    return entry->second;
  };
  for (const Edge& edge : collectives_.edges)
    problem.edges.push_back({edge.from, edge.to, weighted(edge.costs, of_collectives)});
  for (std::size_t p = 0; p < passages_.size(); ++p) {
    const Passage& passage = passages_[p];
    if (of_passage[p] == 0 || passage.free) continue;
    const CostTable& costs = prices_.table(passage);
    if (passage.to >= 0) {
      problem.edges.push_back({passage.from, passage.to, weighted(costs, of_passage[p])});
      continue;
    }
    std::vector<Cost>& own = problem.variables[at(passage.from)];
    for (std::size_t c = 0; c < own.size(); ++c)
      own[c] = mix(own[c], 1, costs[c] > 0 ? costs[c] + copies_[p] : 0, of_passage[p]);
  }
  return problem;
}

void BoundSearch::play(std::vector<Row>& rows, std::vector<Plan>& plans, bool with_order, Cost& best) {
  std::size_t with_rows = 0;  // plans whose longest chains are in the rows
  for (int round = 0; round < options_.solves; ++round) {
    for (; with_order && with_rows < plans.size(); ++with_rows) {
      Row row = longest(plans[with_rows]);
      if (std::find(rows.begin(), rows.end(), row) == rows.end()) rows.push_back(std::move(row));
    }
    std::vector<std::vector<double>> values;
    for (const Row& row : rows) {
      values.emplace_back();
      for (const Plan& plan : plans) values.back().push_back(static_cast<double>(value(row, plan)));
    }
    const std::vector<Cost> weights = best_weights(values);
    const Solution solution = solve(mixed(rows, weights), options_.solve);
    ++solves_;
    if (solution.bound == kForbidden) return;
    Cost constant = 0;
    for (std::size_t r = 0; r < rows.size(); ++r) constant += weights[r] * rows[r].constant;
    best = std::max(best, (solution.bound + constant) / kParts);
    if (!solution.feasible()) return;
    // Nothing is left to gain if this plan's rows are no more than the bound, or it is known.
    if (std::ranges::find(plans, solution.choice, &Plan::choice) != plans.end()) return;
    Plan found = plan(solution.choice, false);
    Cost most = 0;
    for (const Row& row : rows) most = std::max(most, value(row, found));
    if (with_order) most = std::max(most, value(longest(found), found));
    if (most <= best + best / 1000) return;
    found_.push_back(found.choice);
    plans.push_back(std::move(found));
  }
}

PlanBounds BoundSearch::over_plans(const std::vector<int>& seed, const std::vector<std::vector<int>>& more) {
  PlanBounds bounds;
  std::vector<Row> rows(2);
  rows[0].kernels = rows[1].collectives = true;
  rows[0].constant = launch_ * loop_kernels_;
  std::vector<Plan> plans = {plan(seed, false)};
  for (const std::vector<int>& choice : more) {
    // Conversions that were left out may be impossible.
    if (price(collectives_, choice) != kForbidden) plans.push_back(plan(choice, false));
  }
  Cost loads = 0, order = 0;
  play(rows, plans, false, loads);
  play(rows, plans, true, order);
  bounds.loads.ps = loads;
  bounds.order.ps = std::max(loads, order);
  bounds.solves = solves_;
  return bounds;
}

PlanBounds BoundSearch::of_plan(const std::vector<int>& choice) {
  const Plan plan = this->plan(choice, true);
  Row kernels, collectives;
  kernels.kernels = collectives.collectives = true;
  kernels.constant = launch_ * loop_kernels_;
  PlanBounds bounds;
  bounds.loads.ps = std::max(value(kernels, plan), value(collectives, plan));
  bounds.order.ps = std::max(bounds.loads.ps, value(longest(plan), plan));
  return bounds;
}

}  // namespace braid::frontend::sharding
