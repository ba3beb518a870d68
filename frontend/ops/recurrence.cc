// RNN, GRU and LSTM: one product for the inputs of all steps, then a recurrent layer per direction
// (ir::Recurrence).
//
// DynamicQuantizeLSTM (com.microsoft) has 8-bit weights, transposed. Its inputs are quantised for an integer
// product, and its state at each step (runtime/host/quantised_lstm.h). With other activations than the usual
// ones, a clip, peepholes or coupled gates the state is not quantised: such layers compute with dequantised
// weights.
#include <cmath>

#include "frontend/ops/quantised.h"
#include "frontend/schemas.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

using ir::CellKind;

// An activation of ONNX's list with its parameters; computes in the type of its operand.
struct Activation {
  const char* name;
  float alpha, beta;  // defaults
  bool takes_alpha, takes_beta;
  ValueId (*body)(BodyBuilder& b, ValueId x, double alpha, double beta);
};

ValueId constant(BodyBuilder& b, ValueId like, double value) { return b.constant_of(b.dtype(like), value); }
ValueId clamp(BodyBuilder& b, ValueId x, double low, double high) {
  return b.binary(OpCode::max, b.binary(OpCode::min, x, constant(b, x, high)), constant(b, x, low));
}
ValueId times_plus(BodyBuilder& b, ValueId x, double factor, double added) {
  return b.binary(OpCode::add, b.binary(OpCode::mul, x, constant(b, x, factor)), constant(b, x, added));
}
ValueId positive_or(BodyBuilder& b, ValueId x, ValueId otherwise) {
  return b.where(b.binary(OpCode::ge, x, constant(b, x, 0)), x, otherwise);
}

constexpr Activation kActivations[] = {
    {"Affine", 1, 0, true, true,
     [](BodyBuilder& b, ValueId x, double alpha, double beta) { return times_plus(b, x, alpha, beta); }},
    {"Elu", 1, 0, true, false,
     [](BodyBuilder& b, ValueId x, double alpha, double) {
       const ValueId grown = b.binary(OpCode::sub, b.unary(OpCode::exp, x), constant(b, x, 1));
       return positive_or(b, x, b.binary(OpCode::mul, grown, constant(b, x, alpha)));
     }},
    {"HardSigmoid", 0.2f, 0.5f, true, true,
     [](BodyBuilder& b, ValueId x, double alpha, double beta) {
       return clamp(b, times_plus(b, x, alpha, beta), 0, 1);
     }},
    {"LeakyRelu", 0.01f, 0, true, false,
     [](BodyBuilder& b, ValueId x, double alpha, double) {
       return positive_or(b, x, b.binary(OpCode::mul, x, constant(b, x, alpha)));
     }},
    {"Relu", 0, 0, false, false,
     [](BodyBuilder& b, ValueId x, double, double) { return b.binary(OpCode::max, x, constant(b, x, 0)); }},
    {"ScaledTanh", 1, 1, true, true,
     [](BodyBuilder& b, ValueId x, double alpha, double beta) {
       const ValueId y = b.unary(OpCode::tanh, b.binary(OpCode::mul, x, constant(b, x, beta)));
       return b.binary(OpCode::mul, y, constant(b, x, alpha));
     }},
    {"Sigmoid", 0, 0, false, false,
     [](BodyBuilder& b, ValueId x, double, double) { return b.unary(OpCode::sigmoid, x); }},
    {"Softplus", 0, 0, false, false,
     [](BodyBuilder& b, ValueId x, double, double) {
       // max(x, 0) + log(1 + exp(-|x|)) does not overflow.
       const ValueId small = b.unary(OpCode::exp, b.unary(OpCode::neg, b.unary(OpCode::abs, x)));
       return b.binary(OpCode::add, b.binary(OpCode::max, x, constant(b, x, 0)),
                       b.unary(OpCode::log, b.binary(OpCode::add, small, constant(b, x, 1))));
     }},
    {"Softsign", 0, 0, false, false,
     [](BodyBuilder& b, ValueId x, double, double) {
       return b.binary(OpCode::div, x, b.binary(OpCode::add, b.unary(OpCode::abs, x), constant(b, x, 1)));
     }},
    {"Tanh", 0, 0, false, false,
     [](BodyBuilder& b, ValueId x, double, double) { return b.unary(OpCode::tanh, x); }},
    {"ThresholdedRelu", 1, 0, true, false,
     [](BodyBuilder& b, ValueId x, double alpha, double) {
       return b.where(b.binary(OpCode::gt, x, constant(b, x, alpha)), x, constant(b, x, 0));
     }},
};

