#include <optional>

#include "ir/interpreter_body.h"
#include "ir/interpreter_kernels.h"
#include "ir/typing.h"

namespace braid::ir {

void run_kernel(RankMemory& memory, const Operation& op, const Loops& loops) {
  std::vector<std::int64_t> sizes;
  for (const Expr& s : loops.sizes) sizes.push_back(memory.size(s));
  std::vector<std::int64_t> indices(sizes.size() + 1, 0);
  BodyEvaluation body(loops.body, memory, op);
  const ByteView out = memory.view(op.outputs[0]);
  const IndexEvaluation store(loops.store_index, memory);
  const std::span<const std::int64_t> all = sizes;
  const auto kept = all.first(loops.kept()), reduced = all.subspan(loops.kept());
  for_each_point(kept, indices.data(), [&] {
    Scalar result;
    if (reduced.empty()) {
      result = body.at(indices.data());
    } else {
      result = neutral(loops.reduce, out.dtype);
      for_each_point(reduced, indices.data() + kept.size(),
                     [&] { result = fold(loops.reduce, out.dtype, result, body.at(indices.data())); });
      result = rounded(out.dtype, result);
    }
    write_element(out.dtype, element(out, store.at(indices.data(), body.values()), op, true),
                  to_literal(out.dtype, result));
  });
}

void run_kernel(RankMemory& memory, const Operation& op, const Gemm& gemm) {
  const ByteView a = memory.view(gemm.a), b = memory.view(gemm.b), out = memory.view(gemm.out);
  const DType type = accumulator_of(a.dtype);
  const bool widened = is_float(a.dtype) && !is_float(b.dtype);  // 8-bit weights
  std::optional<BodyEvaluation> epilogue;
  if (gemm.epilogue) epilogue.emplace(*gemm.epilogue, memory, op);
  const std::size_t rank = out.sizes.size(), m = rank - 2, n = rank - 1;
  const std::int64_t depth = a.sizes[n];
  // The sizes of a and b match those of out: a guard or the verifier ensures this.
  internal_check(b.sizes[m] == depth && a.sizes[m] == out.sizes[m] && b.sizes[n] == out.sizes[n],
                 "'{}': the sizes of the operands do not agree", op.name);
  std::vector<std::int64_t> indices(rank, 0);
  for_each_point(out.sizes, indices.data(), [&] {
    std::int64_t pa = a.offset, pb = b.offset, po = out.offset;
    for (std::size_t k = 0; k < rank; ++k) {
      if (k != n) pa += indices[k] * a.strides[k];
      if (k != m) pb += indices[k] * b.strides[k];
      po += indices[k] * out.strides[k];
    }
    Scalar sum;
    for (std::int64_t k = 0; k < depth; ++k, pa += a.strides[n], pb += b.strides[m]) {
      Scalar x = to_scalar(read_element(a.dtype, byte_at(a, pa, op))),
             y = to_scalar(read_element(b.dtype, byte_at(b, pb, op)));
      if (gemm.tf32) x = in_tf32(x), y = in_tf32(y);
      accumulate(type, sum, x, widened ? cast(b.dtype, type, y) : y);
    }
    sum = rounded(type, sum);
    const Scalar result = epilogue ? epilogue->at(indices.data(), sum) : cast(type, out.dtype, sum);
    write_element(out.dtype, byte_at(out, po, op, true), to_literal(out.dtype, result));
  });
}

}  // namespace braid::ir
