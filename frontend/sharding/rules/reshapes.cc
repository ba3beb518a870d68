// Operators that only move elements: reshape, transpose, expand, tile. Any pending state passes, since the
// elements stay what they are.
#include <algorithm>
#include <numeric>
#include <span>

#include "frontend/sharding/local.h"

namespace braid::frontend::sharding {
namespace {

using ir::Expr;
using Sizes = std::vector<Expr>;

// Finds the factors that two shapes of equal numbers of elements share, from the first dimensions on and then
// from the last ones on. A factor is a letter: [batch, 768] and [batch, 12, 64] share batch, 12 (with 64
// inside) and 64 (12 times).
class SharedFactors {
 public:
  SharedFactors(const Sizes& a, const Sizes& b) : a_(a), b_(b), a_end_(a.size()), b_end_(b.size()) {}

  Letters run() {
    while (forwards()) {
    }
    while (backwards()) {
    }
    return std::move(letters_);
  }

 private:
  // Takes the smallest group of leading dimensions of both with equal products; false if there is none.
  bool forwards() {
    std::size_t a = a_begin_, b = b_begin_;
    if (a == a_end_ || b == b_end_) return false;
    Expr of_a = a_[a++], of_b = b_[b++];
    while (!(of_a == of_b)) {
      if (a < a_end_ && grows(of_a, of_b)) {
        of_a = of_a * a_[a++];
      } else if (b < b_end_ && grows(of_b, of_a)) {
        of_b = of_b * b_[b++];
      } else {
        return false;
      }
    }
    factor(a_begin_, a, b_begin_, b);
    a_begin_ = a;
    b_begin_ = b;
    return true;
  }

  bool backwards() {
    std::size_t a = a_end_, b = b_end_;
    if (a == a_begin_ || b == b_begin_) return false;
    Expr of_a = a_[--a], of_b = b_[--b];
    while (!(of_a == of_b)) {
      if (a > a_begin_ && grows(of_a, of_b)) {
        of_a = of_a * a_[--a];
      } else if (b > b_begin_ && grows(of_b, of_a)) {
        of_b = of_b * b_[--b];
      } else {
        return false;
      }
    }
    factor(a, a_end_, b, b_end_);
    a_end_ = a;
    b_end_ = b;
    return true;
  }

  // Whether another dimension must be added to the product that is smaller.
  static bool grows(const Expr& product, const Expr& other) {
    if (product.is_constant() && other.is_constant()) return product.constant() < other.constant();
    if (product.is_constant(1)) return true;
    return !other.is_constant(1) && ir::divide_exactly(other, product).has_value();
  }

  void factor(std::size_t a_begin, std::size_t a_end, std::size_t b_begin, std::size_t b_end) {
    const auto is_static = [](const Expr& e) { return e.is_constant() && e.constant() > 0; };
    if (!std::ranges::all_of(std::span(a_).subspan(a_begin, a_end - a_begin), is_static) ||
        !std::ranges::all_of(std::span(b_).subspan(b_begin, b_end - b_begin), is_static))
      return;
    std::size_t a = a_begin, b = b_begin;
    std::int64_t left_a = a_[a].constant(), left_b = b_[b].constant();
    while (true) {
      while (left_a == 1 && ++a < a_end) left_a = a_[a].constant();
      while (left_b == 1 && ++b < b_end) left_b = b_[b].constant();
      if (a >= a_end || b >= b_end) return;
      const std::int64_t common = std::gcd(left_a, left_b);
      if (common == 1) return;
      Letter letter = *letter_of(common, "f" + std::to_string(letters_.size()));
      letter.at = {in(0, a, segments(a_[a].constant(), left_a, common)),
                   out(0, b, segments(b_[b].constant(), left_b, common))};
      letter.padded = true;
      if (std::max(letter.at[0].segments.size(), letter.at[1].segments.size()) <= kMostSegments)
        letters_.push_back(std::move(letter));
      left_a /= common;
      left_b /= common;
    }
  }

  static std::vector<std::int64_t> segments(std::int64_t whole, std::int64_t left, std::int64_t factor) {
    return std::vector<std::int64_t>(whole / left, left / factor);
  }

  // Blocks of more pieces cost more than they are worth.
  static constexpr std::size_t kMostSegments = 64;

