#include "runtime/gemm.h"

#include <omp.h>

#include <algorithm>
#include <new>

namespace braid::rt {
namespace {

constexpr int64_t kFewRows = 4;        // below, packing b costs more than it saves
constexpr int64_t kRowChunk = 24;      // rows per piece of work, where there are few panels
constexpr double kParallelWork = 2e5;  // multiplications below which a second thread costs more than it saves

AlignedBytes aligned_bytes(size_t bytes) {
  void* p = std::aligned_alloc(64, (std::max<size_t>(bytes, 1) + 63) / 64 * 64);
  if (!p) throw std::bad_alloc();
  return AlignedBytes(static_cast<std::byte*>(p));
}

double work_of(const GemmShape& s) {
  return static_cast<double>(s.batches()) * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Splits [0, count) over the threads: f(begin, end, thread).
template <class F>
void split(int threads, int64_t count, const F& f) {
  if (threads <= 1 || count <= 1) {
    f(int64_t{0}, count, 0);
    return;
  }
#pragma omp parallel num_threads(threads)
  {
    const int64_t n = omp_get_num_threads(), t = omp_get_thread_num();
    f(count * t / n, count * (t + 1) / n, static_cast<int>(t));
  }
}

// Batch dimensions of extent 1 vanish; those over which b does not change and whose rows follow on in a and c become
// rows of one taller matrix.
GemmShape normalise(GemmShape s) {
  int kept = 0;
  for (int d = 0; d < s.batch_rank; ++d) {
    if (s.batch[d] == 1) continue;
    s.batch[kept] = s.batch[d];
    s.a_batch[kept] = s.a_batch[d];
    s.b_batch[kept] = s.b_batch[d];
    s.c_batch[kept] = s.c_batch[d];
    ++kept;
  }
  s.batch_rank = kept;
  while (s.batch_rank > 0) {
    const int d = s.batch_rank - 1;
    if (s.b_batch[d] != 0) break;
    if (s.m != 1 && (s.a_batch[d] != s.m * s.a_row || s.c_batch[d] != s.m * s.c_row)) break;
    if (s.m == 1) {
      s.a_row = s.a_batch[d];
      s.c_row = s.c_batch[d];
    }
    s.m *= s.batch[d];
    --s.batch_rank;
  }
  for (int d = s.batch_rank; d < kMaxGemmBatchRank; ++d) {
    s.batch[d] = 1;
    s.a_batch[d] = s.b_batch[d] = s.c_batch[d] = 0;
  }
  return s;
}

// Vector loops, a row of c at a time.
class RowKernel final : public GemmKernel {
 public:
  RowKernel(const GemmShape& shape, const HostGemm& host, int threads) : shape_(shape), host_(host), threads_(threads) {}
  void run(const GemmArgs& args, const PackedMatrix*) const override {
    split(threads_, shape_.batches() * shape_.m, [&](int64_t begin, int64_t end, int) { host_.run(shape_, args, {begin, end}); });
  }
  const char* name() const override { return "rows"; }

 private:
  GemmShape shape_;
  const HostGemm& host_;
  int threads_;
};

// Fewer rows than threads: columns are split instead.
class ColumnKernel final : public GemmKernel {
 public:
  ColumnKernel(const GemmShape& shape, const HostGemm& host, int threads) : host_(host) {
    const int64_t tile = ceil_div(ceil_div(shape.n, threads), 64) * 64;
    for (int64_t n = 0; n < shape.n; n += tile) {
      parts_.push_back(shape);
      parts_.back().n = std::min(tile, shape.n - n);
      columns_.push_back(n);
    }
  }
  void run(const GemmArgs& args, const PackedMatrix*) const override {
    split(static_cast<int>(parts_.size()), static_cast<int64_t>(parts_.size()), [&](int64_t begin, int64_t end, int) {
      for (int64_t p = begin; p < end; ++p) {
        const GemmShape& s = parts_[static_cast<size_t>(p)];
        const int64_t n = columns_[static_cast<size_t>(p)];
        GemmArgs part = args;
        part.b = static_cast<const float*>(args.b) + n * s.b_col;
        part.c = static_cast<float*>(args.c) + n * s.c_col;
        for (int k = 0; k < kMaxPostOps; ++k) {
          const int64_t at = s.epilogue.ops[k] == PostOp::add_vector ? n : n * s.c_col;
          if (args.vectors[k]) part.vectors[k] = static_cast<const float*>(args.vectors[k]) + at;
        }
        host_.run(s, part, {0, s.batches() * s.m});
      }
    });
  }
  const char* name() const override { return "columns"; }

 private:
  std::vector<GemmShape> parts_;
  std::vector<int64_t> columns_;
  const HostGemm& host_;
};

// Pieces of work are a batch matrix, a panel and some rows. Threads take neighbouring pieces: rows change fastest, so that
// a panel, packed before or here, serves all its rows while it is in the cache.
class PanelKernel final : public GemmKernel {
 public:
  PanelKernel(const GemmShape& shape, const HostGemm& host, int threads, bool packed, const AlignedBytes& scratch)
      : shape_(shape), host_(host), threads_(threads), packed_(packed), scratch_(scratch) {
    panels_ = ceil_div(shape.n, host.panel_width);
    chunks_ = panels_ * shape.batches() >= 4 * threads ? 1 : std::min(ceil_div(shape.m, kRowChunk), int64_t{4} * threads);
    rows_ = ceil_div(shape.m, chunks_);
  }
  void run(const GemmArgs& args, const PackedMatrix* matrix) const override {
    const int64_t panel_floats = shape_.k * host_.panel_width;
    split(threads_, shape_.batches() * panels_ * chunks_, [&](int64_t begin, int64_t end, int thread) {
      float* own = packed_ ? nullptr : reinterpret_cast<float*>(scratch_.get()) + thread * panel_floats;
      int64_t in_own = -1;
      for (int64_t item = begin; item < end; ++item) {
        const int64_t chunk = item % chunks_, both = item / chunks_;
        const int64_t index = both % panels_, batch = both / panels_;
        const float* panel = own;
        if (packed_) {
          panel = matrix->panel(index, panel_floats);
        } else if (in_own != both) {
          int64_t rest = batch, offset = 0;
          for (int d = shape_.batch_rank - 1; d >= 0; --d) {
            offset += rest % shape_.batch[d] * shape_.b_batch[d];
            rest /= shape_.batch[d];
          }
          host_.pack_panel(static_cast<const float*>(args.b) + offset, shape_.b_row, shape_.b_col, shape_.k, shape_.n,
                           index * host_.panel_width, own);
          in_own = both;
        }
        host_.run_panel(shape_, args, batch, panel, index * host_.panel_width,
                        {chunk * rows_, std::min((chunk + 1) * rows_, shape_.m)});
      }
    });
  }
  const char* name() const override { return packed_ ? "packed panels" : "panels"; }

 private:
  GemmShape shape_;
  const HostGemm& host_;
  int threads_;
  bool packed_;
  const AlignedBytes& scratch_;
  int64_t panels_ = 0, chunks_ = 1, rows_ = 0;
};

}  // namespace

int64_t GemmShape::batches() const {
  int64_t count = 1;
  for (int d = 0; d < batch_rank; ++d) count *= batch[d];
  return count;
}

PackedMatrix GemmLibrary::pack(int64_t k, int64_t n, const float* b, int64_t b_row, int64_t b_col) const {
  PackedMatrix packed;
  const int64_t panels = ceil_div(n, host_.panel_width), floats = k * host_.panel_width;
  packed.panels_ = aligned_bytes(static_cast<size_t>(panels * floats) * sizeof(float));
  float* to = reinterpret_cast<float*>(packed.panels_.get());
#pragma omp parallel for schedule(static)
  for (int64_t p = 0; p < panels; ++p) host_.pack_panel(b, b_row, b_col, k, n, p * host_.panel_width, to + p * floats);
  return packed;
}

const GemmKernel* GemmLibrary::kernel(const GemmShape& wanted, const PackedMatrix* packed) {
  const GemmShape shape = normalise(wanted);
  const int threads = omp_get_max_threads();
  auto& slot = kernels_[{shape, packed != nullptr, threads}];
  if (slot) return slot.get();

  const int useful = work_of(shape) < kParallelWork ? 1 : threads;
  const bool f32 = shape.type == DType::f32 && shape.c_type == DType::f32;
  const bool empty = shape.m == 0 || shape.n == 0 || shape.k == 0;
  // A row of the epilogue must lie in a row of c.
  const bool panels = f32 && !empty && (shape.c_col == 1 || shape.epilogue.empty());
  if (panels && (packed || shape.m >= kFewRows)) {
    if (!packed) {
      const size_t bytes = static_cast<size_t>(useful) * static_cast<size_t>(shape.k * host_.panel_width) * sizeof(float);
      if (bytes > scratch_bytes_) {
        scratch_ = aligned_bytes(bytes);
        scratch_bytes_ = bytes;
      }
    }
    slot = std::make_unique<PanelKernel>(shape, host_, useful, packed != nullptr, scratch_);
  } else if (f32 && !empty && useful > 1 && shape.batches() * shape.m < threads) {
    slot = std::make_unique<ColumnKernel>(shape, host_, useful);
  } else {
    slot = std::make_unique<RowKernel>(shape, host_, empty ? 1 : useful);
  }
  return slot.get();
}

}  // namespace braid::rt
