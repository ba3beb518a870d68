#include "frontend/dims.h"

#include <fmt/format.h>

#include <optional>
#include <set>
#include <string_view>

#include "ir/error.h"
#include "ir/error_numbers.h"
#include "ir/parser.h"

namespace braid::frontend {

using ir::user_error;
using Dimension = onnx::TensorShapeProto_Dimension;

std::vector<const onnx::ValueInfoProto*> true_inputs(const Model& model) {
  std::vector<const onnx::ValueInfoProto*> inputs;
  for (const onnx::ValueInfoProto& input : model.proto.graph().input()) {
    if (!model.initializers.count(input.name())) inputs.push_back(&input);
  }
  return inputs;
}

namespace {

void check_bounds(const Model& model, const DimBounds& bounds, const std::set<std::string>& known) {
  for (const auto& [name, b] : bounds) {
    if (b.min < 0 || b.min > b.max) {
      user_error(errors::kInvalidDimension, {.file = model.path},
                 fmt::format("dimension '{}' is given the bounds {} to {}", name, b.min, b.max),
                 "the lower bound must be at least 0 and at most the upper bound");
    }
    if (!known.count(name)) {
      user_error(errors::kInvalidDimension, {.file = model.path},
                 fmt::format("the model has no dimension '{}'", name),
                 known.empty() ? "all its dimensions are constant"
                               : fmt::format("its dimensions are {}", fmt::join(known, ", ")));
    }
  }
}

void check_type(const Model& model, const onnx::ValueInfoProto& value) {
  const auto fail = [&](int code, const std::string& what, const char* hint) {
    user_error(code, {.file = model.path}, fmt::format("input '{}' {}", value.name(), what), hint);
  };
  if (!value.has_type() || !value.type().has_tensor_type()) {
    fail(errors::kUnsupportedType, value.has_type() ? "is not a tensor" : "has no type",
         "graph inputs must be tensors");
  }
  const int type = value.type().tensor_type().elem_type();
  if (!dtype_of_onnx(type)) {
    fail(errors::kUnsupportedType, fmt::format("has the element type {}", onnx_type_name(type)),
         kSupportedTypes);
  }
  if (!value.type().tensor_type().has_shape()) {
    fail(errors::kUnknownShape, "has no shape", "give it a rank in the model; its sizes may be names");
  }
}

void collect_names(const onnx::ValueInfoProto& value, std::set<std::string>& names) {
  for (const Dimension& dim : value.type().tensor_type().shape().dim()) {
    if (dim.has_dim_param() && !dim.dim_param().empty()) names.insert(dim.dim_param());
  }
}

// Exporters write these for sizes that they do not know. They name nothing, so two of them need not be equal.
bool unknown(const Dimension& dim) {
  return (dim.has_dim_value() && dim.dim_value() == -1) || (dim.has_dim_param() && dim.dim_param() == "?") ||
         (!dim.has_dim_value() && dim.dim_param().empty());
}

// Sizes of results are computed. A name that stands for another size there than in the inputs is a common
// mistake of exporters, and no reason to refuse the model.
void forget_names(onnx::ValueInfoProto& output) {
  if (!output.type().has_tensor_type() || !output.type().tensor_type().has_shape()) return;
  for (Dimension& dim : *output.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim()) {
    if (dim.has_dim_param() || unknown(dim)) dim.clear_value();
  }
}

void fix(onnx::ValueInfoProto& value, const DimBounds& bounds) {
  if (!value.type().has_tensor_type() || !value.type().tensor_type().has_shape()) return;
  for (Dimension& dim : *value.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim()) {
    if (!dim.has_dim_param()) continue;
    const auto found = bounds.find(dim.dim_param());
    if (found != bounds.end() && found->second.min == found->second.max) dim.set_dim_value(found->second.min);
  }
}

void check_total(const Model& model, const onnx::ValueInfoProto& input, const DimBounds& bounds) {
  std::vector<std::int64_t> largest;
  for (const Dimension& dim : input.type().tensor_type().shape().dim()) {
    largest.push_back(dim.has_dim_value() ? dim.dim_value() : bounds.at(dim.dim_param()).max);
  }
  checked_bytes(largest, *dtype_of_onnx(input.type().tensor_type().elem_type()), {.file = model.path},
                input.name());
}

}  // namespace

namespace {

// Throws kShapeMismatch for a negative declared size, also of inner values and in bodies of loops.
// Exporters write -1 for a size that they do not know, so -1 passes.
void refuse_negative_sizes(const std::string& path, const onnx::GraphProto& graph) {
  const auto check = [&](const char* what, const onnx::ValueInfoProto& value) {
    int axis = -1;
    for (const Dimension& dim : value.type().tensor_type().shape().dim()) {
      ++axis;
      if (!dim.has_dim_value() || dim.dim_value() >= -1) continue;
      user_error(errors::kShapeMismatch, {.file = path},
                 fmt::format("{} '{}' is declared with the size {} along axis {}", what, value.name(),
                             dim.dim_value(), axis),
                 "sizes must be at least 0; name a size that varies");
    }
  };
  for (const onnx::ValueInfoProto& input : graph.input()) check("input", input);
  for (const onnx::ValueInfoProto& output : graph.output()) check("output", output);
  for (const onnx::ValueInfoProto& value : graph.value_info()) check("value", value);
  for (const onnx::NodeProto& node : graph.node()) {
    if (node.op_type() == "If") continue;  // a branch may never be taken
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) refuse_negative_sizes(path, attribute.g());
      for (const onnx::GraphProto& inner : attribute.graphs()) refuse_negative_sizes(path, inner);
    }
  }
}

