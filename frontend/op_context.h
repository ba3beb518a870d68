// The view of one node for its lowering: inputs, attributes and outputs.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "frontend/value.h"

namespace onnx {
class AttributeProto;
class NodeProto;
}  // namespace onnx

namespace braid::frontend {

class MeasuredSizes;

class OpContext {
 public:
  // `inputs` has a nullptr for every absent input. `version` is that of the node's domain.
  OpContext(const std::string& path, const onnx::NodeProto& node, int version, int ranks,
            ir::Lowering& lowering, MeasuredSizes& measured, std::vector<Value*> inputs);

  // The same node with other inputs, and in another graph.
  OpContext with(std::vector<Value*> inputs) const { return in(lowering_, measured_, std::move(inputs)); }
  OpContext in(ir::Lowering& lowering, MeasuredSizes& measured, std::vector<Value*> inputs) const {
    return {path_, node_, version_, ranks_, lowering, measured, std::move(inputs)};
  }

  const std::string& op_type() const;
  const std::string& domain() const;        // "" is ONNX's own, also where the model writes "ai.onnx"
  int version() const { return version_; }  // of the operator set in force
  int ranks() const { return ranks_; }
  ir::Lowering& lowering() { return lowering_; }

  // ---- inputs; an index beyond the last one is an absent input
  int input_count() const { return static_cast<int>(inputs_.size()); }
  bool has_input(int k) const { return k < input_count() && inputs_[static_cast<std::size_t>(k)] != nullptr; }
  Value& value(int k);
  ir::TensorBox input(int k) { return box_of(value(k), lowering_); }
  ir::DType dtype(int k) { return value(k).dtype; }
  const std::vector<ir::Expr>& sizes(int k) { return value(k).sizes; }
  // Returns the size along one axis; a negative axis counts from the last, which is -1. Throws BR0114 if
  // input k has no such axis.
  const ir::Expr& size(int k, int axis);
  int rank(int k) { return static_cast<int>(sizes(k).size()); }

  // Returns integers from which sizes follow, equal on all ranks, as expressions over dimensions. Those
  // known only at run time are measured (measured_size), under the name of the input and, if there are
  // several, their position: "sizes", "sizes.0"; from then on they are known. `what` names them in the
  // error.
  std::vector<ir::Expr> shape_values(int k, const char* what);
  // A dimension that a step measures, for a size that follows from the values of input k: the value of
  // the i64 scalar that `value` makes. Refuses the node (fail_unknown) where nothing can be measured, or
  // if there is no capacity: neither the user's, --capacity NAME=N, nor `most`, which the value cannot
  // exceed.
  ir::Expr measured_size(int k, const char* what, const std::string& name, std::optional<std::int64_t> most,
                         const std::function<ir::TensorBox()>& value);
  // Whether sizes may be measured here.
  bool measures() const;
  // Whether the user has given the size of this name a capacity, and that which it has.
  bool gives_capacity(const std::string& name) const;
  std::optional<std::int64_t> capacity(const std::string& name);
  // Whether the values of input k are known at compile time.
  bool knows(int k);
  // The same, but they may depend on the rank's coordinates: positions, of which no size follows.
  std::vector<ir::Expr> positions(int k, const char* what);
  // The same, as plain numbers.
  std::vector<std::int64_t> constant_ints(int k, const char* what);
  // The value of a constant with one element, if input k is one.
  std::optional<double> constant_scalar(int k);

  // ---- attributes
  bool has_attribute(const char* name) const { return find(name) != nullptr; }
  std::int64_t int_attribute(const char* name, std::int64_t fallback) const;
  std::int64_t int_attribute(const char* name) const;  // required
  float float_attribute(const char* name, float fallback) const;
  std::string string_attribute(const char* name, const std::string& fallback) const;
  std::optional<std::vector<std::int64_t>> ints_attribute(const char* name) const;
  std::optional<std::vector<float>> floats_attribute(const char* name) const;
  std::optional<std::vector<std::string>> strings_attribute(const char* name) const;
  std::optional<Tensor> tensor_attribute(const char* name) const;
  // An element type given as an ONNX number.
  ir::DType dtype_of(std::int64_t onnx_type) const;

  // An axis in [-rank, rank) as one in [0, rank).
  int normalize_axis(std::int64_t axis, int rank, const char* what = "axis") const;
  // Several of them: distinct, ascending.
  std::vector<int> normalize_axes(const std::vector<std::int64_t>& axes, int rank) const;
  // Attribute `axis`.
  int axis_attribute(int rank, std::int64_t fallback) const {
    return normalize_axis(int_attribute("axis", fallback), rank);
  }
  // Axes from an attribute (older definitions) or from input k (newer ones): normalised, distinct, ascending.
  std::optional<std::vector<int>> axes(int k, int rank);

  // ---- outputs
  int output_count() const;
  bool has_output(int k) const;  // named, so it may be read
  void set_output(int k, ir::TensorBox box);
  void set_output(int k, Tensor constant);  // known at compile time
  void set_output(int k, Value value);      // a sequence or an optional value
  // Output 0 is the concatenation of these along the last axis, in which each has size 1 (Value::columns).
  void set_columns(std::vector<ir::TensorBox> columns) { columns_ = std::move(columns); }
  const std::vector<ir::TensorBox>& columns() const { return columns_; }
  // Output 0 is made of these (Value::quantised).
  void set_quantised(QuantisedMatrix matrix) { quantised_ = std::move(matrix); }
  const std::optional<QuantisedMatrix>& quantised() const { return quantised_; }
  // The element k of each list is set where output k was.
  const std::string& output_name(int k) const;
  const std::vector<ir::TensorBox>& outputs() const { return outputs_; }
  const std::vector<std::optional<Tensor>>& constants() const { return constants_; }
  const std::vector<std::optional<Value>>& values() const { return values_; }

  [[noreturn]] void fail(int code, std::string message, std::string hint = {}) const;
  // Refuses the node because the values of input k are known only at run time. If the caller has offered
  // values for the graph inputs behind it (ImportOptions::bindable), the import starts again with these.
  [[noreturn]] void fail_unknown(int k, int code, std::string message, std::string hint = {});

 private:
  std::vector<ir::Expr> uniform(int k, const char* what);  // positions that are equal on all ranks
  const onnx::AttributeProto* find(const char* name) const;

  const std::string& path_;
  const onnx::NodeProto& node_;
  int version_;
  int ranks_;
  ir::Lowering& lowering_;
  MeasuredSizes& measured_;
  std::vector<Value*> inputs_;
  std::vector<ir::TensorBox> outputs_;
  std::vector<std::optional<Tensor>> constants_;
  std::vector<std::optional<Value>> values_;
  std::vector<ir::TensorBox> columns_;
  std::optional<QuantisedMatrix> quantised_;
};

}  // namespace braid::frontend
