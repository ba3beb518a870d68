#include <cmath>
#include <optional>

#include "ir/error_numbers.h"
#include "ir/interpreter_body.h"
#include "ir/interpreter_kernels.h"

namespace braid::ir {
namespace {

// One layer, computed in double and rounded where a result is stored.
class Layer {
 public:
  Layer(RankMemory& memory, const Operation& op, const Recurrence& k)
      : memory_(memory), op_(op), k_(k), gates_(memory.view(k.gates)), weights_(memory.view(k.weights)) {
    for (const LoopBody& body : k.activations) activations_.emplace_back(body, memory, op);
    batch_ = gates_.sizes[1];
    hidden_ = weights_.sizes[0];
  }

  void run() {
    const std::int64_t steps = gates_.sizes[0];
    ByteView y = memory_.view(k_.results[0]);
    for (std::int64_t n = 0; n < batch_; ++n) {
      std::vector<double> h = row(k_.initial_h, n), c(static_cast<std::size_t>(hidden_), 0);
      if (k_.cell == CellKind::lstm && k_.initial_c) c = row(*k_.initial_c, n);
      std::int64_t length = steps;
      if (k_.lengths) {
        const ByteView lengths = memory_.view(*k_.lengths);
        const Scalar given = to_scalar(
            read_element(lengths.dtype, byte_at(lengths, lengths.offset + n * lengths.strides[0], op_)));
        if (given.i < 0 || given.i > steps) {
          user_error(errors::kStepUndefined, {{}, op_.name, {}},
                     fmt::format("index {} is out of range [0, {})", given.i, steps + 1));
        }
        length = given.i;
      }
      for (std::int64_t s = 0; s < length; ++s) {
        const std::int64_t t = k_.reverse ? length - 1 - s : s;
        step(t, n, h, c);
        for (double& value : h) value = round_to(y.dtype, value);
        for (double& value : c) value = round_to(y.dtype, value);
        for (std::int64_t j = 0; j < hidden_; ++j) store(y, {t, n, j}, h[static_cast<std::size_t>(j)]);
      }
      for (std::int64_t t = length; t < steps; ++t) {
        for (std::int64_t j = 0; j < hidden_; ++j) store(y, {t, n, j}, 0);
      }
      store_row(k_.results[1], n, h);
      if (k_.cell == CellKind::lstm) store_row(k_.results[2], n, c);
    }
  }

 private:
  double load(const ByteView& v, std::initializer_list<std::int64_t> at) const {
    return to_scalar(read_element(v.dtype, byte_at(v, offset(v, at), op_))).d;
  }
  void store(const ByteView& v, std::initializer_list<std::int64_t> at, double value) {
    write_element(v.dtype, byte_at(v, offset(v, at), op_, true),
                  to_literal(v.dtype, rounded(v.dtype, {value, 0})));
  }
  static std::int64_t offset(const ByteView& v, std::initializer_list<std::int64_t> at) {
    std::int64_t bytes = v.offset;
    std::size_t d = 0;
    for (std::int64_t i : at) bytes += i * v.strides[d++];
    return bytes;
  }
  std::vector<double> row(const TensorRef& ref, std::int64_t n) {
    const ByteView v = memory_.view(ref);
    std::vector<double> values;
    for (std::int64_t j = 0; j < hidden_; ++j) values.push_back(load(v, {n, j}));
    return values;
  }
  void store_row(const TensorRef& ref, std::int64_t n, const std::vector<double>& values) {
    const ByteView v = memory_.view(ref);
    for (std::int64_t j = 0; j < hidden_; ++j) store(v, {n, j}, values[static_cast<std::size_t>(j)]);
  }
  double bias(std::int64_t gate) { return k_.bias ? load(memory_.view(*k_.bias), {gate}) : 0; }
  double peephole(std::int64_t p, std::int64_t j) {
    return k_.peepholes ? load(memory_.view(*k_.peepholes), {p, j}) : 0;
  }
  // Row `h` times one column of the recurrent weights.
  double product(const std::vector<double>& h, std::int64_t column) const {
    double sum = 0;
    for (std::int64_t i = 0; i < hidden_; ++i)
      sum += h[static_cast<std::size_t>(i)] * load(weights_, {i, column});
    return sum;
  }
  double activate(std::size_t function, double value) {
    if (k_.clip > 0) value = std::fmin(std::fmax(value, -k_.clip), k_.clip);
    const std::int64_t none = 0;
    return activations_[function].at(&none, {value, 0}).d;
  }

  void step(std::int64_t t, std::int64_t n, std::vector<double>& h, std::vector<double>& c) {
    const std::vector<double> before = h;
    const auto sum = [&](std::int64_t gate, std::int64_t j) {
      const std::int64_t column = gate * hidden_ + j;
      return load(gates_, {t, n, column}) + product(before, column) + bias(column);
    };
    std::vector<double> update, reset;
    if (k_.cell == CellKind::gru) {
      for (std::int64_t j = 0; j < hidden_; ++j) update.push_back(activate(0, sum(0, j)));
      for (std::int64_t j = 0; j < hidden_; ++j) reset.push_back(activate(0, sum(1, j)));
    }
    for (std::int64_t j = 0; j < hidden_; ++j) {
      const auto at = static_cast<std::size_t>(j);
      if (k_.cell == CellKind::rnn) {
        h[at] = activate(0, sum(0, j));
      } else if (k_.cell == CellKind::gru) {
        const std::int64_t column = 2 * hidden_ + j;
        double recurrent;
        if (k_.linear_before_reset) {
          recurrent = reset[at] * (product(before, column) + bias(column));
        } else {
          std::vector<double> kept = before;
          for (std::size_t i = 0; i < kept.size(); ++i) kept[i] *= reset[i];
          recurrent = product(kept, column) + bias(column);
        }
        const double candidate = activate(1, load(gates_, {t, n, column}) + recurrent);
        h[at] = (1 - update[at]) * candidate + update[at] * before[at];
      } else {
        const double i = activate(0, sum(0, j) + peephole(0, j) * c[at]);
        const double f = k_.coupled ? 1 - i : activate(0, sum(2, j) + peephole(2, j) * c[at]);
        const double candidate = activate(1, sum(3, j));
        c[at] = f * c[at] + i * candidate;
        const double o = activate(0, sum(1, j) + peephole(1, j) * c[at]);
        h[at] = o * activate(2, c[at]);
      }
    }
  }

  RankMemory& memory_;
  const Operation& op_;
  const Recurrence& k_;
  ByteView gates_, weights_;
  std::vector<BodyEvaluation> activations_;
  std::int64_t batch_ = 0, hidden_ = 0;
};

}  // namespace

void run_kernel(RankMemory& memory, const Operation& op, const Recurrence& recurrence) {
  Layer(memory, op, recurrence).run();
}

}  // namespace braid::ir