// Gives unnamed dimensions names; returns the names of all dimensions of inputs.
std::set<std::string> name_dims(Model& model) {
  onnx::GraphProto& graph = *model.proto.mutable_graph();
  std::set<std::string> known;
  refuse_negative_sizes(model.path, graph);
  for (onnx::ValueInfoProto& input : *graph.mutable_input()) {
    const onnx::TypeProto_Tensor& type = input.type().tensor_type();
    if (model.initializers.count(input.name()) || !type.has_shape() || !dtype_of_onnx(type.elem_type()))
      continue;
    int axis = 0;
    for (Dimension& dim : *input.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim()) {
      if (unknown(dim)) {
        dim.set_dim_param(fmt::format("{}_{}", input.name(), axis));
      }
      ++axis;
    }
    collect_names(input, known);
  }
  return known;
}

std::set<std::string> with_outputs(const Model& model, std::set<std::string> known) {
  for (const onnx::ValueInfoProto& output : model.proto.graph().output()) collect_names(output, known);
  return known;
}

// The text as one word of a POSIX shell.
std::string shell_word(const std::string& text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%";
  if (text.find_first_not_of(kPlain) == std::string::npos) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

bool is_plain(const std::string& name) { return name.find_first_of("+-*/ ") == std::string::npos; }

// Exporters name a dimension by the expression that computes it: "past + 1". Returns the bounds of such a
// name if those of every dimension in it are known.
std::optional<ir::Bounds> related_bounds(const std::string& name, const DimBounds& bounds) {
  ir::Graph graph;
  try {
    for (const auto& [known, b] : bounds) graph.add_dim(known, b);
    const ir::Expr size = ir::parse_expr(name, graph);
    const ir::Bounds related = ir::bounds(size);
    if (!size.is_constant() && related.min >= 0 && related.max < ir::kUnbounded) return related;
  } catch (const ir::UserError&) {  // not an expression of them
  }
  return std::nullopt;
}

}  // namespace

DimBounds default_dims(const std::set<std::string>& names, const DimBounds& given, ir::Bounds fallback) {
  DimBounds all = given, added;
  for (const bool plain : {true, false}) {
    const DimBounds known = all;
    for (const std::string& name : names) {
      if (all.count(name) || is_plain(name) != plain) continue;
      added[name] = all[name] = plain ? fallback : related_bounds(name, known).value_or(fallback);
    }
  }
  return added;
}

std::set<std::string> dimension_names(Model model) {
  const std::set<std::string> known = name_dims(model);
  return with_outputs(model, known);
}

void resolve_dims(Model& model, DimBounds& bounds) {
  onnx::GraphProto& graph = *model.proto.mutable_graph();
  for (const onnx::ValueInfoProto* input : true_inputs(model)) check_type(model, *input);
  std::set<std::string> known = name_dims(model);
  for (const std::string& name : known) {
    if (is_plain(name) || bounds.count(name)) continue;
    if (const std::optional<ir::Bounds> related = related_bounds(name, bounds)) bounds[name] = *related;
  }
  check_bounds(model, bounds, with_outputs(model, known));

  std::vector<std::string> unbounded;
  for (const onnx::ValueInfoProto* input : true_inputs(model)) {
    int axis = 0;
    for (const Dimension& dim : input->type().tensor_type().shape().dim()) {
      if (!dim.has_dim_value() && !bounds.count(dim.dim_param())) {
        unbounded.push_back(
            fmt::format("'{}' of input '{}' (axis {})", dim.dim_param(), input->name(), axis));
        known.insert(dim.dim_param());
      }
      ++axis;
    }
  }
  if (!unbounded.empty()) {
    std::string hint = "give";
    for (const std::string& name : known) {
      if (!bounds.count(name)) hint += " --dim " + shell_word(fmt::format("{}=MIN..MAX", name));
    }
    user_error(errors::kUnboundedDimension, {.file = model.path},
               fmt::format("unbounded dimension {}", fmt::join(unbounded, ", ")),
               hint + ", or =SIZE for a fixed size; or --default-dim N for all that are not given");
  }
  for (const onnx::ValueInfoProto* input : true_inputs(model)) check_total(model, *input, bounds);
  for (auto* list : {graph.mutable_input(), graph.mutable_value_info()}) {
    for (onnx::ValueInfoProto& value : *list) fix(value, bounds);
  }
  for (onnx::ValueInfoProto& output : *graph.mutable_output()) forget_names(output);
}

std::vector<ir::Expr> input_sizes(const onnx::ValueInfoProto& input, const DimBounds& bounds,
                                  ir::Graph& graph) {
  std::vector<ir::Expr> sizes;
  for (const Dimension& dim : input.type().tensor_type().shape().dim()) {
    sizes.push_back(dim.has_dim_value() ? ir::Expr(dim.dim_value())
                                        : graph.add_dim(dim.dim_param(), bounds.at(dim.dim_param())));
  }
  return sizes;
}

}  // namespace braid::frontend
