#include "runtime/gemm.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>

#include "runtime/byte_weights.h"
#include "runtime/gemm_isa.h"
#include "runtime/gemm_library.h"
#include "runtime/half_gemm.h"
#include "runtime/integer_gemm.h"
#include "runtime/processor.h"
#include "runtime/team.h"
#include "runtime/tile_kernels.h"

namespace braid::rt {

const GemmKernels& own_kernels() {
#ifdef __x86_64__
  if (instruction_set() == InstructionSet::avx512) return avx512::kGemmKernels;
  if (instruction_set() == InstructionSet::avx2) return avx2::kGemmKernels;
#endif
  return baseline::kGemmKernels;
}

namespace {

constexpr int64_t kPanelRows = 2;      // up to this many, our own kernel streams the packed matrix
constexpr int64_t kColumnRows = 16;    // the same, if it is asked for parts of the columns
constexpr int64_t kFewestColumns = 8;  // of a packed matrix
constexpr int64_t kFewRows = 2;        // up to this many, our own kernel reads unpacked operands
// A second thread costs more than it saves below this number of multiplications, unless the matrix b has
// more bytes than a thread streams in that time.
constexpr double kParallelWork = 2e5;
constexpr double kParallelByteWork = 8e5;  // the same of bytes
constexpr double kParallelBytes = 384 * 1024;

bool is_byte(DType type) { return type == DType::i8 || type == DType::u8; }

// Products of bytes whose sums are kept; those that are stored in 8 bits again have loops.
bool has_byte_kernel(const GemmShape& s) {
  return is_byte(s.type) && is_byte(s.b_type) && (s.finished || s.c_type == DType::i32);
}

bool has_byte_weights(const GemmShape& s) { return s.type == DType::f32 && is_byte(s.b_type); }

bool is_half(DType type) { return type == DType::f16 || type == DType::bf16; }

// The threads that a product is worth, where `fewest` multiplications are worth several.
int useful_threads(const GemmShape& s, double fewest, int threads) {
  const double elements = static_cast<double>(s.batches()) * s.n * s.k;
  const double bytes = elements * static_cast<double>(size_of(is_byte(s.b_type) ? s.b_type : s.type));
  const bool one = elements * static_cast<double>(s.m) < fewest && bytes < kParallelBytes;
  return one ? 1 : threads;
}

}  // namespace

PackedMatrix::PackedMatrix() = default;
PackedMatrix::~PackedMatrix() = default;
PackedMatrix::PackedMatrix(PackedMatrix&&) noexcept = default;
PackedMatrix& PackedMatrix::operator=(PackedMatrix&&) noexcept = default;
size_t PackedMatrix::bytes() const { return impl_ ? impl_->size : 0; }

int64_t GemmShape::batches() const {
  int64_t count = 1;
  for (int d = 0; d < batch_rank; ++d) count *= batch[d];
  return count;
}

namespace {

// Drops batch dimensions of extent 1; those over which b does not change and whose rows are contiguous in a
// and c become rows of one taller matrix.
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

class HostKernel final : public GemmKernel {
 public:
  HostKernel(const GemmShape& shape, int threads) : shape_(shape), threads_(threads) {}
  void run(const GemmArgs& args, const PackedMatrix*) const override {
    parallel_for(shape_.batches() * shape_.m, threads_ > 1,
                 [&](int64_t begin, int64_t end) { own_kernels().run(shape_, args, begin, end); });
  }
  const char* name() const override { return "host"; }

 private:
  GemmShape shape_;
  int threads_;
};

// One long row of an unpacked b: columns are split over the threads instead of rows.
class HostColumns final : public GemmKernel {
 public:
  HostColumns(const GemmShape& shape, int threads) {
    const int64_t step = (shape.n + threads - 1) / threads;
    const int64_t tile = (step + 63) / 64 * 64;
    for (int64_t n = 0; n < shape.n; n += tile) {
      GemmShape part = shape;
      part.n = std::min(tile, shape.n - n);
      parts_.push_back(part);
      columns_.push_back(n);
    }
  }
  void run(const GemmArgs& args, const PackedMatrix*) const override {
    parallel_for(static_cast<int64_t>(parts_.size()), true, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) run(args, static_cast<size_t>(p));
    });
  }
  const char* name() const override { return "host columns"; }

