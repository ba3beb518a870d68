#include "runtime/gemm.h"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>

#include "runtime/gemm_isa.h"
#include "runtime/onednn_support.h"
#include "runtime/processor.h"

namespace braid::rt {
namespace {

constexpr int64_t kPanelRows = 2;  // up to this many, our own kernel streams the packed matrix
constexpr int64_t kManyRows = 64;  // from here on sgemm is as fast on plain operands as others on packed ones
constexpr int64_t kFewRows = 2;    // up to this many, our own kernel reads unpacked operands
constexpr double kParallelWork = 2e5;  // multiplications below which a second thread costs more than it saves

const GemmKernels& own_kernels() {
#ifdef __x86_64__
  if (instruction_set() == InstructionSet::avx512) return avx512::kGemmKernels;
  if (instruction_set() == InstructionSet::avx2) return avx2::kGemmKernels;
#endif
  return baseline::kGemmKernels;
}

dnnl::memory::desc plain(int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride) {
  return {{rows, cols}, dnnl::memory::data_type::f32, {row_stride, col_stride}};
}

// The panels of a weight layout; width 0 if it has no panels.
Panels panels_of(const dnnl::memory::desc& desc) {
  const dnnl_memory_desc_t& d = desc.data;
  if (d.format_kind != dnnl_blocked || d.data_type != dnnl_f32 || d.offset0 != 0) return {};
  const dnnl_blocking_desc_t& b = d.format_desc.blocking;
  if (d.ndims == 4) {  // [n / 8][k / 8][8 rows][8 columns] of a convolution: panels of 8 columns
    const bool eights = b.inner_nblks == 2 && b.inner_idxs[0] == 1 && b.inner_idxs[1] == 0 &&
                        b.inner_blks[0] == 8 && b.inner_blks[1] == 8;
    return eights && b.strides[1] == 64 ? Panels{8, b.strides[0]} : Panels{};
  }
  if (d.ndims != 2) return {};
  int64_t k_block = 1, width = 0;
  if (b.inner_nblks == 2 && b.inner_idxs[0] == 0 && b.inner_idxs[1] == 1) {
    k_block = b.inner_blks[0];
    width = b.inner_blks[1];
  } else if (b.inner_nblks == 1 && b.inner_idxs[0] == 1) {
    width = b.inner_blks[0];
  }
  const bool known = width == 64 || width == 48 || width == 32 || width == 16 || width == 8;
  if (!known || b.strides[0] != k_block * width) return {};
  return {width, b.strides[1]};
}

double work_of(const GemmShape& s) { return static_cast<double>(s.batches()) * s.m * s.n * s.k; }

// Splits [0, count) over the threads.
template <class F>
void split(int threads, int64_t count, const F& f) {
  if (threads <= 1 || count <= 1) {
    f(0, count);
    return;
  }
#pragma omp parallel num_threads(threads)
  {
    const int64_t n = omp_get_num_threads(), t = omp_get_thread_num();
    f(count * t / n, count * (t + 1) / n);
  }
}

}  // namespace

struct PackedMatrix::Impl {
  enum class Form : uint8_t { matmul, convolution };
  int64_t k = 0, n = 0;
  Form form = Form::matmul;
  dnnl::memory::desc desc;
  Panels panels;
  AlignedBytes bytes;
};
PackedMatrix::PackedMatrix() = default;
PackedMatrix::~PackedMatrix() = default;
PackedMatrix::PackedMatrix(PackedMatrix&&) noexcept = default;
PackedMatrix& PackedMatrix::operator=(PackedMatrix&&) noexcept = default;
size_t PackedMatrix::bytes() const { return impl_ ? impl_->desc.get_size() : 0; }

int64_t GemmShape::batches() const {
  int64_t count = 1;
  for (int d = 0; d < batch_rank; ++d) count *= batch[d];
  return count;
}

namespace {

// Drops batch dimensions of extent 1; those over which b does not change and whose rows are contiguous in a and c
// become rows of one taller matrix.
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
    split(threads_, shape_.batches() * shape_.m,
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
    const int count = static_cast<int>(parts_.size());
#pragma omp parallel for num_threads(count) schedule(static)
    for (int p = 0; p < count; ++p) {
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
  }
  const char* name() const override { return "host columns"; }

 private:
  std::vector<GemmShape> parts_;
  std::vector<int64_t> columns_;
};

class PanelKernel final : public GemmKernel {
 public:
  PanelKernel(const GemmShape& shape, int threads) : shape_(shape), threads_(threads) {}
  void run(const GemmArgs& args, const PackedMatrix* packed) const override {
    const Panels panels = packed->impl()->panels;
    const float* b = reinterpret_cast<const float*>(packed->impl()->bytes.get());
    const int64_t count = (shape_.n + panels.width - 1) / panels.width;
    split(threads_, count,
          [&](int64_t begin, int64_t end) { own_kernels().run_panels(shape_, args, b, panels, begin, end); });
  }
  const char* name() const override { return "panels"; }

