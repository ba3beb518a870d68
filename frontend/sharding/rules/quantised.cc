// Quantised operators: what a split of the numbers does to scales and zero points. These are whole where they
// are one number, and follow rows, columns or channels where there is one for each. A sum is split only if
// nothing rounds it before it is complete.
#include "frontend/sharding/local.h"
#include "split/conversion_steps.h"

namespace braid::frontend::sharding {
namespace {

using ir::Expr;
using ir::ReduceKind;

bool one_element(const NodeView& node, int k) {
  for (int d = 0; d < node.rank(k); ++d) {
    if (!node.size(k, d).is_constant(1)) return false;
  }
  return true;
}

// A matrix of a product, and the inputs that are its scale and zero point.
struct Operand {
  int input = 0;
  std::vector<int> parameters;
  bool transposed = false;
};

struct Product {
  Operand a, b;
  std::vector<int> of_result;  // its scale and zero point, which may be of rows
  int bias = -1;               // broadcast to the result
  bool sums = false;           // the result is linear in the sums
};

// numpy's matmul of quantised matrices.
class QuantisedProduct {
 public:
  QuantisedProduct(const NodeView& node, const Product& product)
      : node_(node),
        p_(product),
        a_(node.rank(product.a.input)),
        b_(node.rank(product.b.input)),
        y_(node.output(0).rank()) {}

  Factors run() {
    if (a_ == 0 || b_ == 0) return {};
    for (const auto& [operand, rank] : {std::pair(&p_.a, a_), std::pair(&p_.b, b_)}) {
      for (const int k : operand->parameters) {
        if (node_.has_input(k) && !one_element(node_, k) && rank < 2) return {};
      }
    }
    if (a_ > 1) rows();
    if (b_ > 1) columns();
    sum();
    batches();
    return std::move(f_);
  }

 private:
  Occurrence of(const Operand& operand, int rank, int d) const {
    return in(operand.input, operand.transposed && rank == 2 ? 1 - d : d);
  }
  const Expr& size(const Operand& operand, int rank, int d) const {
    return node_.size(operand.input, of(operand, rank, d).dim);
  }

  // Adds parameters of a matrix of that rank where they run along its dimension d; vectors run along `along`.
  void follow(std::vector<Occurrence>& at, const std::vector<int>& parameters, int rank, int d, int along) {
    for (const int k : parameters) {
      if (!node_.has_input(k) || one_element(node_, k)) continue;
      const int own = node_.rank(k) == 1 ? (d == along ? 0 : -1) : d - (rank - node_.rank(k));
      if (own >= 0 && !node_.size(k, own).is_constant(1)) at.push_back(in(k, own));
    }
  }
  void follow_bias(std::vector<Occurrence>& at, int d) {
    if (node_.has_input(p_.bias)) follow(at, {p_.bias}, y_, d, y_ - 1);
  }

  void rows() {
    const int y = b_ > 1 ? y_ - 2 : y_ - 1;
    std::vector<Occurrence> at = {of(p_.a, a_, a_ - 2), out(0, y)};
    follow(at, p_.a.parameters, a_, a_ - 2, a_ - 2);
    follow(at, p_.of_result, y_, y, y_ - 2);
    follow_bias(at, y);
    add(f_, size(p_.a, a_, a_ - 2), "m", std::move(at));
  }
  void columns() {
    std::vector<Occurrence> at = {of(p_.b, b_, b_ - 1), out(0, y_ - 1)};
    follow(at, p_.b.parameters, b_, b_ - 1, b_ - 1);
    follow(at, p_.of_result, y_, y_ - 1, y_ - 2);
    follow_bias(at, y_ - 1);
    add(f_, size(p_.b, b_, b_ - 1), "n", std::move(at));
  }
  void sum() {
    const int of_b = b_ == 1 ? 0 : b_ - 2;
    std::optional<Letter> letter = letter_of(size(p_.a, a_, a_ - 1), "k");
    if (!p_.sums || !letter || !size(p_.b, b_, of_b).is_constant(letter->size)) return;
    letter->at = {of(p_.a, a_, a_ - 1), of(p_.b, b_, of_b)};
    if (a_ > 1) follow(letter->at, p_.a.parameters, a_, a_ - 1, a_ - 2);
    if (b_ > 1) follow(letter->at, p_.b.parameters, b_, of_b, b_ - 1);
    letter->reduce = ReduceKind::sum;
    if (node_.has_input(p_.bias)) letter->pending_inputs = {p_.bias};
    f_.letters.push_back(std::move(*letter));
  }
  // Broadcast to each other, aligned at their ends.
  void batches() {
    const int count = y_ - (a_ > 1 ? 1 : 0) - (b_ > 1 ? 1 : 0);
    for (int d = 0; d < count; ++d) {
      std::vector<Occurrence> at = {out(0, d)};
      bool clear = true;
      for (const auto& [operand, rank, along] :
           {std::tuple(&p_.a, a_, a_ - 2), std::tuple(&p_.b, b_, b_ - 1)}) {
        const int own = d - (count - std::max(rank - 2, 0));
        if (own < 0) continue;
        if (!node_.size(operand->input, own).is_constant(1)) {
          clear &= node_.size(operand->input, own) == node_.out_size(0, d);
          at.push_back(in(operand->input, own));
        }
        follow(at, operand->parameters, rank, own, along);
      }
      follow(at, p_.of_result, y_, d, y_ - 2);
      follow_bias(at, d);
      if (clear) add(f_, node_.out_size(0, d), "b" + std::to_string(d), std::move(at));
    }
  }

