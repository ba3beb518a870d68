// Operators that compute each element from the elements at the same place, with broadcasting: every dimension
// passes. A pending sum passes only through what is linear in it.
#include "frontend/sharding/rules.h"

namespace braid::frontend::sharding {
namespace {

Factors elementwise(const NodeView& node, const Rule& rule) {
  return padded({broadcast_letters(node, node.all_inputs()), linear_of(node, rule.pending)});
}

// An integer divided by padding that is zero would be an error, and so may be a power of it. Truncation makes
// quotients of integers nonlinear.
Factors of_reals(const NodeView& node, const Rule& rule) {
  if (is_float(node.output(0).dtype)) return elementwise(node, rule);
  return {broadcast_letters(node, node.all_inputs()), {}};
}

// Only the first input has the sizes of the result; others are scalars, or only give a type.
Factors first_only(const NodeView& node, const Rule& rule) {
  return padded({broadcast_letters(node, {0}), linear_of(node, rule.pending)});
}

// Slopes are broadcast to x, and never the other way round.
Factors parametric(const NodeView& node, const Rule&) { return {broadcast_letters(node, {0, 1}), {}}; }

// The bits of elements of one size; the last dimension changes with the size of the type.
Factors bits(const NodeView& node, const Rule&) {
  if (ir::size_of(node.input(0).dtype) != ir::size_of(node.output(0).dtype)) return {};
  return {broadcast_letters(node, {0}), {}};
}

// condition, x, y: linear in x and y together.
Factors choice(const NodeView& node, const Rule&) {
  return padded({broadcast_letters(node, {0, 1, 2}), {{{1, 2}, {ir::ReduceKind::sum}}}});
}

// With random numbers it is not elementwise: ranks would draw different numbers.
Factors dropout(const NodeView& node, const Rule&) {
  if (node.version() < 7 && node.int_attribute("is_test", 0) == 0) return {};
  if (node.has_input(2)) {
    const auto training = node.known_ints(2);
    if (!training || training->at(0) != 0) return {};
  }
  Factors f{broadcast_letters(node, {0}), {}};
  if (node.computes(1)) {
    for (Letter& letter : f.letters) letter.at.push_back(out(1, letter.at[0].dim));
  }
  return f;
}

// x [batch, size, 2 * hidden] plus a bias; the halves of the last dimension meet.
Factors halves(const NodeView& node, const Rule&) {
  Factors f{broadcast_letters(node, {0}, {2}), {}};
  if (std::optional<Letter> hidden = letter_of(node.out_size(0, 2), "hidden")) {
    hidden->at = {in(0, 2, {1, 1}), in(1, 0, {1, 1}), out(0, 2)};
    f.letters.push_back(std::move(*hidden));
  }
  return f;
}

}  // namespace

namespace rule {
constexpr Rule kElementwise = {elementwise};
constexpr Rule kAdditive = {elementwise, Pending::additive};
constexpr Rule kIncreasing = {elementwise, Pending::increasing};
constexpr Rule kMultiplication = {elementwise, Pending::multilinear};
constexpr Rule kUnchanged = {elementwise, Pending::any};
constexpr Rule kDivision = {of_reals, Pending::first};
constexpr Rule kPower = {of_reals};
constexpr Rule kChoice = {choice};
constexpr Rule kBits = {bits};
constexpr Rule kFirstOnly = {first_only};
constexpr Rule kDropout = {dropout};
constexpr Rule kParametric = {parametric};
constexpr Rule kHalves = {halves};
}  // namespace rule

}  // namespace braid::frontend::sharding