  const Sizes &a_, &b_;
  std::size_t a_begin_ = 0, b_begin_ = 0, a_end_, b_end_;
  Letters letters_;
};

Factors reshape(const NodeView& node, const Rule& rule) {
  return {SharedFactors(node.input(0).sizes, node.output(0).sizes).run(), linear_of(node, rule.pending)};
}

// The target names whole sizes: 0 copies the local size, -1 is what is left, and other entries become local.
void write_reshape(LocalNode& local) {
  const NodeView& view = local.view;
  const Sizes &from = view.input(0).sizes, &to = view.output(0).sizes;
  const std::vector<Expr>& target = view.input(1).elements->values;
  const bool copies = view.int_attribute("allowzero", 0) == 0;
  std::vector<std::int64_t> added(to.size(), 0);
  for (int d = 0; d < count_of(to); ++d) {
    if (target[d].is_constant(-1)) continue;
    const Expr own = local_size(local.strategy.outputs[0], d, to[d], local.ranks());
    if (target[d].is_constant(0) && copies) {
      if (!(local_size(local.strategy.inputs[0], d, from[d], local.ranks()) == own))
        added[d] = own.constant();
    } else if (!(own == to[d])) {
      added[d] = own.constant() - to[d].constant();
    }
  }
  local.add_to_input(1, added);
  local.emit();
}

Factors transpose(const NodeView& node, const Rule& rule) {
  Factors f;
  const int rank = node.rank(0);
  std::vector<std::int64_t> order;
  for (int d = rank; d-- > 0;) order.push_back(d);
  if (const auto given = node.ints_attribute("perm")) order = *given;
  for (int d = 0; d < rank; ++d) {
    const int from = NodeView::axis(order[d], rank);
    std::optional<Letter> letter = letter_of(node.size(0, from), "d" + std::to_string(from));
    if (!letter) continue;
    letter->at = {in(0, from), out(0, d)};
    letter->padded = true;
    f.letters.push_back(std::move(*letter));
  }
  f.linear = linear_of(node, rule.pending);
  return f;
}

Factors expand(const NodeView& node, const Rule& rule) {
  return {broadcast_letters(node, {0}), linear_of(node, rule.pending)};
}

// The vector of sizes in input k, aligned to the last dimension of the output.
void make_local(LocalNode& local, int k) {
  const NodeView& view = local.view;
  const Spec& spec = local.strategy.outputs[0];
  const std::vector<Expr>& target = view.input(k).elements->values;
  std::vector<std::int64_t> added(target.size(), 0);
  if (spec.is_split()) {
    const int at = spec.dim - (view.output(0).rank() - count_of(target));
    const std::int64_t whole = view.out_size(0, spec.dim).constant();
    if (at >= 0 && !target[at].is_constant(1)) added[at] = whole / local.ranks() - whole;
  }
  local.add_to_input(k, added);
  local.emit();
}

void write_expand(LocalNode& local) { make_local(local, 1); }
void write_constant_of_shape(LocalNode& local) { make_local(local, 0); }

// Every dimension is free: there is nothing to read.
Factors constant_of_shape(const NodeView& node, const Rule&) {
  if (!node.input(0).elements) return {};
  return {broadcast_letters(node, {}), {}};
}

// A dimension that is repeated k times is k blocks.
Factors tile(const NodeView& node, const Rule& rule) {
  constexpr std::int64_t kMostCopies = 64;
  Factors f;
  for (int d = 0; d < node.rank(0); ++d) {
    std::optional<Letter> letter = letter_of(node.size(0, d), "d" + std::to_string(d));
    const std::optional<std::int64_t> whole = static_size(node.out_size(0, d));
    if (!letter || !whole || *whole == 0 || *whole / letter->size > kMostCopies) continue;
    letter->at = {in(0, d), out(0, d, std::vector<std::int64_t>(*whole / letter->size, 1))};
    f.letters.push_back(std::move(*letter));
  }
  f.linear = linear_of(node, rule.pending);
  return f;
}

// The last two dimensions are rows and columns of the matrices that are cut.
Factors batches_of_matrices(const NodeView& node, const Rule& rule) {
  const int rank = node.output(0).rank();
  return {broadcast_letters(node, {0}, {rank - 2, rank - 1}), linear_of(node, rule.pending)};
}

constexpr Pending kAny = Pending::any;

}  // namespace

namespace rule {
constexpr Rule kConstantOfShape = {constant_of_shape, Pending::none, write_constant_of_shape};
constexpr Rule kExpand = {expand, kAny, write_expand};
constexpr Rule kReshape = {reshape, kAny, write_reshape};
constexpr Rule kTile = {tile, kAny};
constexpr Rule kTranspose = {transpose, kAny};
constexpr Rule kTriangles = {batches_of_matrices, Pending::first};
constexpr Rule kView = {reshape, kAny};
}  // namespace rule

}  // namespace braid::frontend::sharding