 private:
  void run(const GemmArgs& args, size_t p) const {
    const GemmShape& s = parts_[p];
    const int64_t n = columns_[p];
    GemmArgs part = args;
    part.b = static_cast<const float*>(args.b) + n * s.b_col;
    part.c = static_cast<float*>(args.c) + n * s.c_col;
    for (int k = 0; k < kMaxPostOps; ++k) {
      const int64_t at = s.epilogue.ops[k] == PostOp::add_matrix ? n * s.c_col : n;
      if (args.vectors[k]) part.vectors[k] = static_cast<const float*>(args.vectors[k]) + at;
    }
    own_kernels().run(s, part, 0, s.batches() * s.m);
  }

  std::vector<GemmShape> parts_;
  std::vector<int64_t> columns_;
};

class PanelKernel final : public GemmKernel {
 public:
  PanelKernel(const GemmShape& shape, int64_t width, int threads)
      : shape_(shape), width_(width), threads_(threads) {}
  void run(const GemmArgs& args, const PackedMatrix* packed) const override {
    const Panels panels = packed->impl()->panels;
    const float* b = reinterpret_cast<const float*>(packed->impl()->bytes.get());
    const int64_t count = (shape_.n + panels.width - 1) / panels.width;
    parallel_for(
        count, threads_ > 1,
        [&](int64_t begin, int64_t end) { own_kernels().run_panels(shape_, args, b, panels, begin, end); },
        kStreamedPanels);
  }
  const char* name() const override { return "panels"; }
  int64_t column_block() const override { return width_; }
  void run_columns(const GemmArgs& args, const PackedMatrix* packed, int64_t begin,
                   int64_t end) const override {
    const float* b = reinterpret_cast<const float*>(packed->impl()->bytes.get());
    own_kernels().run_panels(shape_, args, b, packed->impl()->panels, begin / width_,
                             (end + width_ - 1) / width_);
  }

 private:
  GemmShape shape_;
  int64_t width_;
  int threads_;
};

// Many rows, on processors that have our tile kernels.
class TileKernel final : public GemmKernel {
 public:
  TileKernel(const GemmShape& shape, int64_t width, int threads)
      : shape_(shape), width_(width), threads_(threads) {}
  void run(const GemmArgs& args, const PackedMatrix* packed) const override {
    split_tiles(
        threads_, shape_.m, (shape_.n + width_ - 1) / width_,
        [&](const TilePart& part) { multiply(args, packed, part); }, width_);
  }
  const char* name() const override { return "tiles"; }
  int64_t column_block() const override { return width_; }
  void run_columns(const GemmArgs& args, const PackedMatrix* packed, int64_t begin,
                   int64_t end) const override {
    multiply(args, packed, {0, shape_.m, begin / width_, (end + width_ - 1) / width_});
  }

 private:
  void multiply(const GemmArgs& args, const PackedMatrix* packed, const TilePart& part) const {
    const float* b = reinterpret_cast<const float*>(packed->impl()->bytes.get());
    tile_kernels()->multiply(shape_, args, b, packed->impl()->panels, part);
  }

  GemmShape shape_;
  int64_t width_;
  int threads_;
};

}  // namespace

struct GemmLibrary::Impl {
  std::unique_ptr<LibraryGemm> library = make_library_gemm();  // may be null
  // Keyed by shape, packed layout and threads.
  struct Key {
    GemmShape shape;
    Panels panels;
    const void* layout;  // the packed matrix, unless its layout is one of panels
    bool packed;
    int threads;
    auto tie() const { return std::tie(shape, panels.width, panels.panel_stride, layout, packed, threads); }
    bool operator<(const Key& o) const { return tie() < o.tie(); }
  };
  std::map<Key, std::unique_ptr<GemmKernel>> kernels;
};

GemmLibrary::GemmLibrary() : impl_(new Impl) {}
GemmLibrary::~GemmLibrary() = default;