 private:
  GemmShape shape_;
  int threads_;
};

// How to call sgemm for one batch matrix of f32 operands.
struct SgemmCall {
  bool usable = false;
  bool swapped = false;  // c is column-major: compute its transpose
  char trans_a = 'N', trans_b = 'N';
  int64_t lda = 1, ldb = 1, ldc = 1;
};
bool leading(int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride, char* trans, int64_t* ld) {
  if (cols <= 1) col_stride = 1;
  if (rows <= 1 && col_stride == 1) row_stride = std::max<int64_t>(cols, 1);
  if (rows <= 1 && col_stride != 1) row_stride = 1;
  if (col_stride == 1 && row_stride >= cols) {
    *trans = 'N';
    *ld = std::max<int64_t>(row_stride, 1);
    return true;
  }
  if (row_stride == 1 && col_stride >= rows) {
    *trans = 'T';
    *ld = std::max<int64_t>(col_stride, 1);
    return true;
  }
  return false;
}
SgemmCall sgemm_call(const GemmShape& s) {
  SgemmCall call;
  char trans_c = 'N';
  if (!leading(s.m, s.k, s.a_row, s.a_col, &call.trans_a, &call.lda)) return call;
  if (!leading(s.k, s.n, s.b_row, s.b_col, &call.trans_b, &call.ldb)) return call;
  if (!leading(s.m, s.n, s.c_row, s.c_col, &trans_c, &call.ldc)) return call;
  call.swapped = trans_c == 'T';
  call.usable = !call.swapped || s.epilogue.empty();
  return call;
}

class SgemmKernel final : public GemmKernel {
 public:
  SgemmKernel(const GemmShape& shape, const SgemmCall& call, int threads)
      : shape_(shape), call_(call), threads_(threads) {}
  void run(const GemmArgs& args, const PackedMatrix*) const override {
    const int64_t batches = shape_.batches();
    if (batches == 1) {  // uses the library's own threads
      one(args, 0);
      if (!shape_.epilogue.empty()) {
        split(threads_, shape_.m,
              [&](int64_t begin, int64_t end) { own_kernels().finish(shape_, args, 0, begin, end); });
      }
      return;
    }
    // Inside a parallel region the library uses one thread.
    split(threads_, batches, [&](int64_t begin, int64_t end) {
      for (int64_t index = begin; index < end; ++index) {
        const int64_t c = one(args, index);
        if (!shape_.epilogue.empty()) own_kernels().finish(shape_, args, c, 0, shape_.m);
      }
    });
  }
  const char* name() const override { return "sgemm"; }

 private:
  int64_t one(const GemmArgs& args, int64_t index) const {
    int64_t a = 0, b = 0, c = 0;
    for (int d = shape_.batch_rank - 1; d >= 0; --d) {
      const int64_t i = index % shape_.batch[d];
      index /= shape_.batch[d];
      a += i * shape_.a_batch[d];
      b += i * shape_.b_batch[d];
      c += i * shape_.c_batch[d];
    }
    const float* pa = static_cast<const float*>(args.a) + a;
    const float* pb = static_cast<const float*>(args.b) + b;
    float* pc = static_cast<float*>(args.c) + c;
    if (call_.swapped) {
      const char ta = call_.trans_b == 'N' ? 'T' : 'N', tb = call_.trans_a == 'N' ? 'T' : 'N';
      dnnl_sgemm(ta, tb, shape_.n, shape_.m, shape_.k, 1.0f, pb, call_.ldb, pa, call_.lda, 0.0f, pc,
                 call_.ldc);
    } else {
      dnnl_sgemm(call_.trans_a, call_.trans_b, shape_.m, shape_.n, shape_.k, 1.0f, pa, call_.lda, pb,
                 call_.ldb, 0.0f, pc, call_.ldc);
    }
    return c;
  }
  GemmShape shape_;
  SgemmCall call_;
  int threads_;
};

// A product as the library's matmul, or as its convolution with one tap: rows are pixels, columns are channels. Without
// matrix instructions only the latter has kernels for packed weights (ConvolutionForm).
struct MatmulForm {
  using Primitive = dnnl::matmul;
  static constexpr const char* kName = "matmul";

