#include "runtime/block_product.h"

#include "runtime/gemm_library.h"
#include "runtime/processor.h"
#include "runtime/team.h"

namespace braid::rt {
namespace {

constexpr double kParallelWork = 2e5;  // multiplications below which a second thread costs more than it saves

BlockColumns kernel() {
#ifdef __x86_64__
  if (instruction_set() == InstructionSet::avx512) return avx512::block_columns;
  if (instruction_set() == InstructionSet::avx2) return avx2::block_columns;
#endif
  return baseline::block_columns;
}

}  // namespace

void arrange_rows(const BlockProduct& p) {
  const int64_t width = p.blocks() * p.block;
  for (int64_t r = 0; r < p.m; ++r) {
    const float* const x = p.x + r * p.k;
    float* const to = p.work + r * width;
    const auto at = [&](int64_t k) { return k < p.k ? x[k] : 0.0f; };
    if (p.bits == 8) {
      for (int64_t k = 0; k < width; ++k) to[k] = at(k);
      continue;
    }
    for (int64_t k = 0; k < width; k += 2 * kBlockLanes) {
      for (int64_t l = 0; l < kBlockLanes; ++l) {
        to[k + l] = at(k + 2 * l);
        to[k + kBlockLanes + l] = at(k + 2 * l + 1);
      }
    }
  }
}

void run_block_product(const BlockProduct& p) {
  arrange_rows(p);
  const double work = static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
  const BlockColumns columns = kernel();
  parallel_for(p.n, work >= kParallelWork, [&](int64_t begin, int64_t end) { columns(p, begin, end); });
}

}  // namespace braid::rt
