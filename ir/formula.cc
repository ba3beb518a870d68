#include "ir/formula.h"

#include <algorithm>
#include <cmath>

namespace braid::ir {

namespace {

// Activations have coefficients from 0.0357 (GELU's cubic term) to 2. Within these bounds, cancellation
// leaves an error of a few roundings.
constexpr double kSmallest = 0x1p-10, kLargest = 16;
constexpr std::size_t kMostTerms = 32;
constexpr int kHighestPower = 4;
// Float32 rounds by 6e-8, and a coefficient may be a product of several constants. The nearest coefficients
// with another meaning differ from GELU's by 3e-4.
constexpr double kSameCoefficient = 1e-6;

Formula term(Formula::Monomial monomial, double coefficient) {
  return {{{std::move(monomial), coefficient}}, true};
}

bool in_range(double coefficient) {
  return std::fabs(coefficient) >= kSmallest && std::fabs(coefficient) <= kLargest;
}

bool begins_negative(const Formula& p) { return !p.terms.empty() && p.terms.begin()->second < 0; }

}  // namespace

std::optional<double> Formula::as_constant() const {
  if (!known || terms.size() > 1) return std::nullopt;
  if (terms.empty()) return 0;
  return terms.begin()->first.empty() ? std::optional(terms.begin()->second) : std::nullopt;
}

Formula FormulaAlgebra::variable() { return atom(Function::variable, {}); }

Formula FormulaAlgebra::constant(double value) {
  if (value == 0) return std::signbit(value) ? Formula::unknown() : Formula{};
  return in_range(value) ? term({}, value) : Formula::unknown();
}

bool FormulaAlgebra::is_step(int atom) const {
  const Function f = atoms_[static_cast<std::size_t>(atom)].function;
  return f == Function::is_positive || f == Function::is_not_negative;
}

// The power of x by which all terms grow; nullopt if they differ.
std::optional<int> FormulaAlgebra::degree(const Formula& p) const {
  std::optional<int> all;
  for (const auto& [monomial, coefficient] : p.terms) {
    int own = 0;
    for (const auto& [atom, exponent] : monomial) {
      const Function f = atoms_[static_cast<std::size_t>(atom)].function;
      if (f == Function::exp) return std::nullopt;
      if (f == Function::variable) own = exponent;
    }
    if (all.value_or(own) != own) return std::nullopt;
    all = own;
  }
  return all;
}

Formula FormulaAlgebra::add(const Formula& p, const Formula& q) { return sum(p, q, true); }

Formula FormulaAlgebra::sum(const Formula& p, const Formula& q, bool computed) {
  if (!p.known || !q.known) return Formula::unknown();
  Formula sum = p;
  bool cancels = false;
  for (const auto& [monomial, coefficient] : q.terms) {
    double& total = sum.terms[monomial];
    cancels |= total * coefficient < 0;
    total += coefficient;
    if (total == 0)
      sum.terms.erase(monomial);
    else if (!in_range(total))
      return Formula::unknown();
  }
  if (sum.terms.size() > kMostTerms) return Formula::unknown();
  if (computed && cancels) {
    const std::optional<int> a = degree(p), b = degree(q);
    if (!a || a != b) return Formula::unknown();
  }
  return sum;
}

Formula FormulaAlgebra::scale(const Formula& p, double factor) { return multiply(p, constant(factor)); }

Formula FormulaAlgebra::multiply(const Formula& p, const Formula& q) {
  if (!p.known || !q.known) return Formula::unknown();
  // 0 times infinity is NaN.
  if ((p.terms.empty() && !q.as_constant()) || (q.terms.empty() && !p.as_constant()))
    return Formula::unknown();
  Formula product;
  for (const auto& [a, x] : p.terms) {
    Formula row;
    for (const auto& [b, y] : q.terms) {
      std::map<int, int> powers(a.begin(), a.end());
      for (const auto& [atom, exponent] : b) powers[atom] += exponent;
      for (auto& [atom, exponent] : powers) {
        if (is_step(atom)) exponent = 1;
        if (exponent > kHighestPower) return Formula::unknown();
      }
      if (!in_range(x * y)) return Formula::unknown();
      row = add(row, term({powers.begin(), powers.end()}, x * y));
    }
    product = add(product, row);
  }
  return product;
}

Formula FormulaAlgebra::power(const Formula& p, int exponent) {
  if (exponent < 0 || exponent > kHighestPower) return Formula::unknown();
  Formula product = constant(1);
  for (int k = 0; k < exponent; ++k) product = multiply(product, p);
  return product;
}

Formula FormulaAlgebra::atom(Function function, const Formula& argument) {
  if (!argument.known) return Formula::unknown();
  const Atom wanted{function, argument};
  const auto at = std::find(atoms_.begin(), atoms_.end(), wanted);
  const auto index = static_cast<int>(at - atoms_.begin());
  if (at == atoms_.end()) atoms_.push_back(wanted);
  return term({{index, 1}}, 1);
}

// Known for a number, and for 1 + exp(p): its reciprocal is sigmoid(-p), even if exp(p) is infinite.
Formula FormulaAlgebra::reciprocal(const Formula& p) {
  if (const auto value = p.as_constant()) return *value == 0 ? Formula::unknown() : constant(1 / *value);
  if (p.known && p.terms.size() == 2) {
    const auto& [one, first] = *p.terms.begin();
    const auto& [monomial, second] = *p.terms.rbegin();
    if (one.empty() && first == 1 && second == 1 && monomial.size() == 1 && monomial[0].second == 1) {
      const Atom& exponential = atoms_[static_cast<std::size_t>(monomial[0].first)];
      if (exponential.function == Function::exp) return sigmoid(scale(Formula(exponential.argument), -1));
    }
  }
  return Formula::unknown();
}

Formula FormulaAlgebra::exp(const Formula& p) { return atom(Function::exp, p); }

Formula FormulaAlgebra::erf(const Formula& p) {
  return begins_negative(p) ? scale(atom(Function::erf, scale(p, -1)), -1) : atom(Function::erf, p);
}

Formula FormulaAlgebra::sigmoid(const Formula& p) {
  if (begins_negative(p)) return subtract(constant(1), atom(Function::sigmoid, scale(p, -1)));
  return atom(Function::sigmoid, p);
}

Formula FormulaAlgebra::tanh(const Formula& p) {
  return subtract(scale(sigmoid(scale(p, 2)), 2), constant(1));
}

// Scales the argument so that its first coefficient is +1. Callers pass one that begins with a positive
// coefficient.
Formula FormulaAlgebra::step(Function function, const Formula& argument) {
  if (!argument.known || argument.as_constant()) return Formula::unknown();
  const Formula p = scale(argument, 1 / std::fabs(argument.terms.begin()->second));
  if (p.terms.size() == 1 && function == Function::is_positive) {
    // y*[z] > 0 where both are.
    const auto& [monomial, coefficient] = *p.terms.begin();
    Formula steps = constant(1), rest = constant(1);
    for (const auto& [index, exponent] : monomial) {
      Formula& side = is_step(index) ? steps : rest;
      side = multiply(side, term({{index, exponent}}, 1));
    }
    if (!(steps == constant(1)) && !rest.as_constant()) return multiply(steps, atom(function, rest));
  }
  return atom(function, p);
}

// [p > 0] is 1 - [-p >= 0], and [p >= 0] is 1 - [-p > 0].
Formula FormulaAlgebra::is_positive(const Formula& p) {
  if (begins_negative(p)) return subtract(constant(1), step(Function::is_not_negative, scale(p, -1)));
  return step(Function::is_positive, p);
}

Formula FormulaAlgebra::is_not_negative(const Formula& p) {
  if (begins_negative(p)) return subtract(constant(1), step(Function::is_positive, scale(p, -1)));
  return step(Function::is_not_negative, p);
}

Formula FormulaAlgebra::max(const Formula& p, const Formula& q) {
  const Formula more = sum(p, scale(q, -1), false);
  if (begins_negative(more)) return max(q, p);
  return add(q, multiply(more, is_positive(more)));
}

Formula FormulaAlgebra::min(const Formula& p, const Formula& q) {
  return scale(max(scale(p, -1), scale(q, -1)), -1);
}

Formula FormulaAlgebra::abs(const Formula& p) { return max(p, scale(p, -1)); }

bool FormulaAlgebra::same_monomial(const Formula::Monomial& a, const Formula::Monomial& b) const {
  return std::is_permutation(a.begin(), a.end(), b.begin(), b.end(), [&](const auto& x, const auto& y) {
    if (x.second != y.second) return false;
    const Atom &f = atoms_[static_cast<std::size_t>(x.first)], &g = atoms_[static_cast<std::size_t>(y.first)];
    return f.function == g.function && same(f.argument, g.argument);
  });
}

bool FormulaAlgebra::same(const Formula& p, const Formula& q) const {
  if (!p.known || !q.known) return false;
  return std::is_permutation(
      p.terms.begin(), p.terms.end(), q.terms.begin(), q.terms.end(), [&](const auto& x, const auto& y) {
        return std::fabs(x.second - y.second) <= kSameCoefficient * std::fabs(y.second) &&
               same_monomial(x.first, y.first);
      });
}

}  // namespace braid::ir