struct Cell {
  CellKind kind;
  std::int64_t gates;
  std::vector<std::string> activations;  // defaults of one direction
};

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

class Layers {
 public:
  Layers(OpContext& c, const Cell& cell, bool quantised = false)
      : c_(c), l_(c.lowering()), cell_(cell), quantised_(quantised) {}

  void lower() {
    read_direction();
    read_sizes();
    read_activations();
    const float clip = c_.float_attribute("clip", 0);
    if (!(clip >= 0)) c_.fail(errors::kInvalidAttribute, fmt::format("attribute 'clip' is {}", clip));
    const bool batch_first = c_.int_attribute("layout", 0) != 0;
    TensorBox x = c_.input(0);
    if (batch_first) x = l_.permute(x, {1, 0, 2});
    if (quantised_) {
      read_scale(8);
      read_scale(10);
      if (c_.has_input(9)) require_zero_type(c_, 9, c_.dtype(1));
      if (c_.has_input(11)) require_zero_type(c_, 11, c_.dtype(2));
      quantised_x_ = dynamically_quantised(l_, x);
    }
    std::vector<std::vector<TensorBox>> results;
    for (int d = 0; d < directions_; ++d) results.push_back(direction(x, d, clip, batch_first));
    // Y [steps, directions, batch, hidden]; with layout 1 [batch, steps, directions, hidden].
    const auto joined = [&](std::size_t k, int axis) {
      std::vector<TensorBox> parts;
      for (const auto& r : results) parts.push_back(l_.unsqueeze(r[k], axis));
      return l_.concat(std::move(parts), axis);
    };
    if (c_.has_output(0)) {
      const TensorBox y = joined(0, 1);
      c_.set_output(0, batch_first ? l_.permute(y, {2, 0, 1, 3}) : y);
    }
    for (int k = 1; k < static_cast<int>(results[0].size()); ++k) {
      if (!c_.has_output(k)) continue;
      const TensorBox state = joined(static_cast<std::size_t>(k), 0);
      c_.set_output(k, batch_first ? l_.permute(state, {1, 0, 2}) : state);
    }
  }

 private:
  void read_direction() {
    const std::string text = c_.string_attribute("direction", "forward");
    reverse_first_ = text == "reverse";
    directions_ = text == "bidirectional" ? 2 : 1;
    if (text != "forward" && !reverse_first_ && directions_ == 1) {
      c_.fail(errors::kInvalidAttribute,
              fmt::format("attribute 'direction' is '{}', expected forward, reverse or bidirectional", text));
    }
  }

  void expect(int k, const char* what, const std::vector<Expr>& sizes) {
    if (!c_.has_input(k)) return;
    const std::vector<Expr>& given = c_.sizes(k);
    bool fits = given.size() == sizes.size();
    for (std::size_t d = 0; fits && d < sizes.size(); ++d)
      fits = !(given[d].is_constant() && sizes[d].is_constant() && !(given[d] == sizes[d]));
    if (!fits) {
      std::vector<std::string> has, wants;
      for (const Expr& e : given) has.push_back(to_string(e));
      for (const Expr& e : sizes) wants.push_back(to_string(e));
      c_.fail(errors::kShapeMismatch, fmt::format("{} have sizes [{}], expected [{}]", what,
                                                  fmt::join(has, ", "), fmt::join(wants, ", ")));
    }
    for (std::size_t d = 0; d < sizes.size(); ++d) l_.require_equal(given[d], sizes[d]);
  }

