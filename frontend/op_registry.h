// The table of operators that can be lowered. To add one, see docs/how-to-add-an-op.md.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "frontend/work.h"
#include "ir/dtype.h"

namespace braid::frontend {

class OpContext;

// A set of element types.
class TypeSet {
 public:
  constexpr TypeSet() = default;
  constexpr TypeSet(std::initializer_list<ir::DType> types) {
    for (ir::DType t : types) bits_ |= bit(t);
  }
  constexpr bool contains(ir::DType t) const { return (bits_ & bit(t)) != 0; }
  constexpr TypeSet operator|(TypeSet other) const {
    TypeSet result;
    result.bits_ = bits_ | other.bits_;
    return result;
  }
  std::vector<ir::DType> list() const;

 private:
  static constexpr std::uint32_t bit(ir::DType t) { return std::uint32_t{1} << static_cast<int>(t); }
  std::uint32_t bits_ = 0;
};

inline constexpr TypeSet kFloats = {ir::DType::f32, ir::DType::f64, ir::DType::f16, ir::DType::bf16};
inline constexpr TypeSet kSigned = {ir::DType::i8, ir::DType::i16, ir::DType::i32, ir::DType::i64};
inline constexpr TypeSet kUnsigned = {ir::DType::u8, ir::DType::u16, ir::DType::u32, ir::DType::u64};
inline constexpr TypeSet kBool = {ir::DType::boolean};
inline constexpr TypeSet kNumbers = kFloats | kSigned | kUnsigned;
inline constexpr TypeSet kAllTypes = kNumbers | kBool;
// Below one byte, and 8-bit floats: see ir/dtype.h.
inline constexpr TypeSet kStorage = {
    ir::DType::i4,         ir::DType::u4,     ir::DType::i2,         ir::DType::u2,     ir::DType::f8e4m3fn,
    ir::DType::f8e4m3fnuz, ir::DType::f8e5m2, ir::DType::f8e5m2fnuz, ir::DType::f8e8m0, ir::DType::f4e2m1};

// Lowers one node: reads inputs and attributes from the context, sets its outputs.
using LowerFn = void (*)(OpContext&);

struct OpSpec {
  std::string domain;  // "" is ONNX's own
  std::string name;
  int first_version;  // first and last operator set version whose definition we implement
  int last_version;
  TypeSet types;  // of input 0
  LowerFn lower;
  Work work;            // kind and cost of the computation (work.h)
  bool effect = false;  // communicates: lowered even if its outputs are unused
};

// The newest supported operator set of ONNX's own domain, and the oldest one whose definitions are lowered:
// older models are converted to it (convert_version.h).
inline constexpr int kNewestOpset = 28;
inline constexpr int kOldestOpset = 7;

// Adds an operator, or replaces the one with the same domain and name and overlapping versions. For plug-ins;
// call before any import.
void register_op(OpSpec spec);
// At namespace scope of a plug-in: `static const RegisterOp registered{{"com.example", "Sort", ...}};`
struct RegisterOp {
  RegisterOp(OpSpec spec) { register_op(std::move(spec)); }
};

// nullptr if there is none for this version of the domain.
const OpSpec* find_op(const std::string& domain, const std::string& name, int version);

// All operators, by domain, name and version: what `braid ops` lists.
std::vector<OpSpec> all_ops();

// Families, one file each in frontend/ops.
std::span<const OpSpec> elementwise_unary_ops();
std::span<const OpSpec> elementwise_binary_ops();
std::span<const OpSpec> variadic_ops();
std::span<const OpSpec> comparison_ops();
std::span<const OpSpec> activation_ops();
std::span<const OpSpec> smooth_activation_ops();
std::span<const OpSpec> piecewise_activation_ops();
std::span<const OpSpec> bitwise_ops();
std::span<const OpSpec> cast_ops();
std::span<const OpSpec> where_ops();
std::span<const OpSpec> matmul_ops();
std::span<const OpSpec> softmax_ops();
std::span<const OpSpec> attention_ops();
std::span<const OpSpec> normalization_ops();
std::span<const OpSpec> batch_normalization_ops();
std::span<const OpSpec> group_normalization_ops();
std::span<const OpSpec> local_normalization_ops();
std::span<const OpSpec> global_pool_ops();
std::span<const OpSpec> reduction_ops();
std::span<const OpSpec> shape_ops();
std::span<const OpSpec> transpose_ops();
std::span<const OpSpec> concat_split_ops();
std::span<const OpSpec> slice_ops();
std::span<const OpSpec> gather_ops();
std::span<const OpSpec> expand_tile_ops();
std::span<const OpSpec> constant_ops();
std::span<const OpSpec> range_ops();
std::span<const OpSpec> trilu_ops();
std::span<const OpSpec> eye_like_ops();
std::span<const OpSpec> det_ops();
std::span<const OpSpec> random_ops();
std::span<const OpSpec> loss_ops();
std::span<const OpSpec> sequence_ops();
std::span<const OpSpec> scatter_ops();
std::span<const OpSpec> arg_reduction_ops();
std::span<const OpSpec> einsum_ops();
std::span<const OpSpec> pad_ops();
std::span<const OpSpec> convolution_ops();
std::span<const OpSpec> pooling_ops();
std::span<const OpSpec> recurrence_ops();
std::span<const OpSpec> one_hot_ops();
std::span<const OpSpec> control_flow_ops();
std::span<const OpSpec> cumsum_ops();
std::span<const OpSpec> identity_ops();
std::span<const OpSpec> resize_ops();
std::span<const OpSpec> depth_space_ops();
std::span<const OpSpec> reverse_sequence_ops();
std::span<const OpSpec> center_crop_pad_ops();
std::span<const OpSpec> col2im_ops();
std::span<const OpSpec> max_unpool_ops();
std::span<const OpSpec> top_k_ops();
std::span<const OpSpec> roi_align_ops();
std::span<const OpSpec> grid_sample_ops();
std::span<const OpSpec> deform_conv_ops();
std::span<const OpSpec> signal_ops();
std::span<const OpSpec> integer_matmul_ops();
std::span<const OpSpec> quantize_linear_ops();
std::span<const OpSpec> quantised_product_ops();
std::span<const OpSpec> quantised_elementwise_ops();
std::span<const OpSpec> quantised_transformer_ops();
std::span<const OpSpec> tensor_scatter_ops();
std::span<const OpSpec> causal_conv_ops();
std::span<const OpSpec> data_dependent_ops();
std::span<const OpSpec> fused_qkv_attention_ops();
std::span<const OpSpec> multi_head_attention_ops();
std::span<const OpSpec> group_query_attention_ops();
std::span<const OpSpec> rotary_embedding_ops();
std::span<const OpSpec> skip_normalization_ops();
std::span<const OpSpec> fused_group_normalization_ops();
std::span<const OpSpec> biased_activation_ops();
std::span<const OpSpec> fused_product_ops();
std::span<const OpSpec> block_quantized_ops();
std::span<const OpSpec> collective_ops();

}  // namespace braid::frontend
