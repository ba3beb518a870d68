// Formulas of one real variable in a normal form, in which different spellings are equal:
// 0.5*x*(1 + tanh(y)), x/2 + tanh(y)*x*0.5 and x*sigmoid(2*y) are one formula.
//
// A formula is a polynomial over atoms: the variable, and functions of formulas. tanh is expressed by
// sigmoid; max, min, abs and selections by the steps [p > 0] and [p >= 0]; the argument of an odd function or
// a step begins with a positive coefficient. Two equal formulas have equal values for all finite x, up to the
// rounding of the arithmetic they come from:
//
//   * Results that depend on the order of floating-point additions are not tracked: terms cancel only in sums
//     that are homogeneous in x. (x + 12582912) - 12582912 is unknown, and so are coefficients that no
//     activation has.
//   * If x is NaN, so is every known formula that depends on x other than by a step alone.
//
// Anything not tracked is unknown, and so is every formula made of it; an unknown formula equals nothing.
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
  // nullopt if it depends on the variable.
  std::optional<double> as_constant() const;
  friend bool operator==(const Formula&, const Formula&) = default;
};

// Makes formulas and owns their atoms: only formulas of one algebra can be combined.
class FormulaAlgebra {
 public:
  Formula variable();
  Formula constant(double value);  // unknown for -0.0, which max distinguishes from 0, and for inf and NaN
  Formula add(const Formula& p, const Formula& q);
  Formula subtract(const Formula& p, const Formula& q) { return add(p, scale(q, -1)); }
  Formula multiply(const Formula& p, const Formula& q);
  Formula scale(const Formula& p, double factor);
  Formula power(const Formula& p, int exponent);  // for 0 to 4, otherwise unknown
  Formula reciprocal(const Formula& p);
  Formula exp(const Formula& p);
  Formula erf(const Formula& p);
  Formula sigmoid(const Formula& p);
  Formula tanh(const Formula& p);
  Formula is_positive(const Formula& p);      // 1 if p > 0, else 0
  Formula is_not_negative(const Formula& p);  // 1 if p >= 0, else 0
  Formula max(const Formula& p, const Formula& q);
  Formula min(const Formula& p, const Formula& q);
  Formula abs(const Formula& p);

  // Whether they are equal if coefficients may differ by the rounding of constants to float32.
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

  // p + q; not `computed`: a sum that only says what a maximum is, and that no instruction rounds.
  Formula sum(const Formula& p, const Formula& q, bool computed);
  Formula atom(Function function, const Formula& argument);
  Formula step(Function function, const Formula& argument);
  bool is_step(int atom) const;
  std::optional<int> degree(const Formula& p) const;
  bool same_monomial(const Formula::Monomial& a, const Formula::Monomial& b) const;
};

}  // namespace braid::ir
