#include "frontend/bind_inputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <variant>
#include <vector>

#include "frontend/node_row.h"
#include "ir/element.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

[[noreturn]] void refuse_value(const Model& model, const std::string& input, const std::string& why,
                               const std::string& hint) {
  ir::user_error(errors::kFixedInput, {.file = model.path},
                 fmt::format("input '{}' cannot be fixed: {}", input, why), hint);
}

const onnx::ValueInfoProto& input_named(const Model& model, const std::string& name) {
  std::vector<std::string> names;
  for (const onnx::ValueInfoProto& input : model.proto.graph().input()) {
    if (input.name() == name) return input;
    names.push_back(input.name());
  }
  refuse_value(model, name, "the model has no such input",
               names.empty() ? "the model has no inputs" : fmt::format("it has {}", fmt::join(names, ", ")));
}

// The numbers of a literal, rounded to a floating-point type; all others must hold them.
ir::Tensor converted(const Model& model, const std::string& name, const ir::Tensor& literal,
                     ir::DType dtype) {
  ir::Tensor result = ir::make_tensor(dtype, literal.sizes);
  const auto from = static_cast<std::size_t>(size_of(literal.dtype)),
             to = static_cast<std::size_t>(size_of(dtype));
  for (std::size_t k = 0; k * from < literal.bytes.size(); ++k) {
    const ir::Literal given = ir::read_element(literal.dtype, literal.bytes.data() + k * from);
    std::byte* const at = result.bytes.data() + k * to;
    const auto* real = std::get_if<double>(&given);
    const bool whole = real == nullptr || (std::trunc(*real) == *real && std::abs(*real) < 0x1p63);
    ir::Literal value = given;
    if (is_float(dtype)) {
      if (real == nullptr) value = static_cast<double>(std::get<std::int64_t>(given));
    } else if (real != nullptr) {
      value = whole ? static_cast<std::int64_t>(*real) : std::int64_t{0};
    }
    ir::write_element(dtype, at, value);
    if (is_float(dtype) || (whole && ir::read_element(dtype, at) == value)) continue;
    const std::string text = std::visit([](auto number) { return fmt::format("{}", number); }, given);
    refuse_value(model, name, fmt::format("{} has no value {}", to_string(dtype), text),
                 "give a value of the input's type");
  }
  return result;
}

// Compares the sizes with the declared ones, and fixes dimensions.
void match_sizes(const Model& model, const onnx::ValueInfoProto& input,
                 const std::vector<std::int64_t>& sizes, DimBounds& dims) {
  const onnx::TensorShapeProto& shape = input.type().tensor_type().shape();
  if (!input.type().tensor_type().has_shape()) return;
  const auto refuse = [&](const std::string& why) {
    refuse_value(model, input.name(),
                 fmt::format("its value has the shape [{}], but {}", fmt::join(sizes, ", "), why),
                 "`braid inspect` shows the shapes of inputs");
  };
  if (static_cast<std::size_t>(shape.dim_size()) != sizes.size())
    refuse(fmt::format("it has {} dimension{}", shape.dim_size(), shape.dim_size() == 1 ? "" : "s"));
  for (int k = 0; k < shape.dim_size(); ++k) {
    const auto& dim = shape.dim(k);
    const std::int64_t size = sizes[static_cast<std::size_t>(k)];
    if (dim.has_dim_value() && dim.dim_value() != -1 && dim.dim_value() != size)
      refuse(fmt::format("its size along axis {} is {}", k, dim.dim_value()));
    if (!dim.has_dim_param() || dim.dim_param().empty() || dim.dim_param() == "?") continue;
    const auto [bounds, fresh] = dims.emplace(dim.dim_param(), ir::Bounds{size, size});
    if (size < bounds->second.min || size > bounds->second.max)
      refuse(fmt::format("'{}' is {}..{} along axis {}", dim.dim_param(), bounds->second.min,
                         bounds->second.max, k));
    bounds->second = {size, size};
  }
}

}  // namespace

void fix_inputs(Model& model, const FixedInputs& fixed, DimBounds& dims) {
  for (const auto& [name, given] : fixed) {
    const onnx::ValueInfoProto& input = input_named(model, name);
    const std::optional<ir::DType> dtype = dtype_of_onnx(input.type().tensor_type().elem_type());
    if (!input.type().has_tensor_type() || !dtype)
      refuse_value(model, name, "it is no tensor of a supported type", kSupportedTypes);
    match_sizes(model, input, given.value.sizes, dims);
    const ir::Tensor value = given.is_literal ? converted(model, name, given.value, *dtype) : given.value;
    if (value.dtype != *dtype && value.dtype != byte_type(*dtype))
      refuse_value(model, name,
                   fmt::format("its value is {}, but it is {}", to_string(value.dtype), to_string(*dtype)),
                   "give a value of the input's type");
    model.initializers.insert_or_assign(name, Tensor{*dtype, value.sizes, ir::own_bytes(value.bytes)});
  }
}

void bind_inputs(Model& model, const InputValues& values, const std::set<std::string>& bound) {
  for (const std::string& name : bound) {
    const ir::Tensor& value = values.at(name);
    ir::DType dtype = value.dtype;
    // Values of storage types come as bytes.
    for (const onnx::ValueInfoProto& input : model.proto.graph().input()) {
      const std::optional<ir::DType> declared = dtype_of_onnx(input.type().tensor_type().elem_type());
      if (input.name() == name && declared && byte_type(*declared) == dtype) dtype = *declared;
    }
    model.initializers.emplace(name, Tensor{dtype, value.sizes, ir::own_bytes(value.bytes)});
  }
}

namespace {

// Finds all values from which a value is computed. The reads of a branch count as reads of the node that
// holds the branch: an output of If depends on all values that its branches read.
class Sources {
 public:
  explicit Sources(const onnx::GraphProto& graph) { visit(graph); }

  std::set<std::string> of(const std::string& value) const {
    std::set<std::string> found;
    std::vector<std::string> open{value};
    while (!open.empty()) {
      const std::string name = open.back();
      open.pop_back();
      if (!found.insert(name).second) continue;
      if (const auto producer = reads_.find(name); producer != reads_.end())
        open.insert(open.end(), producer->second.begin(), producer->second.end());
    }
    return found;
  }

 private:
  std::vector<std::string> visit(const onnx::GraphProto& graph) {
    std::vector<std::string> all;
    for (const onnx::NodeProto& node : graph.node()) {
      std::vector<std::string> reads;
      // Sizes are no values of the input.
      const OpSpec* row = find_op(domain_of(node), node.op_type(), kNewestOpset);
      if (row == nullptr || row->work.kind != WorkKind::sizes)
        reads.assign(node.input().begin(), node.input().end());
      for (const onnx::AttributeProto& attribute : node.attribute()) {
        if (!attribute.has_g()) continue;
        const std::vector<std::string> inner = visit(attribute.g());
        reads.insert(reads.end(), inner.begin(), inner.end());
      }
      all.insert(all.end(), reads.begin(), reads.end());
      for (const std::string& output : node.output()) reads_[output] = reads;
    }
    return all;
  }

  std::unordered_map<std::string, std::vector<std::string>> reads_;  // by output
};

}  // namespace

std::set<std::string> inputs_behind(const Model& model, const std::string& value) {
  std::set<std::string> inputs;
  const std::set<std::string> sources = Sources(model.proto.graph()).of(value);
  for (const onnx::ValueInfoProto& input : model.proto.graph().input()) {
    if (sources.count(input.name()) && !model.initializers.count(input.name())) inputs.insert(input.name());
  }
  return inputs;
}

}  // namespace braid::frontend
