#include "frontend/op_context.h"

#include <algorithm>

#include "frontend/external_data.h"
#include "frontend/load.h"
#include "frontend/measured_sizes.h"
#include "frontend/value_needed.h"
#include "ir/coordinate.h"
#include "ir/error_numbers.h"

namespace braid::frontend {

using ir::DType;
using ir::Expr;

OpContext::OpContext(const std::string& path, const onnx::NodeProto& node, int version, int ranks,
                     ir::Lowering& lowering, MeasuredSizes& measured, std::vector<Value*> inputs)
    : path_(path),
      node_(node),
      version_(version),
      ranks_(ranks),
      lowering_(lowering),
      measured_(measured),
      inputs_(std::move(inputs)) {
  outputs_.resize(static_cast<std::size_t>(node.output_size()));
  constants_.resize(outputs_.size());
  values_.resize(outputs_.size());
}

const std::string& OpContext::op_type() const { return node_.op_type(); }

const std::string& OpContext::domain() const {
  static const std::string onnx_domain;
  return node_.domain() == "ai.onnx" ? onnx_domain : node_.domain();
}

void OpContext::fail(int code, std::string message, std::string hint) const {
  ir::user_error(code, location_of(path_, node_), std::move(message), std::move(hint));
}

void OpContext::fail_unknown(int k, int code, std::string message, std::string hint) {
  throw ValueNeeded(code, location_of(path_, node_), std::move(message), std::move(hint), value(k).name);
}

Value& OpContext::value(int k) {
  if (!has_input(k)) fail(errors::kInvalidNode, fmt::format("input {} is missing", k));
  return *inputs_[static_cast<std::size_t>(k)];
}

const Expr& OpContext::size(int k, int axis) {
  const int from_first = axis < 0 ? axis + rank(k) : axis;
  if (from_first < 0 || from_first >= rank(k))
    fail(errors::kShapeMismatch,
         fmt::format("input {} has rank {}, and its axis {} is needed", k, rank(k), axis));
  return sizes(k)[static_cast<std::size_t>(from_first)];
}

const std::string& OpContext::output_name(int k) const { return node_.output(k); }

bool OpContext::knows(int k) {
  Value& v = value(k);
  return v.constant.has_value() || elements_of(v).has_value();
}

bool OpContext::measures() const { return measured_.allowed(); }

bool OpContext::gives_capacity(const std::string& name) const { return measured_.gives(name); }

std::optional<std::int64_t> OpContext::capacity(const std::string& name) {
  return measured_.capacity(name, std::nullopt);
}

Expr OpContext::measured_size(int k, const char* what, const std::string& name,
                              std::optional<std::int64_t> most,
                              const std::function<ir::TensorBox()>& value_of) {
  const std::string message =
      fmt::format("{} come from '{}', whose values are known only at run time", what, value(k).name);
  if (!measured_.allowed()) {
    fail_unknown(k, errors::kDataDependentSize, message,
                 "sizes in branches, loops and split models may depend on the sizes of inputs, not on their "
                 "values: make it a constant");
  }
  const std::optional<std::int64_t> capacity = measured_.capacity(name, most);
  if (!capacity) {
    fail_unknown(k, errors::kDataDependentSize, message,
                 fmt::format("give the size a capacity, --capacity '{}=N', or make it a constant", name));
  }
  return lowering_.measure(name, value_of(), {0, *capacity});
}

std::vector<Expr> OpContext::shape_values(int k, const char* what) {
  constexpr std::int64_t kMostSizes = 8;
  Value& v = value(k);
  const bool integers = v.dtype == DType::i64 || v.dtype == DType::i32;
  const Expr count = ir::product(v.sizes);
  if (knows(k) || !integers || v.sizes.size() > 1 || !count.is_constant() || count.constant() > kMostSizes ||
      !measured_.allowed())
    return uniform(k, what);
  std::vector<Expr> sizes;
  for (std::int64_t at = 0; at < count.constant(); ++at) {
    const std::string name = count.is_constant(1) ? v.name : fmt::format("{}.{}", v.name, at);
    sizes.push_back(measured_size(k, what, name, std::nullopt, [&] {
      const ir::TensorBox all = lowering_.cast(input(k), DType::i64);
      return v.sizes.empty() ? all : lowering_.squeeze(lowering_.slice(all, 0, at, 1), 0);
    }));
  }
  v.elements = Elements{std::vector<std::int64_t>(v.sizes.size(), count.constant()), sizes};
  return sizes;
}

std::vector<Expr> OpContext::uniform(int k, const char* what) {
  std::vector<Expr> values = positions(k, what);
  for (const Expr& e : values) {
    if (!ir::depends_on_rank(e)) continue;
    fail(errors::kRankWeightDecidesShape,
         fmt::format("{} come from '{}', which is {} and differs between the ranks", what, value(k).name,
                     to_string(e)),
         "all ranks run one program, so values that determine shapes must be equal on all ranks");
  }
  return values;
}

std::vector<Expr> OpContext::positions(int k, const char* what) {
  Value& v = value(k);
  if (const std::optional<Elements>& elements = elements_of(v)) return elements->values;
  if (v.constant && !v.constant->data.same_on_all_ranks()) {
    fail(errors::kRankWeightDecidesShape,
         fmt::format("{} come from '{}', whose values differ between the ranks' files", what, v.name),
         "all ranks run one program, so values that determine shapes must be equal on all ranks");
  }
  fail_unknown(k, errors::kDataDependentSize,
               fmt::format("{} come from '{}', whose values are known only at run time", what, v.name),
               "sizes may depend on the sizes of inputs, not on their values: make it a constant");
}

std::vector<std::int64_t> OpContext::constant_ints(int k, const char* what) {
  std::vector<std::int64_t> numbers;
  for (const Expr& e : uniform(k, what)) {
    if (!e.is_constant()) {
      fail(errors::kDataDependentSize, fmt::format("{} depend on a dimension: {}", what, to_string(e)),
           "fix the dimension to one value");
    }
    numbers.push_back(e.constant());
  }
  return numbers;
}

std::optional<double> OpContext::constant_scalar(int k) {
  Value& v = value(k);
  if (const std::optional<Elements>& elements = elements_of(v)) {
    if (elements->values.size() != 1 || !elements->values[0].is_constant()) return std::nullopt;
    return static_cast<double>(elements->values[0].constant());
  }
  if (!v.constant || v.constant->count() != 1 || !v.constant->data.same_on_all_ranks()) return std::nullopt;
  return is_float(v.dtype) ? float_at(*v.constant, 0) : static_cast<double>(integer_at(*v.constant, 0));
}

const onnx::AttributeProto* OpContext::find(const char* name) const {
  for (const onnx::AttributeProto& attribute : node_.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

std::int64_t OpContext::int_attribute(const char* name, std::int64_t fallback) const {
  const onnx::AttributeProto* attribute = find(name);
  return attribute ? attribute->i() : fallback;
}

std::int64_t OpContext::int_attribute(const char* name) const {
  if (!has_attribute(name)) fail(errors::kInvalidAttribute, fmt::format("attribute '{}' is missing", name));
  return int_attribute(name, 0);
}

float OpContext::float_attribute(const char* name, float fallback) const {
  const onnx::AttributeProto* attribute = find(name);
  return attribute ? attribute->f() : fallback;
}

std::string OpContext::string_attribute(const char* name, const std::string& fallback) const {
  const onnx::AttributeProto* attribute = find(name);
  return attribute ? attribute->s() : fallback;
}

std::optional<std::vector<std::int64_t>> OpContext::ints_attribute(const char* name) const {
  const onnx::AttributeProto* attribute = find(name);
  if (!attribute) return std::nullopt;
  return std::vector<std::int64_t>(attribute->ints().begin(), attribute->ints().end());
}

std::optional<std::vector<float>> OpContext::floats_attribute(const char* name) const {
  const onnx::AttributeProto* attribute = find(name);
  if (!attribute) return std::nullopt;
  return std::vector<float>(attribute->floats().begin(), attribute->floats().end());
}

std::optional<std::vector<std::string>> OpContext::strings_attribute(const char* name) const {
  const onnx::AttributeProto* attribute = find(name);
  if (!attribute) return std::nullopt;
  return std::vector<std::string>(attribute->strings().begin(), attribute->strings().end());
}

std::optional<Tensor> OpContext::tensor_attribute(const char* name) const {
  const onnx::AttributeProto* attribute = find(name);
  if (!attribute) return std::nullopt;
  onnx::TensorProto copy = attribute->t();
  FileMap files{std::filesystem::path(path_)};
  return take_tensor(copy, files, location_of(path_, node_));
}

DType OpContext::dtype_of(std::int64_t onnx_type) const {
  const std::optional<DType> dtype = dtype_of_onnx(static_cast<int>(onnx_type));
  if (!dtype) {
    fail(errors::kUnsupportedType,
         fmt::format("element type {} is not supported", onnx_type_name(static_cast<int>(onnx_type))),
         kSupportedTypes);
  }
  return *dtype;
}

int OpContext::normalize_axis(std::int64_t axis, int rank, const char* what) const {
  if (axis < -rank || axis >= rank) {
    fail(errors::kInvalidAttribute, fmt::format("{} is {}, expected {} to {}", what, axis, -rank, rank - 1));
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

std::optional<std::vector<int>> OpContext::axes(int k, int rank) {
  std::optional<std::vector<std::int64_t>> given = ints_attribute("axes");
  if (!given && has_input(k)) given = constant_ints(k, "axes");
  if (!given) return std::nullopt;
  return normalize_axes(*given, rank);
}

std::vector<int> OpContext::normalize_axes(const std::vector<std::int64_t>& axes, int rank) const {
  std::vector<int> result;
  for (std::int64_t axis : axes) result.push_back(normalize_axis(axis, rank, "an axis"));
  std::sort(result.begin(), result.end());
  if (std::adjacent_find(result.begin(), result.end()) != result.end())
    fail(errors::kInvalidAttribute, "an axis is given twice");
  return result;
}

int OpContext::output_count() const { return node_.output_size(); }

bool OpContext::has_output(int k) const { return k < node_.output_size() && !node_.output(k).empty(); }

void OpContext::set_output(int k, ir::TensorBox box) {
  if (k < output_count()) outputs_[static_cast<std::size_t>(k)] = std::move(box);
}

void OpContext::set_output(int k, Tensor constant) {
  if (k < output_count()) constants_[static_cast<std::size_t>(k)] = std::move(constant);
}

void OpContext::set_output(int k, Value value) {
  if (k < output_count()) values_[static_cast<std::size_t>(k)] = std::move(value);
}

}  // namespace braid::frontend
