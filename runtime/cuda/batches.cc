#include "runtime/cuda/batches.h"

#include <initializer_list>
#include <numeric>

namespace braid::rt::cuda {

namespace {

// Returns the largest power of two, at most 16, that divides the addresses of all matrices in bytes.
int alignment(const BatchedGemm& product, int64_t offset, GemmType type, int64_t GemmBatch::*step) {
  int64_t common = std::gcd(int64_t{16}, offset);
  for (int k = 0; k < product.levels; ++k) common = std::gcd(common, product.level[k].*step * size_of(type));
  return static_cast<int>(common);
}

GemmProblem aligned(const BatchedGemm& product) {
  GemmProblem p = product.matrices;
  p.alignment_a = alignment(product, product.offset_a, p.input_type, &GemmBatch::a);
  p.alignment_b = alignment(product, product.offset_b, p.input_type, &GemmBatch::b);
  p.alignment_d = alignment(product, product.offset_d, p.output_type, &GemmBatch::d);
  if (p.beta != 0.0f) {
    p.alignment_c = alignment(product, product.offset_c, p.output_type, &GemmBatch::d);
    p.ldc = p.ldd;
  }
  return p;
}

}  // namespace

BatchedGemm folded(const BatchedGemm& product) {
  BatchedGemm out = product;
  out.levels = 0;
  for (int k = 0; k < product.levels; ++k) {
    const GemmBatch next = product.level[k];
    if (next.size == 1) continue;
    if (out.levels > 0) {
      GemmBatch& last = out.level[out.levels - 1];
      if (last.a == next.a * next.size && last.b == next.b * next.size && last.d == next.d * next.size) {
        last = {last.size * next.size, next.a, next.b, next.d};
        continue;
      }
    }
    out.level[out.levels++] = next;
  }
  // Merges the rows of all matrices into one if they share the right operand, or the columns if they share
  // the left one.
  GemmProblem& p = out.matrices;
  const auto pitch = [](int64_t leading, int64_t dense) { return leading == 0 ? dense : leading; };
  while (out.levels > 0) {
    const GemmBatch& last = out.level[out.levels - 1];
    if (last.b == 0 && !p.transpose_a && last.a == p.m * pitch(p.lda, p.k) &&
        last.d == p.m * pitch(p.ldd, p.n)) {
      p.m *= last.size;
    } else if (last.a == 0 && !p.has_bias && last.b == p.n * (p.transpose_b ? pitch(p.ldb, p.k) : 1) &&
               last.d == p.n) {
      // Rows keep their distance, which is that of a row of all.
      const int64_t columns = p.n * last.size;
      if (p.ldd < columns || (!p.transpose_b && p.ldb < columns)) break;
      p.n *= last.size;
    } else {
      break;
    }
    --out.levels;
  }
  return out;
}

int64_t GemmCalls::count() const {
  int64_t calls = 1;
  for (int k = 0; k < repeats; ++k) calls *= repeat[k].size;
  return calls;
}

GemmCalls by_strides(const BatchedGemm& product) {
  GemmCalls calls;
  calls.problem = aligned(product);
  int strided = 0;
  for (int k = 1; k < product.levels; ++k) {
    if (product.level[k].size >= product.level[strided].size) strided = k;
  }
  for (int k = 0; k < product.levels; ++k) {
    if (k != strided) calls.repeat[calls.repeats++] = product.level[k];
  }
  if (product.levels > 0) {
    const GemmBatch& level = product.level[strided];
    calls.problem.batch = level.size;
    calls.problem.stride_a = level.a;
    calls.problem.stride_b = level.b;
    calls.problem.stride_d = level.d;
    if (calls.problem.beta != 0.0f) calls.problem.stride_c = level.d;
  }
  return calls;
}

GemmCalls by_pointers(const BatchedGemm& product) {
  GemmCalls calls;
  calls.problem = aligned(product);
  calls.problem.batch_by_pointers = true;
  for (int k = 0; k < product.levels; ++k) {
    calls.problem.batch *= product.level[k].size;
    calls.pointer[calls.pointers++] = product.level[k];
  }
  return calls;
}

}  // namespace braid::rt::cuda
