// The table of operators that can be lowered. To add one, see docs/how-to-add-an-op.md.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "frontend/sharding/rule.h"
#include "frontend/size_rule.h"
#include "frontend/work.h"
#include "ir/dtype.h"
#include "split/graph.h"

namespace braid::frontend {

class OpContext;
namespace rule = sharding::rule;

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

// Inputs whose elements go on in outputs, such as a past of keys in the present: what a plan keeps split from
// step to step.
struct State {
  explicit State(std::vector<split::Carried> inputs) : carried(std::move(inputs)) {}
  std::vector<split::Carried> carried;
};
inline const State kNoState{std::vector<split::Carried>()};
inline State carries(std::initializer_list<split::Carried> inputs) { return State(inputs); }

// The row of an operator: all that is known of it but its schema. A row that lacks a column does not compile.
struct OpSpec {
  std::string domain;  // "" is ONNX's own
  std::string name;
  int first_version;  // first and last operator set version whose definition we implement
  int last_version;
  TypeSet types;  // of input 0
  LowerFn lower;
  Work work;            // kind and cost of the computation (work.h)
  sharding::Rule rule;  // how it is split, or why not (sharding/rule.h)
  State state;
  SizeRule sizes;       // whether models compute sizes with it (size_rule.h)
  bool effect = false;  // communicates: lowered even if its outputs are unused
};

// The columns that a plug-in must give. A new operator is then computed whole on every rank, and no sizes
// follow from it; one that replaces a row keeps the other columns of that row.
struct LoweredOp {
  std::string domain, name;
  int first_version, last_version;
  TypeSet types;
  LowerFn lower;
  Work work;
  bool effect = false;
};

// The newest supported operator set of ONNX's own domain, and the oldest one whose definitions are lowered:
// older models are converted to it (convert_version.h).
inline constexpr int kNewestOpset = 28;
inline constexpr int kOldestOpset = 7;
// ONNX's domain of classical models, and its newest operator set.
inline constexpr char kMlDomain[] = "ai.onnx.ml";
inline constexpr int kNewestMl = 5;

// Adds an operator, or replaces the one with the same domain and name and overlapping versions. For plug-ins;
// call before any import.
void register_op(OpSpec spec);
void register_op(LoweredOp op);
// At namespace scope of a plug-in: `static const RegisterOp registered{{"com.example", "Sort", ...}};`
struct RegisterOp {
  RegisterOp(OpSpec spec) { register_op(std::move(spec)); }
  RegisterOp(LoweredOp op) { register_op(std::move(op)); }
};

// nullptr if there is none for this version of the domain.
const OpSpec* find_op(const std::string& domain, const std::string& name, int version);

// All operators, by domain, name and version: what `braid ops` lists.
std::vector<OpSpec> all_ops();

// Families, one file each in frontend/ops.
// clang-format off
#define BRAID_OP_FAMILIES(F) \
  F(elementwise_unary) F(elementwise_binary) F(variadic) F(comparison) F(activation) \
  F(smooth_activation) F(piecewise_activation) F(bitwise) F(cast) F(where) F(matmul) F(softmax) \
  F(attention) F(normalization) F(batch_normalization) F(group_normalization) F(local_normalization) \
  F(global_pool) F(reduction) F(shape) F(transpose) F(concat_split) F(slice) F(gather) F(expand_tile) \
  F(constant) F(range) F(trilu) F(eye_like) F(det) F(random) F(loss) F(sequence) F(scatter) \
  F(arg_reduction) F(einsum) F(pad) F(convolution) F(pooling) F(recurrence) F(one_hot) F(control_flow) \
  F(cumsum) F(identity) F(resize) F(depth_space) F(reverse_sequence) F(center_crop_pad) F(col2im) \
  F(max_unpool) F(top_k) F(roi_align) F(grid_sample) F(deform_conv) F(signal) F(integer_matmul) \
  F(quantize_linear) F(quantised_product) F(quantised_elementwise) F(quantised_transformer) \
  F(tensor_scatter) F(causal_conv) F(data_dependent) F(fused_qkv_attention) F(multi_head_attention) \
  F(group_query_attention) F(rotary_embedding) F(skip_normalization) F(fused_group_normalization) \
  F(biased_activation) F(fused_product) F(block_quantized) F(collective) F(tree_ensemble) \
  F(feature) F(category) F(linear_model) F(support_vector)
// clang-format on
#define BRAID_FAMILY(name) std::span<const OpSpec> name##_ops();
BRAID_OP_FAMILIES(BRAID_FAMILY)
#undef BRAID_FAMILY

}  // namespace braid::frontend