  static dnnl::memory::desc matrix(int64_t rows, int64_t cols, int64_t row_stride) {
    return plain(rows, cols, row_stride, 1);
  }
  static dnnl::memory::desc vector(int64_t n) { return plain(1, n, n, 1); }
  static dnnl::memory::desc weights(int64_t k, int64_t n) {
    return {{k, n}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::any};
  }
  static dnnl::memory::desc given_weights(int64_t k, int64_t n, int64_t row, int64_t col) {
    return plain(k, n, row, col);
  }
  static dnnl::matmul::desc desc(const dnnl::memory::desc& a, const dnnl::memory::desc& b,
                                 const dnnl::memory::desc& c) {
    return {a, b, c};
  }
};
struct ConvolutionForm {
  using Primitive = dnnl::convolution_forward;
  static constexpr const char* kName = "convolution";

  static dnnl::memory::desc matrix(int64_t rows, int64_t cols, int64_t row_stride) {
    return {{1, cols, 1, rows},
            dnnl::memory::data_type::f32,
            {rows * row_stride, 1, rows * row_stride, row_stride}};
  }
  static dnnl::memory::desc vector(int64_t n) {
    return {{1, n, 1, 1}, dnnl::memory::data_type::f32, {n, 1, n, n}};
  }
  static dnnl::memory::desc weights(int64_t k, int64_t n) {
    return {{n, k, 1, 1}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::any};
  }
  static dnnl::memory::desc given_weights(int64_t k, int64_t n, int64_t row, int64_t col) {
    return {{n, k, 1, 1}, dnnl::memory::data_type::f32, {col, row, 1, 1}};
  }
  static dnnl::convolution_forward::desc desc(const dnnl::memory::desc& a, const dnnl::memory::desc& b,
                                              const dnnl::memory::desc& c) {
    return {dnnl::prop_kind::forward_inference,
            dnnl::algorithm::convolution_direct,
            a,
            b,
            c,
            {1, 1},
            {0, 0},
            {0, 0}};
  }
};

template <class Form>
class PackedKernel final : public GemmKernel {
 public:
  using Primitive = typename Form::Primitive;

  PackedKernel(const GemmShape& shape, const typename Primitive::primitive_desc& pd,
               const dnnl::engine& engine, const dnnl::stream& stream, Scratch* scratch)
      : primitive_(pd), stream_(stream), scratch_(scratch) {
    scratch->reserve(pd.scratchpad_desc().get_size());
    args_.add(DNNL_ARG_SRC, pd.src_desc(), engine);
    args_.add(DNNL_ARG_WEIGHTS, pd.weights_desc(), engine);
    args_.add(DNNL_ARG_DST, pd.dst_desc(), engine);
    args_.add(DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc(), engine);
    for (int p = 0; p < kMaxPostOps; ++p) {
      const PostOp op = shape.epilogue.ops[p];
      if (op == PostOp::none) break;
      if (!takes_operand(op)) continue;
      args_.add(DNNL_ARG_ATTR_MULTIPLE_POST_OP(p) | DNNL_ARG_SRC_1, operand_of(shape, op), engine);
      operands_.push_back(p);
    }
  }
  // Null if the library has no fast kernel for the shape and layout.
  static std::unique_ptr<GemmKernel> make(const GemmShape& s, const dnnl::memory::desc& packed,
                                          const dnnl::engine& engine, const dnnl::stream& stream,
                                          Scratch* scratch) {
    const auto desc = Form::desc(Form::matrix(s.m, s.k, s.a_row), packed, Form::matrix(s.m, s.n, s.c_row));
    const typename Primitive::primitive_desc pd(desc, attributes(s), engine, true);
    if (!pd || is_reference(pd.impl_info_str())) return nullptr;
    return std::make_unique<PackedKernel>(s, pd, engine, stream, scratch);
  }
  void run(const GemmArgs& args, const PackedMatrix* packed) const override {
    args_.set(0, args.a);
    args_.set(1, packed->impl()->bytes.get());
    args_.set(2, args.c);
    args_.set(3, scratch_->memory.get());
    for (size_t k = 0; k < operands_.size(); ++k) args_.set(4 + k, args.vectors[operands_[k]]);
    args_.execute(primitive_, stream_);
  }
  const char* name() const override { return Form::kName; }

 private:
  static dnnl::memory::desc operand_of(const GemmShape& s, PostOp op) {
    return op == PostOp::add_matrix ? Form::matrix(s.m, s.n, s.c_row) : Form::vector(s.n);
  }
  // The epilogue as the library's post-ops.
  static dnnl::primitive_attr attributes(const GemmShape& s) {
    dnnl::post_ops ops;
    for (PostOp op : s.epilogue.ops) {
      if (op == PostOp::none) break;
      append_post_op(ops, op, s.epilogue.scale, operand_of(s, op));
    }
    dnnl::primitive_attr attr;
    attr.set_post_ops(ops);
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return attr;
  }

