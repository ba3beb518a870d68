#include "runtime/pool.h"

#include <algorithm>

#include "runtime/gemm_library.h"
#include "runtime/processor.h"
#include "runtime/team.h"

namespace braid::rt {
namespace {

PoolUnits units_of_processor() {
#ifdef __x86_64__
  if (instruction_set() == InstructionSet::avx512) return avx512::pool_units;
  if (instruction_set() == InstructionSet::avx2) return avx2::pool_units;
#endif
  return baseline::pool_units;
}

// The spatial dimensions at the end, with extents of 1 before them.
PoolShape rows_last(const PoolShape& given) {
  PoolShape s = given;
  const auto unused = static_cast<size_t>(kMaxSpatial - given.spatial);
  const auto move = [&](std::array<int64_t, kMaxSpatial>& numbers, int64_t fill) {
    std::rotate(numbers.begin(), numbers.end() - static_cast<std::ptrdiff_t>(unused), numbers.end());
    std::fill_n(numbers.begin(), unused, fill);
  };
  for (auto* numbers : {&s.in, &s.out, &s.taps, &s.stride, &s.dilation}) move(*numbers, 1);
  for (auto* numbers : {&s.pad, &s.a_spatial, &s.out_spatial}) move(*numbers, 0);
  return s;
}

PoolRows rows_of(const PoolShape& shape) {
  PoolRows rows;
  rows.s = rows_last(shape);
  const PoolShape& s = rows.s;
  if (s.a_channel == 1 && s.channels > 1 && s.a_spatial[2] != 1) rows.inner = s.channels;
  rows.blocks = s.channels / std::max<int64_t>(rows.inner, 1);
  for (int64_t x = 0; x < s.out[2] && s.kind == PoolFold::average; ++x) {
    int64_t count = 0;
    for (int64_t tap = 0; tap < s.taps[2]; ++tap) {
      const int64_t at = x * s.stride[2] - s.pad[2] + tap * s.dilation[2];
      count += at >= 0 && at < s.in[2];
    }
    rows.along.push_back(1 / static_cast<float>(count));
  }
  rows.along.resize(rows.along.size() + 16);
  return rows;
}

class Pool final : public WindowKernel {
 public:
  Pool(const PoolShape& shape, int threads) : rows_(rows_of(shape)), units_(units_of_processor()) {
    constexpr int64_t kParallelReads = 1 << 15;  // below it a second thread costs more than it saves
    const PoolShape& s = rows_.s;
    const int64_t reads = rows_.units() * rows_.inner * (s.in[2] * s.taps[0] * s.taps[1] + s.out[2]);
    threads_ = reads < kParallelReads ? 1 : threads;
    scratch_.resize(static_cast<size_t>(threads_ * rows_.scratch()));
  }
  void run(const WindowArgs& args) const override {
    parallel_for(rows_.units(), threads_ > 1, [&](int64_t begin, int64_t end, int thread) {
      float* const own = scratch_.data() + thread * rows_.scratch();
      units_(rows_, static_cast<const float*>(args.a), static_cast<float*>(args.out), own, begin, end);
    });
  }
  const char* name() const override { return "rows"; }

 private:
  PoolRows rows_;
  PoolUnits units_;
  int threads_ = 1;
  mutable std::vector<float> scratch_;
};

}  // namespace

std::unique_ptr<WindowKernel> pool_kernel(const PoolShape& shape, int threads) {
  return std::make_unique<Pool>(shape, threads);
}

}  // namespace braid::rt
