#include "tests/support/random_epilogues.h"

#include <fmt/format.h>

#include <random>

namespace braid::test {
namespace {

// One loop body as text; values are "%0", "%1", ...
class Body {
 public:
  // Computes in type `inside`, between tensors of another type where they differ.
  Body(std::mt19937_64& random, std::string tensors, std::string inside)
      : random_(random), tensors_(std::move(tensors)), inside_(std::move(inside)) {}

  int pick(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }
  std::string load(const std::string& what) { return converted("load " + what, inside_); }
  std::string finish(const std::string& result) {
    const std::string stored = converted(result, tensors_);
    return "{\n" + text_ + "  store " + stored + "\n}\n";
  }
  std::string number(double v) { return define(fmt::format("constant {} {}", inside_, v)); }
  std::string op(const std::string& code, const std::string& a) { return define(code + " " + a); }
  std::string op(const std::string& code, const std::string& a, const std::string& b) {
    return define(fmt::format("{} {}, {}", code, a, b));
  }
  // Either way round.
  std::string either(const std::string& code, const std::string& a, const std::string& b) {
    return pick(2) == 0 ? op(code, a, b) : op(code, b, a);
  }
  std::string select(const std::string& condition, const std::string& yes, const std::string& no) {
    return define(fmt::format("where {}, {}, {}", condition, yes, no));
  }

  std::string half(const std::string& v) {
    return pick(2) == 0 ? either("mul", v, number(0.5)) : op("div", v, number(2));
  }
  std::string cube(const std::string& v) {
    if (pick(2) == 0) return op("pow", v, number(3));
    return either("mul", op("mul", v, v), v);
  }
  std::string capped(const std::string& v, double low, double high) {
    const std::string from_below = either("max", v, number(low));
    return either("min", from_below, number(high));
  }

  std::string relu(const std::string& v) {
    switch (pick(3)) {
      case 0:
        return either("max", v, number(0));
      case 1:
        return select(op("lt", v, number(0)), number(0), v);
      default:
        return half(either("add", v, op("abs", v)));
    }
  }
  std::string sigmoid(const std::string& v) {
    if (pick(2) == 0) return op("sigmoid", v);
    const std::string sum = either("add", op("exp", op("neg", v)), number(1));
    return pick(2) == 0 ? op("reciprocal", sum) : op("div", number(1), sum);
  }
  // v/2 (1 + bent), in any order.
  std::string gate(const std::string& v, const std::string& bent) {
    const std::string sum = either("add", bent, number(1));
    return pick(2) == 0 ? either("mul", half(v), sum) : half(either("mul", v, sum));
  }
  std::string gelu_tanh(const std::string& v, double cubic) {
    const std::string inner =
        pick(2) == 0
            ? either("add", v, either("mul", cube(v), number(cubic)))
            : either("mul", v, either("add", number(1), either("mul", number(cubic), op("mul", v, v))));
    return gate(v, op("tanh", either("mul", inner, number(0.7978845608))));
  }
  std::string gelu_erf(const std::string& v) {
    const std::string inner =
        pick(2) == 0 ? op("div", v, number(1.41421356)) : either("mul", v, number(0.70710678));
    return gate(v, op("erf", inner));
  }

  std::string activation(const std::string& v) {
    switch (pick(8)) {
      case 0:
      case 1:
      case 2:
        return relu(v);
      case 3:
        return gelu_tanh(v, 0.044715);
      case 4:
        return gelu_erf(v);
      case 5:
        return sigmoid(v);
      case 6:
        return op("tanh", v);
      default:
        return op("sub", op("mul", sigmoid(op("add", v, v)), number(2)), number(1));  // tanh
    }
  }
  // Each of them agrees with an activation, or nearly so, in some interval around 0.
  std::string look_alike(const std::string& v) {
    switch (pick(12)) {
      case 0:
        return capped(v, 0, 10);
      case 1:
        return capped(v, 0, 6);
      case 2:
        return op("min", relu(v), number(9));
      case 3:
        return op("sub", relu(v), relu(op("sub", v, number(9))));
      case 4:
        return select(op("lt", v, number(0)), either("mul", v, number(0.01)), v);
      case 5:
        return either("max", v, either("mul", v, number(0.125)));
      case 6:
        return either("max", v, number(-1));
      case 7:
        return op("min", v, number(0));
      case 8:
        return gelu_tanh(v, 0.05);
      case 9:
        return gelu_erf(op("min", v, number(9)));
      case 10:
        return either("mul", v, sigmoid(either("mul", v, number(1.702))));
      default:
        return op("tanh", capped(v, -1, 1));
    }
  }
  std::string bent(const std::string& v) { return pick(2) == 0 ? activation(v) : look_alike(v); }

 private:
  std::mt19937_64& random_;
  std::string tensors_, inside_, text_;
  int next_ = 0;

  // A value of a tensor, or one for a tensor, in the other type.
  std::string converted(const std::string& what, const std::string& type) {
    const std::string v = what[0] == '%' ? what : define(what);
    return tensors_ == inside_ ? v : define(fmt::format("cast {} {}", type, v));
  }
  std::string define(const std::string& what) {
    text_ += fmt::format("  %{} = {}\n", next_, what);
    return fmt::format("%{}", next_++);
  }
};

}  // namespace

std::string random_epilogues(std::uint64_t seed, const std::string& type) {
  std::mt19937_64 random(seed);
  std::string text = fmt::format(
      "graph main\ndim n in [1, 40]\n"
      "input %x: {0}[n, 48]\ninput %v: {0}[48, 8]\ninput %bias: {0}[8]\ninput %residual: {0}[n, 8]\n"
      "constant %w: {0}[48, 8] = splat(1)\n",
      type);
  std::string outputs;
  for (int k = 0; k < kEpiloguesPerProgram; ++k) {
    text += fmt::format("%t{}: {}[n, 8] = gemm %x, {}\n", k, type, random() % 2 == 0 ? "%v" : "%w");
    std::string last = fmt::format("%t{}", k);
    const int loops = 1 + static_cast<int>(random() % 2);
    for (int l = 0; l < loops; ++l) {
      // Rounded at each step, or in float32 between the tensors.
      Body body(random, type, random() % 2 == 0 ? type : "f32");
      std::string v = body.load(last);
      if (body.pick(4) == 0) v = body.either("mul", v, body.number(0.125));
      if (body.pick(3) == 0) v = body.either("add", v, body.load("%bias[i1]"));
      if (body.pick(4) != 0) v = body.bent(v);
      if (body.pick(5) == 0) v = body.either("add", v, body.load("%residual"));
      const std::string next = fmt::format("%y{}_{}", k, l);
      text += fmt::format("{}: {}[n, 8] = pointwise {}", next, type, body.finish(v));
      last = next;
    }
    outputs += "output " + last + "\n";
  }
  return text + outputs;
}

}  // namespace braid::test