  const NodeView& node_;
  const Product& p_;
  int a_, b_, y_;
  Factors f_;
};

Factors matmul_integer(const NodeView& node, const Rule&) {
  return QuantisedProduct(node, {.a = {0, {2}}, .b = {1, {3}}, .sums = true}).run();
}
// Rounds the sums.
Factors qlinear_matmul(const NodeView& node, const Rule&) {
  return QuantisedProduct(node, {.a = {0, {1, 2}}, .b = {3, {4, 5}}, .of_result = {6, 7}}).run();
}
// Sums are rounded if the result has a scale.
Factors qgemm(const NodeView& node, const Rule&) {
  const Product product = {.a = {0, {1, 2}, node.int_attribute("transA", 0) != 0},
                           .b = {3, {4, 5}, node.int_attribute("transB", 0) != 0},
                           .bias = 6,
                           .sums = !node.has_input(7)};
  return QuantisedProduct(node, product).run();
}
Factors matmul_integer_to_float(const NodeView& node, const Rule&) {
  return QuantisedProduct(node, {.a = {0, {2, 4}}, .b = {1, {3, 5}}, .bias = 6, .sums = true}).run();
}
// The scale of the first operand is that of its largest element: it stays whole.
Factors dynamic_quantize_matmul(const NodeView& node, const Rule&) {
  Factors f = QuantisedProduct(node, {.a = {0, {}}, .b = {1, {2, 3}}, .bias = 4}).run();
  std::erase_if(f.letters, [](const Letter& letter) { return letter.name != "n"; });
  return f;
}

// ---- elementwise and along axes; scales and zero points are single numbers

Factors of_two(const NodeView& node, const Rule&) { return {broadcast_letters(node, {0, 3}), {}}; }
Factors of_one(const NodeView& node, const Rule&) { return {broadcast_letters(node, {0}), {}}; }
Factors choice(const NodeView& node, const Rule&) { return {broadcast_letters(node, {0, 1, 4}), {}}; }

Factors quantised_softmax(const NodeView& node, const Rule&) {
  const int rank = node.rank(0), axis = NodeView::axis(node.int_attribute("axis", -1), rank);
  constexpr int kOneAxis = 13;
  std::set<int> whole = {axis};
  if (node.int_attribute("opset", 0) < kOneAxis) {
    for (int d = axis; d < rank; ++d) whole.insert(d);
  }
  return {broadcast_letters(node, {0}, whole), {}};
}

Factors reduce_mean(const NodeView& node, const Rule&) {
  const int rank = node.rank(0);
  std::set<int> reduced;
  if (const auto axes = node.ints_attribute("axes"); axes && !axes->empty()) {
    for (const std::int64_t a : *axes) reduced.insert(NodeView::axis(a, rank));
  } else {
    return {};
  }
  Factors f;
  int to = 0;
  const bool keeps = node.int_attribute("keepdims", 1) != 0;
  for (int d = 0; d < rank; ++d) {
    const bool is_reduced = reduced.count(d) > 0;
    if (!is_reduced) add(f, node.size(0, d), "d" + std::to_string(d), {in(0, d), out(0, to)});
    if (!is_reduced || keeps) ++to;
  }
  return f;
}

// Batch and channels, which may be last.
Factors pool(const NodeView& node, const Rule&) {
  const int rank = node.rank(0);
  std::set<int> spatial;
  const bool last = node.int_attribute("channels_last", 0) != 0 && rank >= 3;
  for (int d = last ? 1 : 2; d < (last ? rank - 1 : rank); ++d) spatial.insert(d);
  return {broadcast_letters(node, {0}, spatial), {}};
}

// The scale and zero point of the result, then tensor, scale and zero point of each part.
Factors concat(const NodeView& node, const Rule&) {
  const int axis = NodeView::axis(node.int_attribute("axis", 0), node.output(0).rank());
  std::vector<int> parts;
  for (int k = 2; k < node.inputs(); k += 3) parts.push_back(k);
  return {joined_letters(node, parts, axis), {}};
}

// A range that holds zero, in 255 steps, over all elements. Each rank finds its own extremes; the extremes of
// these are those of the whole tensor.
Factors dynamic_quantize(const NodeView& node, const Rule&) {
  constexpr int kOwnOpset = 11;
  if (node.version() < kOwnOpset) return {};
  return {broadcast_letters(node, {0}), {}};
}

std::vector<ConversionStep> two_extremes(const NodeView& node, const Strategy&, int) {
  const ConversionStep one = {StepKind::all_reduce, ir::size_of(node.input(0).dtype), node.input(0).dtype};
  return {one, one};
}

// Both extremes are quantised like the tensor would be, which gives its scale and zero point.
void write_dynamic_quantize(LocalNode& local) {
  LocalModel& m = local.model;
  const std::string x = local.inputs[0];
  const auto extreme = [&](const char* op, const char* kind) {
    const std::string own = m.fresh(local.name(kind)), all = m.fresh(local.name(std::string("all_") + kind));
    set_int(m.add_node("", op, {x}, {own}), "keepdims", 0);
    set_string(m.add_collective("AllReduce", own, all), "reduce_op", kind);
    return m.unsqueezed(all, {0}, local.name(kind));
  };
  const std::string least = extreme("ReduceMin", "min"), most = extreme("ReduceMax", "max");
  const std::string both = m.fresh(local.name("extremes"));
  set_int(m.add_node("", "Concat", {least, most}, {both}), "axis", 0);
  std::vector<std::string> results = local.outputs;
  results.resize(3);
  const std::string quantised = m.fresh(local.name("quantised"));
  for (std::size_t k = 1; k < results.size(); ++k) {
    if (results[k].empty()) results[k] = m.fresh(local.name(k == 1 ? "scale" : "zero"));
  }
  m.add_node("", "DynamicQuantizeLinear", {both}, {quantised, results[1], results[2]});
  if (!results[0].empty()) m.add_node("", "QuantizeLinear", {x, results[1], results[2]}, {results[0]});
}

constexpr const char* kRounds = "a sum is rounded when it is complete: it is not split";
constexpr const char* kLargest = "the scale depends on the largest element, so the first operand stays whole";
constexpr const char* kWholeAxis = "the axis stays whole";
constexpr const char* kSpace = "space stays whole: windows overlap";

}  // namespace

namespace rule {
constexpr Rule kDynamicQuantize = {dynamic_quantize, Pending::none, write_dynamic_quantize, "",
                                   ReduceKind::sum,  two_extremes};
constexpr Rule kDynamicQuantizeMatMul = {dynamic_quantize_matmul, Pending::none, nullptr, kLargest};
constexpr Rule kMatMulInteger = {matmul_integer};
constexpr Rule kMatMulIntegerToFloat = {matmul_integer_to_float};
constexpr Rule kQGemm = {qgemm};
constexpr Rule kQLinearBinary = {of_two};
constexpr Rule kQLinearChoice = {choice};
constexpr Rule kQLinearConcat = {concat};
constexpr Rule kQLinearGlobalPool = {pool, Pending::none, nullptr, kRounds};
constexpr Rule kQLinearMatMul = {qlinear_matmul, Pending::none, nullptr, kRounds};
constexpr Rule kQLinearMean = {reduce_mean, Pending::none, nullptr, kRounds};
constexpr Rule kQLinearPool = {pool, Pending::none, nullptr, kSpace};
constexpr Rule kQLinearSoftmax = {quantised_softmax, Pending::none, nullptr, kWholeAxis};
constexpr Rule kQLinearUnary = {of_one};
}  // namespace rule

}  // namespace braid::frontend::sharding