  void read_sizes() {
    if (c_.rank(0) != 3)
      c_.fail(errors::kShapeMismatch, fmt::format("the input has rank {}, expected 3", c_.rank(0)));
    if (c_.rank(2) != 3)
      c_.fail(errors::kShapeMismatch,
              fmt::format("the recurrent weights have rank {}, expected 3", c_.rank(2)));
    const bool batch_first = c_.int_attribute("layout", 0) != 0;
    const Expr batch = c_.sizes(0)[batch_first ? 0 : 1], inputs = c_.size(0, 2);
    hidden_ = c_.sizes(2)[quantised_ ? 1 : 2];
    if (const std::int64_t given = c_.int_attribute("hidden_size", 0);
        given != 0 && hidden_.is_constant() && given != hidden_.constant()) {
      c_.fail(errors::kInvalidAttribute,
              fmt::format("attribute 'hidden_size' is {}, but the recurrent weights are for {}", given,
                          to_string(hidden_)));
    }
    const Expr d = directions_, columns = hidden_ * cell_.gates;
    if (quantised_) {
      expect(1, "the weights", {d, inputs, columns});
      expect(2, "the recurrent weights", {d, hidden_, columns});
      for (int k = 8; k < 12; ++k) {
        if (!c_.has_input(k)) continue;
        const bool each_column = c_.rank(k) == 2;
        expect(k, "scales and zero points",
               each_column ? std::vector<Expr>{d, columns} : std::vector<Expr>{d});
      }
    } else {
      expect(1, "the weights", {d, columns, inputs});
      expect(2, "the recurrent weights", {d, columns, hidden_});
    }
    expect(3, "the biases", {d, columns * 2});
    expect(4, "the lengths", {batch});
    const std::vector<Expr> state =
        batch_first ? std::vector<Expr>{batch, d, hidden_} : std::vector<Expr>{d, batch, hidden_};
    expect(5, "the initial values", state);
    if (cell_.kind == CellKind::lstm) {
      expect(6, "the initial cell values", state);
      expect(7, "the peepholes", {d, hidden_ * 3});
    }
    batch_ = batch;
  }

  void read_activations() {
    std::vector<std::string> names;
    if (const auto given = c_.strings_attribute("activations")) {
      names = *given;
    } else {
      for (int d = 0; d < directions_; ++d)
        names.insert(names.end(), cell_.activations.begin(), cell_.activations.end());
    }
    const std::size_t count = cell_.activations.size() * static_cast<std::size_t>(directions_);
    if (names.size() != count) {
      c_.fail(errors::kInvalidAttribute,
              fmt::format("attribute 'activations' has {} names, expected {}", names.size(), count));
    }
    const std::vector<float> alphas = c_.floats_attribute("activation_alpha").value_or(std::vector<float>{}),
                             betas = c_.floats_attribute("activation_beta").value_or(std::vector<float>{});
    std::size_t alpha = 0, beta = 0;
    const DType wide = compute_type(c_.dtype(0));
    for (std::size_t k = 0; k < names.size(); ++k) {
      if (!equal_ignoring_case(names[k], cell_.activations[k % cell_.activations.size()]))
        usual_activations_ = false;
    }
    for (const std::string& name : names) {
      const auto* found =
          std::find_if(std::begin(kActivations), std::end(kActivations),
                       [&](const Activation& a) { return equal_ignoring_case(a.name, name); });
      if (found == std::end(kActivations))
        c_.fail(errors::kInvalidAttribute,
                fmt::format("attribute 'activations' has '{}', which is unknown", name));
      // Values are consumed by the functions that take them, in order.
      const double a = found->takes_alpha && alpha < alphas.size() ? alphas[alpha++] : found->alpha;
      const double b = found->takes_beta && beta < betas.size() ? betas[beta++] : found->beta;
      BodyBuilder body(l_.pool());
      const ValueId x = body.acc(wide);
      activations_.push_back(body.finish(found->body(body, x, a, b)));
    }
  }