PackedMatrix GemmLibrary::pack(int64_t k, int64_t n, const float* b, int64_t b_row, int64_t b_col,
                               int64_t typical_m) {
  PackedMatrix packed;
  if (k == 0 || n == 0) return packed;
  if (tile_kernels() != nullptr) {
    if (n < kFewestColumns) return packed;  // the panel would be padding
    packed.impl_ = Owned<PackedMatrix::Impl>(new PackedMatrix::Impl);
    PackedMatrix::Impl& matrix = *packed.impl_;
    matrix.panels = {tile_panel_width(n), tile_panel_width(n) * k};
    matrix.size = tile_panel_bytes(k, n);
    matrix.bytes = aligned_bytes(matrix.size);
    pack_tile_panels(k, n, b, b_row, b_col, reinterpret_cast<float*>(matrix.bytes.get()));
    return packed;
  }
  if (impl_->library == nullptr) return packed;
  packed.impl_ =
      Owned<PackedMatrix::Impl>(impl_->library->pack(k, n, b, b_row, b_col, std::max<int64_t>(typical_m, 1)));
  return packed;
}

PackedMatrix GemmLibrary::pack(DType a_type, DType type, int64_t k, int64_t n, const void* b, int64_t b_row,
                               int64_t b_col) {
  PackedMatrix packed;
  if (k == 0 || n == 0) return packed;
  if (is_half(type))
    packed.impl_ = Owned<PackedMatrix::Impl>(pack_halves(type, k, n, b, b_row, b_col));
  else if (a_type == DType::f32)
    packed.impl_ = Owned<PackedMatrix::Impl>(pack_byte_weights(type, k, n, b, b_row, b_col));
  else
    packed.impl_ = Owned<PackedMatrix::Impl>(pack_bytes(type, k, n, b, b_row, b_col));
  return packed;
}

const GemmKernel* GemmLibrary::kernel(const GemmShape& wanted, const PackedMatrix* packed) {
  if (packed && !packed->valid()) packed = nullptr;
  const GemmShape shape = normalise(wanted);
  const int threads = team_threads();
  const Panels panels = packed ? packed->impl()->panels : Panels{};
  const void* layout = packed && panels.width == 0 ? packed->impl() : nullptr;
  auto& slot = impl_->kernels[{shape, panels, layout, packed != nullptr, threads}];
  if (slot) return slot.get();

  const int useful = useful_threads(shape, kParallelWork, threads);
  if (has_byte_kernel(shape)) {
    slot = make_byte_gemm(shape, packed ? static_cast<const ByteMatrix*>(packed->impl()) : nullptr,
                          useful_threads(shape, kParallelByteWork, threads));
    return slot.get();
  }
  if (has_byte_weights(shape)) {
    slot = make_byte_weights(shape, useful);
    return slot.get();
  }
  if (shape.m == 0 || shape.n == 0 || shape.k == 0) {
    slot = std::make_unique<HostKernel>(shape, 1);
    return slot.get();
  }
  if (packed && is_half(shape.type)) {
    slot = make_half_gemm(shape, useful);
    if (!slot) slot = std::make_unique<HostKernel>(shape, useful);
    return slot.get();
  }
  if (packed) {
    const bool plain_rows = shape.batch_rank == 0 && shape.c_col == 1;
    if (plain_rows && panels.width > 0 && shape.m <= (shape.by_columns ? kColumnRows : kPanelRows)) {
      slot = std::make_unique<PanelKernel>(shape, panels.width, useful);
      return slot.get();
    }
    if (plain_rows && shape.a_col == 1 && suits_tiles(panels.width)) {
      slot = std::make_unique<TileKernel>(shape, panels.width, useful);
      return slot.get();
    }
    if (plain_rows && shape.a_col == 1) {
      slot = impl_->library->packed(shape, *packed->impl());
      if (slot) return slot.get();
    }
  }
  const bool one_row = shape.type == DType::f32 && shape.m <= kFewRows;
  if (one_row && useful > 1 && shape.batches() * shape.m < threads) {
    slot = std::make_unique<HostColumns>(shape, useful);
  } else if (shape.type == DType::f32 && !one_row && impl_->library != nullptr) {
    slot = impl_->library->sgemm(shape, useful);
  }
  if (!slot) slot = std::make_unique<HostKernel>(shape, useful);
  return slot.get();
}

}  // namespace braid::rt
