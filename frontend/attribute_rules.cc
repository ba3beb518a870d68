#include "frontend/attribute_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <string_view>

namespace braid::frontend {
namespace {

using onnx::AttributeProto;

struct Interval {
  std::int64_t min, max;
};
constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();
constexpr Interval kFlag{0, 1}, kPositive{1, kLargest}, kNotNegative{0, kLargest};
constexpr Interval kInt{-kLargest - 1, kLargest};  // ONNX computes with most of them as int
constexpr Interval kAny{std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()};

// By name: a name means the same in all operators. Attributes that are not listed fit 32 bits.
const std::map<std::string, Interval>& intervals() {
  static const std::map<std::string, Interval> all = [] {
    const std::pair<Interval, const char*> names_of[] = {
        {kFlag,
         "align_corners allowzero antialias broadcast ceil_mode center_point_box "
         "count_include_pad detect_negative detect_positive exclude_outside exclusive fmod "
         "input_forget interleaved inverse is_causal is_test keepdims largest layout new_axis "
         "noop_with_empty_axes onesided output_sequence periodic reverse saturate "
         "select_last_index sorted storage_order training_mode transA transB upper"},
        {kNotNegative, "block_size"},
        {kPositive,
         "blocksize dilations group hidden_size kernel_shape num_groups num_outputs "
         "offset_group strides"},
        // Values, and positions that are cut off at the end of a dimension.
        {kAny,
         "cats_int64s classlabels_int64s default_int64 end ends ignore_index "
         "imputed_value_int64s int64_vocabulary keys_int64s pool_int64s replaced_value_int64 "
         "seed start starts value_int value_ints values_int64s"}};
    std::map<std::string, Interval> of_name;
    for (const auto& [interval, names] : names_of) {
      std::istringstream words(names);
      for (std::string name; words >> name;) of_name.emplace(name, interval);
    }
    return of_name;
  }();
  return all;
}

using Problem = std::optional<std::string>;

Problem number_problem(const onnx::OpSchema& schema, const std::string& name, std::int64_t value) {
  // Collectives have attributes of their own; their lowering checks them against the ranks.
  const bool from_onnx = schema.domain().empty() || schema.domain() == "ai.onnx.ml";
  const auto found = from_onnx ? intervals().find(name) : intervals().end();
  const Interval allowed = found == intervals().end() ? kInt : found->second;
  if (value >= allowed.min && value <= allowed.max) return std::nullopt;
  if (name == "to" || name == "dtype")
    return fmt::format("attribute '{}' is {}, which is not a data type", name, value);
  return fmt::format("attribute '{}' is {}, expected {} to {}", name, value, allowed.min, allowed.max);
}

// Refuses too long lists among those with one or two entries per dimension.
Problem length_problem(const std::string& name, int length) {
  constexpr int kLongest = 512;
  static constexpr std::string_view kPerDimension[] = {
      "axes", "dilations", "kernel_shape", "output_padding",  "output_shape",     "paddings",
      "pads", "perm",      "pooled_shape", "scan_input_axes", "scan_output_axes", "strides"};
  if (length <= kLongest) return std::nullopt;
  if (std::find(std::begin(kPerDimension), std::end(kPerDimension), name) == std::end(kPerDimension))
    return std::nullopt;
  return fmt::format("attribute '{}' has {} elements, more than any tensor has dimensions", name, length);
}

// Checks values against the node's inputs and outputs that ONNX uses as indices without checking them.
Problem relation_problem(const NodeFacts& node, const std::string& name, std::int64_t value) {
  if (name == "batch_dims") {
    std::int64_t most = kLargest;
    for (std::size_t k = 0; k < 2; ++k) {
      if (const std::optional<int> rank = node.rank(k)) most = std::min<std::int64_t>(most, *rank - 1);
    }
    if (value < 0 || value > most)
      return fmt::format("attribute 'batch_dims' is {}, expected 0 to {}", value, most);
  }
  if (name == "num_outputs" && value != static_cast<std::int64_t>(node.outputs))
    return fmt::format("attribute 'num_outputs' is {}, but the node has {} outputs", value, node.outputs);
  if (name == "num_scan_inputs" && (value < 1 || value > static_cast<std::int64_t>(node.inputs)))
    return fmt::format("attribute 'num_scan_inputs' is {} for {} inputs", value, node.inputs);
  if (name == "stash_type") {
    using Type = onnx::TensorProto;
    if (value != Type::FLOAT && value != Type::FLOAT16 && value != Type::BFLOAT16 && value != Type::DOUBLE)
      return fmt::format("attribute 'stash_type' is {}, which is not a floating-point type", value);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> attribute_problem(const NodeFacts& node) {
  for (const auto& [name, declared] : node.schema->attributes()) {
    const AttributeProto* attribute = node.attribute(name.c_str());
    if (!attribute) continue;
    if (attribute->type() != declared.type) {
      return fmt::format("attribute '{}' has the type {}, expected {}", name,
                         AttributeProto::AttributeType_Name(attribute->type()),
                         AttributeProto::AttributeType_Name(declared.type));
    }
    if (attribute->type() == AttributeProto::INT) {
      if (const Problem p = number_problem(*node.schema, name, attribute->i())) return p;
      if (const Problem p = relation_problem(node, name, attribute->i())) return p;
    }
    if (attribute->type() == AttributeProto::INTS) {
      if (const Problem p = length_problem(name, attribute->ints_size())) return p;
      for (const std::int64_t value : attribute->ints()) {
        if (const Problem p = number_problem(*node.schema, name, value)) return p;
      }
    }
  }
  return std::nullopt;
}

}  // namespace braid::frontend