  // Element d of the first axis, or, of states with the batch first, of the second.
  TensorBox of_direction(int k, int d, int axis = 0) {
    return l_.squeeze(l_.slice(c_.input(k), axis, d, 1), axis);
  }

  void read_scale(int k) {
    check_scale(c_, k);
    if (c_.rank(k) > 2)
      c_.fail(errors::kShapeMismatch, fmt::format("a scale has rank {}, expected 1 or 2", c_.rank(k)));
  }

  // Weights of a direction less their zero points: [inputs, columns], i32.
  TensorBox centred_weights(int k, int zero, int d) {
    const TensorBox weights = of_direction(k, d);
    if (is_absent_or_zero(c_, zero)) return centred(l_, weights, std::nullopt);
    return centred(l_, weights, l_.cast(of_direction(zero, d), DType::i32));
  }

  TensorBox input_product(const TensorBox& x, int d) {
    if (!quantised_) return l_.matmul(x, l_.permute(of_direction(1, d), {1, 0}));
    const TensorBox values = centred(l_, quantised_x_.values, l_.cast(quantised_x_.zero, DType::i32));
    const TensorBox factor = l_.realize(binary(l_, OpCode::mul, quantised_x_.scale, of_direction(8, d)));
    return scaled(l_, l_.matmul(values, centred_weights(1, 9, d)), factor);
  }

  TensorBox recurrent_weights(int d) {
    if (!quantised_) return l_.permute(of_direction(2, d), {1, 0});
    return scaled(l_, centred_weights(2, 11, d), of_direction(10, d));
  }

  bool quantises_state() const {
    return quantised_ && !c_.has_input(7) && c_.float_attribute("clip", 0) == 0 &&
           c_.int_attribute("input_forget", 0) == 0 && usual_activations_;
  }

  // Returns y, the last h and the last c, as recurrence() does.
  std::vector<TensorBox> with_quantised_state(const TensorBox& gates, int d, bool reverse) {
    const auto state = [&](int k) {
      return c_.has_input(k) ? of_direction(k, d) : l_.full({batch_, hidden_}, DType::f32, 0);
    };
    const Expr columns = hidden_ * 4, steps = c_.size(0, 0);
    // The kernel's work memory (runtime/quantised_lstm.h).
    const Expr depth = ir::ceil_div(hidden_, 4) * 4, padded = ir::ceil_div(hidden_, 16) * 64;
    const auto parameter = [&](int k, DType type) {
      if (!c_.has_input(k)) return l_.full({each_column_ ? columns : Expr(1)}, type, 0);
      const TensorBox box = l_.cast(of_direction(k, d), type);
      if (box.rank() == 1 && each_column_) return box;
      return each_column_ ? l_.expand(box, {columns}) : l_.reshape(box, {1});
    };
    each_column_ = c_.rank(10) == 2 || (c_.has_input(11) && c_.rank(11) == 2);
    const TensorBox lengths =
        c_.has_input(4) ? c_.input(4) : l_.generate({batch_}, [&](BodyBuilder& b, std::span<const Expr>) {
          return b.index(steps, DType::i32);
        });
    std::vector<TensorBox> results = l_.extern_call("quantised_lstm",
                                                    {gates, of_direction(2, d), parameter(10, DType::f32),
                                                     parameter(11, DType::i32), state(5), state(6), lengths},
                                                    {{DType::f32, {steps, batch_, hidden_}},
                                                     {DType::f32, {batch_, hidden_}},
                                                     {DType::f32, {batch_, hidden_}},
                                                     {DType::i8, {depth, padded}},
                                                     {DType::i32, {padded}},
                                                     {DType::u8, {batch_, depth}}},
                                                    {{"reverse", std::int64_t{reverse}}});
    results.resize(3);
    return results;
  }

