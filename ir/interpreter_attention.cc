#include <cmath>
#include <limits>
#include <optional>

#include "ir/interpreter_body.h"
#include "ir/interpreter_kernels.h"
#include "ir/typing.h"

namespace braid::ir {
namespace {

// Computes one row of the result after the other: all scores, their softmax, the weighted sum of values.
// Scores are rounded to their type after every step, because a mask such as -3e38 hides what is added to it;
// sums are double.
class Rows {
 public:
  Rows(RankMemory& memory, const Operation& op, const Attention& k)
      : op_(op),
        k_(k),
        query_(memory.view(k.query)),
        key_(memory.view(k.key)),
        value_(memory.view(k.value)),
        out_(memory.view(k.out)),
        score_(accumulator_of(query_.dtype)) {
    if (k.mask) mask_ = memory.view(*k.mask);
    if (k.valid_keys) valid_keys_ = memory.view(*k.valid_keys);
    if (k.positions) positions_ = memory.view(*k.positions);
    first_position_ = memory.size(k.first_position);
    if (k.before) before_ = memory.size(*k.before);
    if (k.after) after_ = memory.size(*k.after);
    internal_check(query_.sizes[0] == key_.sizes[0] && query_.sizes[0] == value_.sizes[0] &&
                       query_.sizes[3] == key_.sizes[3] && key_.sizes[1] == value_.sizes[1] &&
                       key_.sizes[2] == value_.sizes[2] &&
                       (query_.sizes[1] == 0 || query_.sizes[1] % key_.sizes[1] == 0),
                   "'{}': the sizes of the operands do not agree", op.name);
  }

  void run() {
    std::int64_t at[4] = {};
    for_each_point(std::span(query_.sizes).first(3), at, [&] { row(at[0], at[1], at[2]); });
  }

 private:
  void row(std::int64_t batch, std::int64_t head, std::int64_t query) {
    const std::int64_t key_head = head / (query_.sizes[1] / key_.sizes[1]);
    const double none = -std::numeric_limits<double>::infinity();
    std::vector<double> scores;
    double most = none;
    for (std::int64_t j = 0; j < key_.sizes[2]; ++j) {
      scores.push_back(may_attend(batch, query, j) ? score(batch, head, query, key_head, j) : none);
      most = std::isnan(scores.back()) || scores.back() > most ? scores.back() : most;
    }
    double sum = 0;
    for (double& s : scores) {
      s = s == none ? 0 : std::exp(rounded_score(s - most));
      sum += s;
    }
    for (double& s : scores) s = weight(s, sum);
    for (std::int64_t e = 0; e < value_.sizes[3]; ++e) {
      double total = 0;
      for (std::int64_t j = 0; j < key_.sizes[2]; ++j) {
        const double w = scores[static_cast<std::size_t>(j)];
        if (std::isnan(w) || may_attend(batch, query, j))
          total += factor(w) * factor(load(value_, {batch, key_head, j, e}).d);
      }
      write_element(out_.dtype, byte_at(out_, offset(out_, {batch, head, query, e}), op_, true),
                    to_literal(out_.dtype, rounded(out_.dtype, {total, 0})));
    }
  }

  // exponential / sum, where the sum of a row without a softmax is 0 or NaN.
  double weight(double exponential, double sum) const {
    if (sum > 0) return exponential / sum;
    const bool zero =
        k_.undefined == UndefinedRows::zero || (k_.undefined == UndefinedRows::zero_if_masked && sum == 0);
    return zero ? 0 : std::numeric_limits<double>::quiet_NaN();
  }

  bool may_attend(std::int64_t batch, std::int64_t query, std::int64_t key) const {
    if (valid_keys_ && key >= load(*valid_keys_, {batch}).i) return false;
    // Differences of positions that a tensor gives may exceed 64 bits.
    const double position = static_cast<double>(positions_ ? load(*positions_, {batch}).i : first_position_) +
                            static_cast<double>(query);
    if (before_ && static_cast<double>(key) < position - static_cast<double>(*before_)) return false;
    return !after_ || static_cast<double>(key) <= position + static_cast<double>(*after_);
  }

  double score(std::int64_t batch, std::int64_t head, std::int64_t query, std::int64_t key_head,
               std::int64_t key) const {
    double product = 0;
    for (std::int64_t d = 0; d < query_.sizes[3]; ++d)
      product +=
          factor(load(query_, {batch, head, query, d}).d) * factor(load(key_, {batch, key_head, key, d}).d);
    double s = rounded_score(product * k_.scale);
    if (k_.softcap != 0) s = rounded_score(std::tanh(s / k_.softcap) * k_.softcap);
    if (!mask_) return s;
    const Scalar mask = load(*mask_, {batch, head, query, key});
    if (mask_->dtype == DType::boolean && mask.i != 0) return s;
    if (mask_->dtype == DType::boolean) return rounded_score(k_.adds_fill ? s + k_.fill : k_.fill);
    return rounded_score(s + mask.d);
  }

  double factor(double x) const { return k_.tf32 ? in_tf32({x, 0}).d : x; }
  double rounded_score(double x) const { return rounded(score_, {x, 0}).d; }
  Scalar load(const ByteView& v, std::initializer_list<std::int64_t> at) const {
    return to_scalar(read_element(v.dtype, byte_at(v, offset(v, at), op_)));
  }
  static std::int64_t offset(const ByteView& v, std::initializer_list<std::int64_t> at) {
    std::int64_t bytes = v.offset;
    std::size_t d = 0;
    for (std::int64_t i : at) bytes += i * v.strides[d++];
    return bytes;
  }

  const Operation& op_;
  const Attention& k_;
  ByteView query_, key_, value_, out_;
  std::optional<ByteView> mask_, valid_keys_, positions_;
  DType score_;
  std::int64_t first_position_ = 0;
  std::optional<std::int64_t> before_, after_;
};

}  // namespace

void run_kernel(RankMemory& memory, const Operation& op, const Attention& attention) {
  Rows(memory, op, attention).run();
}

}  // namespace braid::ir