  Primitive primitive_;
  const dnnl::stream& stream_;
  Scratch* scratch_;
  PrimitiveArgs args_;
  std::vector<int> operands_;
};

// How the library lays out b for products of about `m` rows with this form, and what computes them.
template <class Form>
typename Form::Primitive::primitive_desc typical(int64_t m, int64_t k, int64_t n,
                                                 const dnnl::engine& engine) {
  const auto desc = Form::desc(Form::matrix(m, k, k), Form::weights(k, n), Form::matrix(m, n, n));
  return typename Form::Primitive::primitive_desc(desc, engine, true);
}

bool has_matrix_kernels(const char* implementation) {
  return std::string(implementation).find("brg") != std::string::npos;
}

}  // namespace

struct GemmLibrary::Impl {
  Impl() : engine(dnnl::engine::kind::cpu, 0), stream(engine) {}
  dnnl::engine engine;
  dnnl::stream stream;
  Scratch scratch;
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
  try {
    const int64_t m = std::max<int64_t>(typical_m, 1);
    auto p = std::make_unique<PackedMatrix::Impl>();
    p->k = k;
    p->n = n;
    dnnl::memory::desc source_desc;
    const auto matmul = typical<MatmulForm>(m, k, n, impl_->engine);
    if (matmul && has_matrix_kernels(matmul.impl_info_str())) {
      p->desc = matmul.weights_desc();
      source_desc = MatmulForm::given_weights(k, n, b_row, b_col);
    } else {
      // sgemm packs as it goes, which many rows pay for.
      char trans = 'N';
      int64_t ld = 0;
      if (m >= kManyRows && leading(k, n, b_row, b_col, &trans, &ld)) return packed;
      const auto convolution = typical<ConvolutionForm>(m, k, n, impl_->engine);
      if (!convolution || is_reference(convolution.impl_info_str())) return packed;
      p->desc = convolution.weights_desc();
      p->form = PackedMatrix::Impl::Form::convolution;
      source_desc = ConvolutionForm::given_weights(k, n, b_row, b_col);
    }
    p->panels = panels_of(p->desc);
    p->bytes = aligned_bytes(p->desc.get_size());
    if (source_desc == p->desc) return packed;
    dnnl::memory source(source_desc, impl_->engine, const_cast<float*>(b));
    dnnl::memory target(p->desc, impl_->engine, p->bytes.get());
    dnnl::reorder(source, target).execute(impl_->stream, source, target);
    impl_->stream.wait();
    packed.impl_ = Owned<PackedMatrix::Impl>(p.release());
  } catch (const dnnl::error& e) {
    throw std::runtime_error(std::string("oneDNN cannot pack a weight matrix: ") + e.what());
  }
  return packed;
}

const GemmKernel* GemmLibrary::kernel(const GemmShape& wanted, const PackedMatrix* packed) {
  if (packed && !packed->valid()) packed = nullptr;
  const GemmShape shape = normalise(wanted);
  const int threads = omp_get_max_threads();
  const Panels panels = packed ? packed->impl()->panels : Panels{};
  const void* layout = packed && panels.width == 0 ? packed->impl() : nullptr;
  auto& slot = impl_->kernels[{shape, panels, layout, packed != nullptr, threads}];
  if (slot) return slot.get();

  const int useful = work_of(shape) < kParallelWork ? 1 : threads;
  if (shape.m == 0 || shape.n == 0 || shape.k == 0) {
    slot = std::make_unique<HostKernel>(shape, 1);
    return slot.get();
  }
  if (packed) {
    const bool plain_rows = shape.batch_rank == 0 && shape.c_col == 1;
    if (plain_rows && panels.width > 0 && shape.m <= kPanelRows) {
      slot = std::make_unique<PanelKernel>(shape, useful);
      return slot.get();
    }
    if (plain_rows && shape.a_col == 1) {
      const bool convolution = packed->impl()->form == PackedMatrix::Impl::Form::convolution;
      const auto make = convolution ? PackedKernel<ConvolutionForm>::make : PackedKernel<MatmulForm>::make;
      try {
        slot = make(shape, packed->impl()->desc, impl_->engine, impl_->stream, &impl_->scratch);
        if (slot) return slot.get();
      } catch (const dnnl::error&) {
        // The layout does not suit this shape: the kernels below read the plain matrix.
      }
    }
  }
  const SgemmCall call = shape.type == DType::f32 ? sgemm_call(shape) : SgemmCall{};
  const bool one_row = shape.type == DType::f32 && shape.m <= kFewRows;
  if (one_row && useful > 1 && shape.batches() * shape.m < threads) {
    slot = std::make_unique<HostColumns>(shape, useful);
  } else if (call.usable && !one_row) {
    slot = std::make_unique<SgemmKernel>(shape, call, useful);
  } else {
    slot = std::make_unique<HostKernel>(shape, useful);
  }
  return slot.get();
}

}  // namespace braid::rt