  std::vector<TensorBox> direction(const TensorBox& x, int d, double clip, bool batch_first) {
    ir::Recurrence layer;
    layer.cell = cell_.kind;
    layer.reverse = reverse_first_ || d == 1;
    layer.linear_before_reset =
        cell_.kind == CellKind::gru && c_.int_attribute("linear_before_reset", 0) != 0;
    layer.coupled = cell_.kind == CellKind::lstm && c_.int_attribute("input_forget", 0) != 0;
    layer.clip = clip;
    const std::size_t functions = cell_.activations.size();
    const auto first =
        activations_.begin() + static_cast<std::ptrdiff_t>(functions * static_cast<std::size_t>(d));
    layer.activations.assign(first, first + static_cast<std::ptrdiff_t>(functions));

    ir::Lowering::RecurrenceOperands operands;
    const Expr columns = hidden_ * cell_.gates;
    TensorBox gates = input_product(x, d);
    if (c_.has_input(3)) {
      const TensorBox both = of_direction(3, d);
      gates = binary(l_, OpCode::add, gates, l_.slice(both, 0, 0, columns));
      const TensorBox recurrent = l_.slice(both, 0, columns, columns);
      // The side to which a bias is added matters only where the reset gate scales the product.
      if (layer.linear_before_reset) {
        operands.bias = recurrent;
      } else {
        gates = binary(l_, OpCode::add, gates, recurrent);
      }
    }
    if (quantises_state()) return with_quantised_state(gates, d, layer.reverse);
    operands.gates = gates;
    operands.weights = recurrent_weights(d);
    const int axis = batch_first ? 1 : 0;
    operands.initial_h =
        c_.has_input(5) ? of_direction(5, d, axis) : l_.full({batch_, hidden_}, c_.dtype(0), 0);
    if (c_.has_input(4)) operands.lengths = c_.input(4);
    if (cell_.kind == CellKind::lstm) {
      if (c_.has_input(6)) operands.initial_c = of_direction(6, d, axis);
      if (c_.has_input(7)) operands.peepholes = l_.reshape(of_direction(7, d), {3, hidden_});
    }
    return l_.recurrence(std::move(layer), operands);
  }

  OpContext& c_;
  ir::Lowering& l_;
  const Cell& cell_;
  bool quantised_;
  bool usual_activations_ = true, each_column_ = false;
  DynamicallyQuantised quantised_x_;
  bool reverse_first_ = false;
  int directions_ = 1;
  Expr hidden_ = 0, batch_ = 0;
  std::vector<ir::LoopBody> activations_;  // of all directions
};

void lower_rnn(OpContext& c) { Layers(c, {CellKind::rnn, 1, {"Tanh"}}).lower(); }
void lower_gru(OpContext& c) { Layers(c, {CellKind::gru, 3, {"Sigmoid", "Tanh"}}).lower(); }
void lower_lstm(OpContext& c) { Layers(c, {CellKind::lstm, 4, {"Sigmoid", "Tanh", "Tanh"}}).lower(); }
void lower_dynamic_quantize_lstm(OpContext& c) {
  for (int k : {1, 2}) {
    if (!kQuantisedBytes.contains(c.dtype(k)))
      c.fail(errors::kUnsupportedType,
             fmt::format("the weights are {}, expected i8 or u8", to_string(c.dtype(k))));
  }
  Layers(c, {CellKind::lstm, 4, {"Sigmoid", "Tanh", "Tanh"}}, true).lower();
}

}  // namespace

std::span<const OpSpec> recurrence_ops() {
  static const OpSpec ops[] = {
      {"", "GRU", 7, kNewestOpset, kFloats, lower_gru, work::recurrence(), rule::kRecurrence, kNoState,
       kNoSizes},
      {"", "LSTM", 7, kNewestOpset, kFloats, lower_lstm, work::recurrence(), rule::kRecurrence, kNoState,
       kNoSizes},
      {"", "RNN", 7, kNewestOpset, kFloats, lower_rnn, work::recurrence(), rule::kRecurrence, kNoState,
       kNoSizes},
      {kMicrosoftDomain, "DynamicQuantizeLSTM", 1, 1, TypeSet{DType::f32}, lower_dynamic_quantize_lstm,
       work::recurrence(),
       sharding::replicated(
           "the scale of each step is that of the largest element of input and state of the whole batch"),
       kNoState, kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
