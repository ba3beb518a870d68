// Matrix products: rows, columns and batches pass; a split sum leaves partial sums. A term that is added
// once, such as the bias of Gemm, is pending where the sum is split.
#include <map>

#include "frontend/sharding/rules.h"

namespace braid::frontend::sharding {
namespace {

using ir::Expr;
using ir::ReduceKind;

// Products of half types accumulate in f32 and round once; scaling integers by a fraction rounds too.
bool sums_are_exact_parts(const NodeView& node) {
  return is_float(node.output(0).dtype) ||
         (node.float_attribute("alpha", 1) == 1 && node.float_attribute("beta", 1) == 1);
}

// numpy's matmul: a 1-D operand is a row on the left and a column on the right, and its dimension is not in
// the result.
Factors matmul(const NodeView& node, const Rule&) {
  Factors f;
  const int a = node.rank(0), b = node.rank(1), y = node.output(0).rank();
  if (a == 0 || b == 0) return f;
  const int k_of_b = b == 1 ? 0 : b - 2;
  if (a > 1) add(f, letter_of(node.size(0, a - 2), "m"), {in(0, a - 2), out(0, b > 1 ? y - 2 : y - 1)});
  if (b > 1) add(f, letter_of(node.size(1, b - 1), "n"), {in(1, b - 1), out(0, y - 1)});
  if (same(node.size(0, a - 1), node.size(1, k_of_b)))
    add(f, letter_of(node.size(0, a - 1), "k"), {in(0, a - 1), in(1, k_of_b)}, ReduceKind::sum);
  // Batches are broadcast to each other, aligned at their ends.
  const int batches = y - (a > 1 ? 1 : 0) - (b > 1 ? 1 : 0);
  for (int d = 0; d < batches; ++d) {
    std::optional<Letter> letter = letter_of(node.out_size(0, d), "b" + std::to_string(d));
    if (!letter) continue;
    std::vector<Occurrence> at = {out(0, d)};
    bool clear = true;
    for (const int k : {0, 1}) {
      const int own = d - (batches - std::max(node.rank(k) - 2, 0));
      if (own < 0 || node.size(k, own).is_constant(1)) continue;
      clear &= node.size(k, own).is_constant(letter->size);
      at.push_back(in(k, own));
    }
    if (clear) add(f, std::move(letter), std::move(at));
  }
  f.linear = {{{0}, {ReduceKind::sum}}, {{1}, {ReduceKind::sum}}};
  return padded(std::move(f));
}

// a b, of matrices, times alpha, plus beta times c, which is broadcast.
Factors gemm(const NodeView& node, const Rule& rule) {
  Factors f;
  if (node.rank(0) != 2 || node.rank(1) != 2) return f;
  const bool ta = node.int_attribute("transA", 0) != 0, tb = node.int_attribute("transB", 0) != 0;
  const bool has_c = node.has_input(2);
  const int m = ta ? 1 : 0, k_of_b = tb ? 1 : 0;
  std::vector<Occurrence> rows = {in(0, m), out(0, 0)}, columns = {in(1, 1 - k_of_b), out(0, 1)};
  bool clear = true;
  if (has_c) {
    const int c = node.rank(2);
    if (c >= 1 && !node.size(2, c - 1).is_constant(1)) {
      clear &= node.size(2, c - 1) == node.out_size(0, 1);
      columns.push_back(in(2, c - 1));
    }
    if (c == 2 && !node.size(2, 0).is_constant(1)) {
      clear &= node.size(2, 0) == node.out_size(0, 0);
      rows.push_back(in(2, 0));
    }
  }
  if (!clear) return f;
  add(f, letter_of(node.out_size(0, 0), "m"), std::move(rows));
  add(f, letter_of(node.out_size(0, 1), "n"), std::move(columns));
  const bool linear = rule.pending == Pending::multilinear && sums_are_exact_parts(node);
  if (!linear) return padded(std::move(f));
  if (same(node.size(0, 1 - m), node.size(1, k_of_b))) {
    add(f, letter_of(node.size(0, 1 - m), "k"), {in(0, 1 - m), in(1, k_of_b)}, ReduceKind::sum);
    if (has_c && !f.letters.empty() && f.letters.back().name == "k") f.letters.back().pending_inputs = {2};
  }
  for (const int k : {0, 1}) {
    Linear& linear = f.linear.emplace_back(Linear{{k}, {ReduceKind::sum}});
    if (has_c) linear.inputs.push_back(2);
  }
  return padded(std::move(f));
}

// x w + bias under a function: the sum must be whole before the function.
Factors product_and_function(const NodeView& node, const Rule&) {
  Factors f;
  const int a = node.rank(0), y = node.output(0).rank();
  if (a < 2 || node.rank(1) != 2) return f;
  for (int d = 0; d + 1 < y; ++d)
    add(f, letter_of(node.out_size(0, d), "m" + std::to_string(d)), {in(0, d), out(0, d)});
  std::vector<Occurrence> columns = {in(1, 1), out(0, y - 1)};
  if (node.has_input(2)) columns.push_back(in(2, 0));
  add(f, letter_of(node.size(1, 1), "n"), std::move(columns));
  return f;
}

// com.microsoft's product of operands that may be transposed; batch transpositions are left alone.
Factors fused_matmul(const NodeView& node, const Rule&) {
  Factors f;
  const int a = node.rank(0), b = node.rank(1), y = node.output(0).rank();
  if (a < 2 || b < 2 || node.int_attribute("transBatchA", 0) != 0 ||
      node.int_attribute("transBatchB", 0) != 0)
    return f;
  const int m = node.int_attribute("transA", 0) != 0 ? a - 1 : a - 2, k_of_a = a - 2 + a - 1 - m;
  const int n = node.int_attribute("transB", 0) != 0 ? b - 2 : b - 1, k_of_b = b - 2 + b - 1 - n;
  add(f, letter_of(node.size(0, m), "m"), {in(0, m), out(0, y - 2)});
  add(f, letter_of(node.size(1, n), "n"), {in(1, n), out(0, y - 1)});
  if (same(node.size(0, k_of_a), node.size(1, k_of_b)))
    add(f, letter_of(node.size(0, k_of_a), "k"), {in(0, k_of_a), in(1, k_of_b)}, ReduceKind::sum);
  for (int d = 0; d < y - 2; ++d) {
    std::optional<Letter> letter = letter_of(node.out_size(0, d), "b" + std::to_string(d));
    if (!letter) continue;
    std::vector<Occurrence> at = {out(0, d)};
    bool clear = true;
    for (const int k : {0, 1}) {
      const int own = d - (y - node.rank(k));
      if (own < 0 || node.size(k, own).is_constant(1)) continue;
      clear &= node.size(k, own).is_constant(letter->size);
      at.push_back(in(k, own));
    }
    if (clear) add(f, std::move(letter), std::move(at));
  }
  f.linear = {{{0}, {ReduceKind::sum}}, {{1}, {ReduceKind::sum}}};
  return f;
}

// Sums of products over labels. An ellipsis stays whole, and so does a label that an operand has twice.
Factors einsum(const NodeView& node, const Rule&) {
  Factors f;
  std::string equation;
  for (const char c : node.string_attribute("equation", "")) {
    if (c != ' ') equation += c;
  }
  if (equation.find('.') != std::string::npos) return f;
  const std::size_t arrow = equation.find("->");
  std::vector<std::string> operands(1);
  for (const char c : equation.substr(0, arrow)) {
    if (c == ',') {
      operands.emplace_back();
    } else {
      operands.back() += c;
    }
  }
  if (count_of(operands) != node.inputs()) return f;
  std::map<char, int> count;
  for (const std::string& labels : operands) {
    for (const char c : labels) ++count[c];
  }
  std::string result;
  if (arrow != std::string::npos) {
    result = equation.substr(arrow + 2);
  } else {
    for (const auto& [c, n] : count) {
      if (n == 1) result += c;
    }
  }
  for (const auto& [label, n] : count) {
    std::vector<Occurrence> at;
    std::optional<Letter> letter;
    bool clear = true;
    for (int k = 0; k < count_of(operands); ++k) {
      const std::size_t d = operands[k].find(label);
      if (d == std::string::npos) continue;
      if (node.rank(k) != count_of(operands[k])) return {};
      clear &= operands[k].find(label, d + 1) == std::string::npos;
      const Expr& size = node.size(k, d);
      if (size.is_constant(1)) continue;  // broadcast
      if (!letter) letter = letter_of(size, std::string(1, label));
      clear &= letter && size.is_constant(letter->size);
      at.push_back(in(k, d));
    }
    if (!clear || !letter) continue;
    const std::size_t d = result.find(label);
    if (d != std::string::npos) at.push_back(out(0, d));
    add(f, std::move(letter), std::move(at),
        d == std::string::npos ? std::optional(ReduceKind::sum) : std::nullopt);
  }
  for (int k = 0; k < node.inputs(); ++k) f.linear.push_back({{k}, {ReduceKind::sum}});
  return f;
}

}  // namespace

namespace rule {
constexpr Rule kEinsum = {einsum};
constexpr Rule kFusedGemm = {gemm};
constexpr Rule kFusedMatMul = {fused_matmul};
constexpr Rule kGemm = {gemm, Pending::multilinear};
constexpr Rule kMatMul = {matmul};
constexpr Rule kProductAndFunction = {product_and_function};
}  // namespace rule

}  // namespace braid::frontend::sharding
