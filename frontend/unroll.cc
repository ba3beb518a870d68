#include "frontend/unroll.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <limits>

#include "frontend/regions.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

using ir::DType;
using ir::Expr;
using ir::TensorBox;

Value value_of(TensorBox box) {
  Value value{"", box.dtype(), box.sizes()};
  value.box = std::move(box);
  return value;
}

Value known_integer(DType dtype, std::int64_t number, bool scalar) {
  Value value{"", dtype, {}};
  std::vector<std::int64_t> sizes(scalar ? 0 : 1, 1);
  value.sizes.assign(sizes.begin(), sizes.end());
  value.elements = Elements{std::move(sizes), {number}};
  return value;
}

std::optional<bool> known_condition(Value& value) {
  const std::optional<Elements>& elements = elements_of(value);
  if (!elements || elements->values.size() != 1 || !elements->values[0].is_constant()) return std::nullopt;
  return !elements->values[0].is_constant(0);
}

bool known_count(Value& value) {
  const std::optional<Elements>& elements = elements_of(value);
  return elements && std::all_of(elements->values.begin(), elements->values.end(),
                                 [](const Expr& e) { return e.is_constant(); });
}

class Unroller {
 public:
  Unroller(const onnx::NodeProto& node, OpContext& c, const BodyLowering& lowering)
      : node_(node), c_(c), lowering_(lowering), body_(*body_of(node)) {}

