#include "runtime/onednn_support.h"

namespace braid::rt {

using dnnl::memory;

#if DNNL_VERSION_MAJOR >= 3

std::optional<Blocking> blocking_of(const memory::desc& desc) {
  if (desc.get_format_kind() != memory::format_kind::blocked || desc.get_submemory_offset() != 0)
    return std::nullopt;
  return Blocking{desc.get_strides(), desc.get_inner_blks(), desc.get_inner_idxs()};
}

memory::desc in_any_layout(const memory::desc& desc) {
  return {desc.get_dims(), desc.get_data_type(), memory::format_tag::any};
}

dnnl::matmul::primitive_desc describe_matmul(const memory::desc& a, const memory::desc& b,
                                             const memory::desc& c, const dnnl::primitive_attr& attr,
                                             const dnnl::engine& engine) {
  return {engine, a, b, c, attr, true};
}
PoolPrimitive::primitive_desc describe_pool(dnnl::algorithm algorithm, const memory::desc& a,
                                            const memory::desc& c, const WindowGeometry& w,
                                            const dnnl::primitive_attr& attr, const dnnl::engine& engine) {
  return {engine,
          dnnl::prop_kind::forward_inference,
          algorithm,
          a,
          c,
          w.stride,
          w.taps,
          w.dilation,
          w.pad_before,
          w.pad_after,
          attr,
          true};
}

namespace {
void append_eltwise(dnnl::post_ops& ops, dnnl::algorithm algorithm, float alpha, float beta) {
  ops.append_eltwise(algorithm, alpha, beta);
}
constexpr float kHardSwishSlope = 1.0f / 6.0f, kHardSwishOffset = 0.5f;
}  // namespace

#else

std::optional<Blocking> blocking_of(const memory::desc& desc) {
  const dnnl_memory_desc_t& d = desc.data;
  if (d.format_kind != dnnl_blocked || d.offset0 != 0) return std::nullopt;
  const dnnl_blocking_desc_t& b = d.format_desc.blocking;
  return Blocking{{b.strides, b.strides + d.ndims},
                  {b.inner_blks, b.inner_blks + b.inner_nblks},
                  {b.inner_idxs, b.inner_idxs + b.inner_nblks}};
}

memory::desc in_any_layout(const memory::desc& desc) {
  return {desc.dims(), desc.data_type(), memory::format_tag::any};
}

dnnl::matmul::primitive_desc describe_matmul(const memory::desc& a, const memory::desc& b,
                                             const memory::desc& c, const dnnl::primitive_attr& attr,
                                             const dnnl::engine& engine) {
  return {dnnl::matmul::desc(a, b, c), attr, engine, true};
}
PoolPrimitive::primitive_desc describe_pool(dnnl::algorithm algorithm, const memory::desc& a,
                                            const memory::desc& c, const WindowGeometry& w,
                                            const dnnl::primitive_attr& attr, const dnnl::engine& engine) {
  const PoolPrimitive::desc desc(dnnl::prop_kind::forward_inference, algorithm, a, c, w.stride, w.taps,
                                 w.dilation, w.pad_before, w.pad_after);
  return {desc, attr, engine, true};
}

namespace {
void append_eltwise(dnnl::post_ops& ops, dnnl::algorithm algorithm, float alpha, float beta) {
  ops.append_eltwise(1.0f, algorithm, alpha, beta);
}
constexpr float kHardSwishSlope = 0.0f, kHardSwishOffset = 0.0f;  // fixed in this version
}  // namespace

#endif

void append_post_op(dnnl::post_ops& ops, PostOp op, float scale, const dnnl::memory::desc& operand) {
  using dnnl::algorithm;
  switch (op) {
    case PostOp::none:
      break;
    case PostOp::scale:
      append_eltwise(ops, algorithm::eltwise_linear, scale, 0.0f);
      break;
    case PostOp::mul_vector:
      ops.append_binary(algorithm::binary_mul, operand);
      break;
    case PostOp::add_vector:
    case PostOp::add_matrix:
      ops.append_binary(algorithm::binary_add, operand);
      break;
    case PostOp::relu:
      append_eltwise(ops, algorithm::eltwise_relu, 0.0f, 0.0f);
      break;
    case PostOp::gelu_tanh:
      append_eltwise(ops, algorithm::eltwise_gelu_tanh, 0.0f, 0.0f);
      break;
    case PostOp::gelu_erf:
      append_eltwise(ops, algorithm::eltwise_gelu_erf, 0.0f, 0.0f);
      break;
    case PostOp::tanh:
      append_eltwise(ops, algorithm::eltwise_tanh, 0.0f, 0.0f);
      break;
    case PostOp::sigmoid:
      append_eltwise(ops, algorithm::eltwise_logistic, 0.0f, 0.0f);
      break;
    case PostOp::swish:
      append_eltwise(ops, algorithm::eltwise_swish, 1.0f, 0.0f);
      break;
    case PostOp::relu6:
      append_eltwise(ops, algorithm::eltwise_clip, 0.0f, 6.0f);
      break;
    case PostOp::hard_swish:
      append_eltwise(ops, algorithm::eltwise_hardswish, kHardSwishSlope, kHardSwishOffset);
      break;
  }
}

}  // namespace braid::rt
