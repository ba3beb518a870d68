#include "frontend/attribute_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
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
const std::map<std::string_view, Interval>& intervals() {
  static const std::map<std::string_view, Interval> all = {
      {"align_corners", kFlag},
      {"allowzero", kFlag},
      {"antialias", kFlag},
      {"broadcast", kFlag},
      {"ceil_mode", kFlag},
      {"center_point_box", kFlag},
      {"count_include_pad", kFlag},
      {"detect_negative", kFlag},
      {"detect_positive", kFlag},
      {"exclude_outside", kFlag},
      {"exclusive", kFlag},
      {"fmod", kFlag},
      {"input_forget", kFlag},
      {"interleaved", kFlag},
      {"inverse", kFlag},
      {"is_causal", kFlag},
      {"is_test", kFlag},
      {"keepdims", kFlag},
      {"largest", kFlag},
      {"layout", kFlag},
      {"new_axis", kFlag},
      {"noop_with_empty_axes", kFlag},
      {"onesided", kFlag},
      {"output_sequence", kFlag},
      {"periodic", kFlag},
      {"reverse", kFlag},
      {"saturate", kFlag},
      {"select_last_index", kFlag},
      {"sorted", kFlag},
      {"storage_order", kFlag},
      {"training_mode", kFlag},
      {"transA", kFlag},
      {"transB", kFlag},
      {"upper", kFlag},

      {"block_size", kNotNegative},
      {"blocksize", kPositive},
      {"dilations", kPositive},
      {"group", kPositive},
      {"hidden_size", kPositive},
      {"kernel_shape", kPositive},
      {"num_groups", kPositive},
      {"num_outputs", kPositive},
      {"offset_group", kPositive},
      {"strides", kPositive},

      // Values, and positions that are cut off at the end of a dimension.
      {"cats_int64s", kAny},
      {"classlabels_int64s", kAny},
      {"default_int64", kAny},
      {"end", kAny},
      {"ends", kAny},
      {"ignore_index", kAny},
      {"imputed_value_int64s", kAny},
      {"int64_vocabulary", kAny},
      {"keys_int64s", kAny},
      {"pool_int64s", kAny},
      {"replaced_value_int64", kAny},
      {"seed", kAny},
      {"start", kAny},
      {"starts", kAny},
      {"value_int", kAny},
      {"value_ints", kAny},
      {"values_int64s", kAny},
  };
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