  static const onnx::GraphProto* body_of(const onnx::NodeProto& node) {
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.name() == "body" && attribute.has_g()) return &attribute.g();
    }
    return nullptr;
  }

  std::vector<Value> loop() {
    const int joined_results = body_.output_size() - 1 - std::max(node_.input_size() - 2, 0);
    check_loop();
    if (joined_results > 0) {
      const std::optional<JoinedRoom> room = joined_room();
      if (!room || worth_copying(room->count)) {
        if (std::optional<std::vector<Value>> results = copied()) return std::move(*results);
      }
      return loop_at_run_time(node_, c_, lowering_, room ? room : limited_room());
    }
    if (std::optional<std::vector<Value>> results = copied()) return std::move(*results);
    return loop_at_run_time(node_, c_, lowering_, std::nullopt);
  }

  std::vector<Value> scan() {
    const bool batched = c_.version() < 9;
    const int first = batched ? 1 : 0, inputs = node_.input_size() - first;
    const auto scans = static_cast<int>(c_.int_attribute("num_scan_inputs"));
    const int states = inputs - scans;
    if (scans < 1 || states < 0 || body_.input_size() != inputs || body_.output_size() < states)
      c_.fail(errors::kInvalidNode,
              fmt::format("its body has {} inputs and {} outputs for {} inputs, {} of them scanned",
                          body_.input_size(), body_.output_size(), inputs, scans));
    if (batched && c_.has_input(0))
      c_.fail(errors::kUnsupportedForm, "lengths of sequences are not supported", "pad the sequences");
    std::vector<TensorBox> given;
    for (int k = 0; k < inputs; ++k) given.push_back(c_.input(first + k));
    if (!batched) return scan_one(states, given);
    std::vector<std::vector<TensorBox>> by_output(static_cast<std::size_t>(body_.output_size()));
    const std::int64_t batch = fixed(c_.size(first, 0));
    for (int k = 1; k < inputs; ++k) l().require_equal(c_.size(first + k, 0), batch);
    check_count(batch);
    for (std::int64_t b = 0; b < batch; ++b) {
      std::vector<TensorBox> of_sequence;
      for (const TensorBox& x : given) of_sequence.push_back(element(x, 0, b));
      std::vector<Value> results = scan_one(states, of_sequence);
      for (std::size_t k = 0; k < results.size(); ++k) by_output[k].push_back(box_of(results[k], l()));
    }
    std::vector<Value> results;
    for (const std::vector<TensorBox>& parts : by_output) results.push_back(value_of(joined(parts, 0)));
    return results;
  }

 private:
  void check_loop() const {
    const int states = std::max(node_.input_size() - 2, 0);
    if (body_.input_size() == states + 2 && body_.output_size() >= states + 1) return;
    c_.fail(errors::kInvalidNode,
            fmt::format("its body has {} inputs and {} outputs for {} values carried along",
                        body_.input_size(), body_.output_size(), states));
  }

  // Copies the body once per iteration. nullopt if the number of iterations is not known or too large.
  std::optional<std::vector<Value>> copied() {
    const int states = std::max(node_.input_size() - 2, 0);
    if (c_.has_input(0) && !known_count(c_.value(0))) return std::nullopt;
    const std::optional<std::int64_t> most = trip_count();
    std::optional<bool> condition = true;
    if (c_.has_input(1)) condition = known_condition(c_.value(1));
    std::vector<Value> carried;
    for (int k = 0; k < states; ++k) carried.push_back(c_.value(2 + k));
    std::vector<std::vector<TensorBox>> scanned(static_cast<std::size_t>(body_.output_size() - states - 1));
    for (std::int64_t step = 0; !most || step < *most; ++step) {
      if (!condition || (*condition && step == kMaxIterations)) return std::nullopt;
      if (!*condition) break;
      check_count(step + 1);
      define_input(0, known_integer(DType::i64, step, is_scalar(0)));
      define_input(1, known_integer(DType::boolean, 1, is_scalar(1)));
      for (int k = 0; k < states; ++k) define_input(2 + k, carried[static_cast<std::size_t>(k)]);
      lowering_.lower(body_);
      condition = known_condition(result(0));
      for (int k = 0; k < states; ++k) carried[static_cast<std::size_t>(k)] = carried_on(1 + k);
      for (std::size_t k = 0; k < scanned.size(); ++k)
        scanned[k].push_back(box(1 + states + static_cast<int>(k)));
    }
    for (const std::vector<TensorBox>& parts : scanned) carried.push_back(value_of(joined(parts, 0)));
    return carried;
  }

  ir::Lowering& l() { return c_.lowering(); }
  Value& result(int k) { return lowering_.value(body_.output(k).name()); }
  TensorBox box(int k) { return box_of(result(k), l()); }

  // Returns a result that the next iteration reads. It is realised here, so that bodies of several iterations
  // do not grow into one.
  Value carried_on(int k) {
    Value value = result(k);
    if (value.box.valid() && !value.elements && !value.constant) value.box = l().realize(value.box);
    value.columns.clear();
    return value;
  }

  bool is_scalar(int k) const {
    const onnx::TypeProto& type = body_.input(k).type();
    return !type.has_tensor_type() || !type.tensor_type().has_shape() ||
           type.tensor_type().shape().dim_size() == 0;
  }

  void define_input(int k, Value value) {
    value.name = body_.input(k).name();
    lowering_.define(std::move(value));
  }

  void check_count(std::int64_t iterations) const {
    if (iterations <= kMaxIterations) return;
    c_.fail(errors::kUnsupportedForm, fmt::format("it has more than {} iterations", kMaxIterations),
            "every iteration becomes a part of the program");
  }

  // Room for joined results by the trip count. nullopt if there is none, if the condition may be false
  // from the beginning, or if the user has given their size a capacity.
  std::optional<JoinedRoom> joined_room() {
    if (!c_.has_input(0) || c_.gives_capacity(joined_name(node_, c_))) return std::nullopt;
    if (c_.has_input(1) && known_condition(c_.value(1)) != true) return std::nullopt;
    const std::vector<Expr> count = c_.shape_values(0, "the sizes of the results");
    if (count.size() != 1) c_.fail(errors::kShapeMismatch, "the number of iterations must be one number");
    // Loops that their condition ends have the largest of counts.
    if (count[0].is_constant() && count[0].constant() > std::numeric_limits<std::int32_t>::max())
      return std::nullopt;
    const Expr room = ir::max(count[0], 0);
    return JoinedRoom{room, ir::bounds(room).max};
  }

  // By the user's capacity. BR0116 if there is none.
  JoinedRoom limited_room() {
    const std::string name = joined_name(node_, c_);
    const std::optional<std::int64_t> capacity = c_.capacity(name);
    if (!capacity) {
      c_.fail_unknown(
          c_.has_input(1) ? 1 : 0, errors::kDataDependentSize,
          "its results join as many elements as it has iterations, and its condition is known only at "
          "run time",
          fmt::format("give their size a capacity, --capacity '{}=N', or fix the number of iterations",
                      name));
    }
    return {*capacity + 1, *capacity, true};
  }

  // Copies of the body compute at compile time all values that depend only on the iteration, and may
  // communicate.
  bool worth_copying(const Expr& count) const {
    if (!count.is_constant() || count.is_constant(0)) return false;
    return count.constant() <= kMaxIterations &&
           count.constant() * (body_.node_size() + 1) <= kMaxUnrolledNodes;
  }

  std::int64_t fixed(Expr count) const {
    if (!count.is_constant()) {
      c_.fail(errors::kUnsupportedForm,
              fmt::format("its number of iterations {} depends on a dimension", to_string(count)),
              "fix the dimension to one value");
    }
    return count.constant();
  }

  std::optional<std::int64_t> trip_count() {
    if (!c_.has_input(0)) return std::nullopt;
    const std::vector<Expr> count = c_.shape_values(0, "the bounds of the loop");
    if (count.size() != 1) c_.fail(errors::kShapeMismatch, "the number of iterations must be one number");
    return fixed(count[0]);
  }

  TensorBox element(const TensorBox& x, int axis, std::int64_t at) {
    return l().squeeze(l().slice(x, axis, at, 1), axis);
  }

  TensorBox joined(const std::vector<TensorBox>& parts, int axis) {
    if (parts.empty())
      c_.fail(errors::kUnsupportedForm,
              "it has no iteration, so the sizes of the results that it joins are unknown");
    std::vector<TensorBox> slabs;
    for (const TensorBox& part : parts) slabs.push_back(l().unsqueeze(part, axis));
    return l().concat(slabs, axis);
  }

  // Entry k of an attribute with one number per scanned value.
  std::int64_t entry(const char* name, std::size_t k) const {
    const auto given = c_.ints_attribute(name);
    if (!given) return 0;
    if (k >= given->size())
      c_.fail(errors::kInvalidAttribute, fmt::format("attribute '{}' has {} elements", name, given->size()));
    return (*given)[k];
  }

  // Scans one sequence: returns the final states, then the joined results.
  std::vector<Value> scan_one(int states, const std::vector<TensorBox>& given) {
    const bool old = c_.version() < 9;
    std::vector<Value> carried;
    for (int k = 0; k < states; ++k) carried.push_back(value_of(given[static_cast<std::size_t>(k)]));
    const std::size_t scans = given.size() - carried.size();
    std::vector<int> axes;
    Expr count = 0;
    for (std::size_t k = 0; k < scans; ++k) {
      const TensorBox& x = given[carried.size() + k];
      const auto rank = static_cast<int>(x.rank());
      if (rank == 0) c_.fail(errors::kShapeMismatch, "a scanned input is a scalar");
      axes.push_back(old ? 0 : c_.normalize_axis(entry("scan_input_axes", k), rank, "an axis"));
      const Expr size = x.sizes()[static_cast<std::size_t>(axes[k])];
      if (k > 0) l().require_equal(size, count);
      count = size;
    }
    if (!worth_copying(count)) return scan_as_region(given, axes, count);
    const std::int64_t steps = fixed(count);
    std::vector<std::vector<TensorBox>> scanned(static_cast<std::size_t>(body_.output_size() - states));
    for (std::int64_t step = 0; step < steps; ++step) {
      for (int k = 0; k < states; ++k) define_input(k, carried[static_cast<std::size_t>(k)]);
      for (std::size_t k = 0; k < scans; ++k) {
        const bool backwards = entry(old ? "directions" : "scan_input_directions", k) != 0;
        define_input(states + static_cast<int>(k), value_of(element(given[carried.size() + k], axes[k],
                                                                    backwards ? steps - 1 - step : step)));
      }
      lowering_.lower(body_);
      for (int k = 0; k < states; ++k) carried[static_cast<std::size_t>(k)] = carried_on(k);
      for (std::size_t k = 0; k < scanned.size(); ++k)
        scanned[k].push_back(box(states + static_cast<int>(k)));
    }
    std::vector<Value> results = std::move(carried);
    for (std::size_t k = 0; k < scanned.size(); ++k) {
      if (!old && entry("scan_output_directions", k) != 0) std::reverse(scanned[k].begin(), scanned[k].end());
      const int rank = static_cast<int>(scanned[k][0].rank()) + 1;
      results.push_back(value_of(
          joined(scanned[k], old ? 0 : c_.normalize_axis(entry("scan_output_axes", k), rank, "an axis"))));
    }
    return results;
  }

  std::vector<Value> scan_as_region(const std::vector<TensorBox>& given, const std::vector<int>& axes,
                                    const Expr& count) {
    const bool old = c_.version() < 9;
    ScanAtRunTime scan{count, given, {}, {}, {}};
    const std::size_t states = given.size() - axes.size();
    scan.scanned.assign(given.begin() + static_cast<std::ptrdiff_t>(states), given.end());
    scan.states.resize(states);
    for (std::size_t k = 0; k < axes.size(); ++k)
      scan.inputs.push_back({axes[k], entry(old ? "directions" : "scan_input_directions", k) != 0});
    for (std::size_t k = 0; k + states < static_cast<std::size_t>(body_.output_size()); ++k) {
      scan.outputs.push_back(
          {old ? 0 : entry("scan_output_axes", k), !old && entry("scan_output_directions", k) != 0});
    }
    return scan_at_run_time(node_, c_, lowering_, scan);
  }

  const onnx::NodeProto& node_;
  OpContext& c_;
  const BodyLowering& lowering_;
  const onnx::GraphProto& body_;
};

}  // namespace

std::optional<std::vector<Value>> unrolled(const onnx::NodeProto& node, OpContext& c,
                                           const BodyLowering& body) {
  const bool is_loop = node.op_type() == "Loop";
  if ((!is_loop && node.op_type() != "Scan") || !c.domain().empty()) return std::nullopt;
  if (!Unroller::body_of(node)) c.fail(errors::kInvalidAttribute, "attribute 'body' is missing");
  Unroller unroller(node, c, body);
  return is_loop ? unroller.loop() : unroller.scan();
}

}  // namespace braid::frontend
