#include "runtime/onednn_support.h"

namespace braid::rt {

void append_post_op(dnnl::post_ops& ops, PostOp op, float scale, const dnnl::memory::desc& operand) {
  using dnnl::algorithm;
  switch (op) {
    case PostOp::none:
      break;
    case PostOp::scale:
      ops.append_eltwise(1.0f, algorithm::eltwise_linear, scale, 0.0f);
      break;
    case PostOp::mul_vector:
      ops.append_binary(algorithm::binary_mul, operand);
      break;
    case PostOp::add_vector:
    case PostOp::add_matrix:
      ops.append_binary(algorithm::binary_add, operand);
      break;
    case PostOp::relu:
      ops.append_eltwise(1.0f, algorithm::eltwise_relu, 0.0f, 0.0f);
      break;
    case PostOp::gelu_tanh:
      ops.append_eltwise(1.0f, algorithm::eltwise_gelu_tanh, 0.0f, 0.0f);
      break;
    case PostOp::gelu_erf:
      ops.append_eltwise(1.0f, algorithm::eltwise_gelu_erf, 0.0f, 0.0f);
      break;
    case PostOp::tanh:
      ops.append_eltwise(1.0f, algorithm::eltwise_tanh, 0.0f, 0.0f);
      break;
    case PostOp::sigmoid:
      ops.append_eltwise(1.0f, algorithm::eltwise_logistic, 0.0f, 0.0f);
      break;
    case PostOp::swish:
      ops.append_eltwise(1.0f, algorithm::eltwise_swish, 1.0f, 0.0f);
      break;
    case PostOp::relu6:
      ops.append_eltwise(1.0f, algorithm::eltwise_clip, 0.0f, 6.0f);
      break;
    case PostOp::hard_swish:
      ops.append_eltwise(1.0f, algorithm::eltwise_hardswish, 0.0f, 0.0f);
      break;
  }
}

}  // namespace braid::rt
