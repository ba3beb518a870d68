#include "runtime/onednn_support.h"

#include <omp.h>

#include <algorithm>

#include "runtime/kernel_variables.h"
#include "runtime/processor.h"

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

memory::desc in_floats(const memory::desc& desc) {
  return {desc.get_dims(), memory::data_type::f32, desc.get_strides()};
}

dnnl::matmul::primitive_desc describe_matmul(const memory::desc& a, const memory::desc& b,
                                             const memory::desc& c, const dnnl::primitive_attr& attr,
                                             const dnnl::engine& engine) {
  return {engine, a, b, c, attr, true};
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

memory::desc in_floats(const memory::desc& desc) {
  return {desc.dims(), memory::data_type::f32, blocking_of(desc)->strides};
}

dnnl::matmul::primitive_desc describe_matmul(const memory::desc& a, const memory::desc& b,
                                             const memory::desc& c, const dnnl::primitive_attr& attr,
                                             const dnnl::engine& engine) {
  return {dnnl::matmul::desc(a, b, c), attr, engine, true};
}

namespace {
void append_eltwise(dnnl::post_ops& ops, dnnl::algorithm algorithm, float alpha, float beta) {
  ops.append_eltwise(1.0f, algorithm, alpha, beta);
}
constexpr float kHardSwishSlope = 0.0f, kHardSwishOffset = 0.0f;  // fixed in this version
}  // namespace

#endif

namespace {

// An element-wise function of the library.
struct Function {
  dnnl::algorithm algorithm;
  float alpha = 0.0f, beta = 0.0f;
};

// nullopt for post-ops with an operand.
std::optional<Function> function_of(PostOp op, float scale) {
  using dnnl::algorithm;
  switch (op) {
    case PostOp::none:
    case PostOp::mul_vector:
    case PostOp::add_vector:
    case PostOp::add_matrix:
      return std::nullopt;
    case PostOp::scale:
      return Function{algorithm::eltwise_linear, scale, 0.0f};
    case PostOp::relu:
      return Function{algorithm::eltwise_relu};
    case PostOp::gelu_tanh:
      return Function{algorithm::eltwise_gelu_tanh};
    case PostOp::gelu_erf:
      return Function{algorithm::eltwise_gelu_erf};
    case PostOp::tanh:
      return Function{algorithm::eltwise_tanh};
    case PostOp::sigmoid:
      return Function{algorithm::eltwise_logistic};
    case PostOp::swish:
      return Function{algorithm::eltwise_swish, 1.0f, 0.0f};
    case PostOp::relu6:
      return Function{algorithm::eltwise_clip, 0.0f, 6.0f};
    case PostOp::hard_swish:
      return Function{algorithm::eltwise_hardswish, kHardSwishSlope, kHardSwishOffset};
  }
  return std::nullopt;
}

}  // namespace

dnnl::engine make_engine() {
  // The library takes a limit only before its first kernel.
  static const bool limited = [] {
    const InstructionSet widest = instruction_set();
    if (word_of(kInstructionsVariable).empty()) return false;
    dnnl_set_max_cpu_isa(widest == InstructionSet::baseline ? dnnl_cpu_isa_sse41 : dnnl_cpu_isa_avx2);
    return true;
  }();
  (void)limited;
  return {dnnl::engine::kind::cpu, 0};
}

OneLibraryThread::OneLibraryThread() : before_(omp_get_max_threads()) {
  if (before_ > 1) omp_set_num_threads(1);
}
OneLibraryThread::~OneLibraryThread() {
  if (before_ > 1) omp_set_num_threads(before_);
}

void append_post_op(dnnl::post_ops& ops, PostOp op, float scale, const memory::desc& operand) {
  if (const std::optional<Function> function = function_of(op, scale)) {
    append_eltwise(ops, function->algorithm, function->alpha, function->beta);
  } else if (op != PostOp::none) {
    ops.append_binary(op == PostOp::mul_vector ? dnnl::algorithm::binary_mul : dnnl::algorithm::binary_add,
                      operand);
  }
}

int steps_of_library(const Epilogue& epilogue, const std::string& implementation, int bias) {
  const bool functions = instruction_set() != InstructionSet::baseline,
             product = implementation.find("gemm") != std::string::npos;
  int steps = 0;
  for (const PostOp op : epilogue.ops) {
    const bool wrong = op == PostOp::relu || op == PostOp::relu6 ||
                       (product && (op == PostOp::sigmoid || (takes_operand(op) && steps >= bias))) ||
                       (!functions && !takes_operand(op) && op != PostOp::scale);
    if (op == PostOp::none || wrong) break;
    ++steps;
  }
  return steps;
}

Epilogue steps_before(const Epilogue& epilogue, int at) {
  Epilogue steps = epilogue;
  std::fill(steps.ops.begin() + at, steps.ops.end(), PostOp::none);
  return steps;
}

Epilogue steps_from(const Epilogue& epilogue, int at) {
  Epilogue steps;
  steps.scale = epilogue.scale;
  std::copy(epilogue.ops.begin() + at, epilogue.ops.end(), steps.ops.begin());
  return steps;
}

}  // namespace braid::rt
