#include "codegen/cpp/limits.h"

#include <algorithm>

#include "ir/effects.h"
#include "ir/typing.h"

namespace braid::codegen::cpp {

using namespace ir;

namespace {

constexpr std::size_t kMaxPostOps = 4;  // of runtime/gemm.h

// The epilogue as the runtime's kernels have it (runtime/gemm.h): float32 throughout, one scale.
std::optional<std::vector<PostOp>> runtime_post_ops(const Graph& graph, const Gemm& gemm) {
  if (graph[gemm.out.buffer].dtype != DType::f32 || graph[gemm.a.buffer].dtype != DType::f32)
    return std::nullopt;
  std::optional<std::vector<PostOp>> ops = post_ops(graph, gemm);
  if (!ops || ops->size() > kMaxPostOps) return std::nullopt;
  int scales = 0;
  for (const PostOp& op : *ops) {
    scales += op.kind == PostOp::Kind::scale;
    if (op.operand.valid() && graph[op.operand].dtype != DType::f32) return std::nullopt;
  }
  return scales > 1 ? std::nullopt : ops;
}

}  // namespace

GemmForm gemm_form(const Graph& graph, const Gemm& gemm) {
  GemmForm form;
  const DType out = graph[gemm.out.buffer].dtype;
  form.sum = out;
  if (!gemm.epilogue) return form;
  // A plan gives a product's result no bytes that its step reads, but both may name the same memory.
  const auto written = [&](BufferId b) {
    const MemoryRegion x = region(graph, b), y = region(graph, gemm.out.buffer);
    return x.storage == y.storage && may_overlap(x, y);
  };
  form.sum = accumulator_of(graph[gemm.a.buffer].dtype);
  form.match = runtime_post_ops(graph, gemm);
  // Read row by row while the result is written, and by the library in any order.
  if (form.match && std::any_of(form.match->begin(), form.match->end(), [&](const PostOp& post) {
        return post.operand.valid() && written(post.operand);
      }))
    form.match.reset();
  if (form.match) return form;
  form.loop = true;
  form.in_place =
      out == form.sum &&
      std::none_of(gemm.epilogue->instrs.begin(), gemm.epilogue->instrs.end(),
                   [&](const Instr& instr) { return instr.code == OpCode::load && written(instr.buffer); });
  return form;
}

KernelLimits kernel_limits() {
  return {[](const Graph& graph, const Gemm& gemm) {
            const GemmForm form = gemm_form(graph, gemm);
            return form.in_place ? std::nullopt : std::optional(form.sum);
          },
          {}};
}

}  // namespace braid::codegen::cpp
