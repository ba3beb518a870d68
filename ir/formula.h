// Formulas of one real variable in a normal form, so that what is written in two ways is found to be one:
// 0.5*x*(1 + tanh(y)), x/2 + tanh(y)*x*0.5 and x*sigmoid(2*y) are equal here.
//
// A formula is a polynomial over atoms: the variable, and functions of formulas. tanh is written by sigmoid;
// max, min, abs and selections by the steps [p > 0] and [p >= 0]; the argument of an odd function, and that
// of a step, begins with a positive coefficient. Two formulas that are equal here have equal values for all
// finite x, up to the rounding of the arithmetic they come from:
//
//   * What depends on the order of floating-point additions is not followed: terms cancel only in sums that
//     are homogeneous in x, (x + 12582912) - 12582912 is unknown, and so are coefficients that no activation
//     has.
//   * x that is NaN makes every known formula NaN that depends on x other than by a step alone.
//
// Whatever is not followed is unknown, and so is all that is made of it; an unknown formula equals nothing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace braid::ir {

struct Formula {
  using Monomial = std::vector<std::pair<int, int>>;  // atoms and their powers, by ascending atom
  std::map<Monomial, double> terms;                   // coefficients, none of them 0
  bool known = true;

  static Formula unknown() { return {{}, false}; }
  // Nothing if it depends on the variable.
  std::optional<double> as_constant() const;
  friend bool operator==(const Formula&, const Formula&) = default;
};

// Makes formulas and owns their atoms: only formulas of one algebra go together.
class FormulaAlgebra {
 public:
  Formula variable();
  Formula constant(double value);  // unknown for -0.0, which is no 0 to max, and for what is not finite
  Formula add(const Formula& p, const Formula& q);
  Formula subtract(const Formula& p, const Formula& q) { return add(p, scale(q, -1)); }
  Formula multiply(const Formula& p, const Formula& q);
  Formula scale(const Formula& p, double factor);
  Formula power(const Formula& p, int exponent);  // from 0 to 4, beyond them unknown
  Formula reciprocal(const Formula& p);
  Formula exp(const Formula& p);
  Formula erf(const Formula& p);
  Formula sigmoid(const Formula& p);
  Formula tanh(const Formula& p);
  Formula is_positive(const Formula& p);      // 1 where p > 0, else 0
  Formula is_not_negative(const Formula& p);  // 1 where p >= 0, else 0
  Formula max(const Formula& p, const Formula& q);
  Formula min(const Formula& p, const Formula& q);
  Formula abs(const Formula& p);

  // Equal, where coefficients may differ by the rounding of constants to float32.
  bool same(const Formula& p, const Formula& q) const;

 private:
  enum class Function : std::uint8_t {
    variable,
    reciprocal,
    exp,
    erf,
    sigmoid,
    is_positive,
    is_not_negative
  };
  struct Atom {
    Function function;
    Formula argument;
    friend bool operator==(const Atom&, const Atom&) = default;
  };
  std::vector<Atom> atoms_;

  Formula atom(Function function, const Formula& argument);
  Formula step(Function function, const Formula& argument);
  bool is_step(int atom) const;
  std::optional<int> degree(const Formula& p) const;
  bool same_monomial(const Formula::Monomial& a, const Formula::Monomial& b) const;
};

}  // namespace braid::ir
