#include "frontend/op_registry.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>

#include "ir/error.h"

namespace braid::frontend {

std::vector<ir::DType> TypeSet::list() const {
  std::vector<ir::DType> result;
  for (int t = 0; t < ir::kDTypeCount; ++t) {
    if (contains(static_cast<ir::DType>(t))) result.push_back(static_cast<ir::DType>(t));
  }
  return result;
}

namespace {

// By "domain:name"; the versions of one operator do not overlap.
using Table = std::unordered_map<std::string, std::vector<OpSpec>>;

void add(Table& table, OpSpec spec) {
  ir::internal_check(spec.first_version <= spec.last_version && spec.lower != nullptr,
                     "operator {} is registered wrongly", spec.name);
  std::vector<OpSpec>& known = table[spec.domain + ":" + spec.name];
  std::erase_if(known, [&](const OpSpec& k) {
    return k.first_version <= spec.last_version && spec.first_version <= k.last_version;
  });
  known.push_back(std::move(spec));
}

Table& table() {
  static Table all = [] {
    Table t;
    for (const auto family : {elementwise_unary_ops,
                              elementwise_binary_ops,
                              variadic_ops,
                              comparison_ops,
                              activation_ops,
                              smooth_activation_ops,
                              piecewise_activation_ops,
                              bitwise_ops,
                              cast_ops,
                              where_ops,
                              matmul_ops,
                              softmax_ops,
                              attention_ops,
                              normalization_ops,
                              batch_normalization_ops,
                              group_normalization_ops,
                              local_normalization_ops,
                              global_pool_ops,
                              reduction_ops,
                              shape_ops,
                              transpose_ops,
                              concat_split_ops,
                              slice_ops,
                              gather_ops,
                              expand_tile_ops,
                              constant_ops,
                              range_ops,
                              trilu_ops,
                              eye_like_ops,
                              det_ops,
                              random_ops,
                              loss_ops,
                              sequence_ops,
                              scatter_ops,
                              arg_reduction_ops,
                              einsum_ops,
                              pad_ops,
                              convolution_ops,
                              pooling_ops,
                              recurrence_ops,
                              one_hot_ops,
                              control_flow_ops,
                              cumsum_ops,
                              identity_ops,
                              resize_ops,
                              depth_space_ops,
                              reverse_sequence_ops,
                              center_crop_pad_ops,
                              col2im_ops,
                              max_unpool_ops,
                              top_k_ops,
                              roi_align_ops,
                              grid_sample_ops,
                              deform_conv_ops,
                              signal_ops,
                              integer_matmul_ops,
                              quantize_linear_ops,
                              quantised_product_ops,
                              quantised_elementwise_ops,
                              quantised_transformer_ops,
                              tensor_scatter_ops,
                              causal_conv_ops,
                              data_dependent_ops,
                              fused_qkv_attention_ops,
                              multi_head_attention_ops,
                              group_query_attention_ops,
                              rotary_embedding_ops,
                              skip_normalization_ops,
                              fused_group_normalization_ops,
                              biased_activation_ops,
                              fused_product_ops,
                              block_quantized_ops,
                              collective_ops}) {
      for (const OpSpec& spec : family()) add(t, spec);
    }
    return t;
  }();
  return all;
}

}  // namespace

void register_op(OpSpec spec) { add(table(), std::move(spec)); }

const OpSpec* find_op(const std::string& domain, const std::string& name, int version) {
  const auto found = table().find(domain + ":" + name);
  if (found == table().end()) return nullptr;
  for (const OpSpec& spec : found->second) {
    if (spec.first_version <= version && version <= spec.last_version) return &spec;
  }
  return nullptr;
}

std::vector<OpSpec> all_ops() {
  std::vector<OpSpec> ops;
  for (const auto& [key, specs] : table()) ops.insert(ops.end(), specs.begin(), specs.end());
  std::sort(ops.begin(), ops.end(), [](const OpSpec& a, const OpSpec& b) {
    return std::tie(a.domain, a.name, a.first_version) < std::tie(b.domain, b.name, b.first_version);
  });
  return ops;
}

}  // namespace braid::frontend
