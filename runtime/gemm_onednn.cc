// Matrix products by oneDNN.
#include <algorithm>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/gemm_library.h"
#include "runtime/onednn_support.h"
#include "runtime/team.h"

namespace braid::rt {
namespace {

dnnl::memory::desc plain(int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride) {
  return {{rows, cols}, dnnl::memory::data_type::f32, {row_stride, col_stride}};
}

// The panels of a weight layout; width 0 if it has no panels.
Panels panels_of(const dnnl::memory::desc& desc) {
  const std::optional<Blocking> found = blocking_of(desc);
  if (!found) return {};
  const auto& [strides, blocks, dims] = *found;
  if (strides.size() == 4) {  // [n / 8][k / 8][8 rows][8 columns] of a convolution: panels of 8 columns
    const bool eights = blocks == dnnl::memory::dims{8, 8} && dims == dnnl::memory::dims{1, 0};
    return eights && strides[1] == 64 ? Panels{8, strides[0]} : Panels{};
  }
  if (strides.size() != 2) return {};
  int64_t k_block = 1, width = 0;
  if (dims == dnnl::memory::dims{0, 1}) {
    k_block = blocks[0];
    width = blocks[1];
  } else if (dims == dnnl::memory::dims{1}) {
    width = blocks[0];
  }
  const bool known = width == 64 || width == 48 || width == 32 || width == 16 || width == 8;
  if (!known || strides[0] != k_block * width) return {};
  return {width, strides[1]};
}

struct OneDnnMatrix final : PackedMatrix::Impl {
  enum class Form : uint8_t { matmul, convolution };
  Form form = Form::matmul;
  dnnl::memory::desc desc;
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
    if (batches == 1) {
      const bool by_rows = shape_.m >= shape_.n;
      const int64_t count = by_rows ? shape_.m : shape_.n;
      parallel_for((count + kUnit - 1) / kUnit, threads_ > 1, [&](int64_t first, int64_t last) {
        const OneLibraryThread alone;
        for (int64_t unit = first; unit < last; ++unit) {
          const int64_t begin = unit * kUnit, end = std::min(begin + kUnit, count);
          if (by_rows)
            part(args, 0, begin, end, 0, shape_.n);
          else
            part(args, 0, 0, shape_.m, begin, end);
        }
      });
      if (!shape_.epilogue.empty()) {
        parallel_for(shape_.m, threads_ > 1,
                     [&](int64_t begin, int64_t end) { own_kernels().finish(shape_, args, 0, begin, end); });
      }
      return;
    }
    parallel_for(batches, threads_ > 1, [&](int64_t begin, int64_t end) {
      const OneLibraryThread alone;
      for (int64_t index = begin; index < end; ++index) {
        const int64_t c = part(args, index, 0, shape_.m, 0, shape_.n);
        if (!shape_.epilogue.empty()) own_kernels().finish(shape_, args, c, 0, shape_.m);
      }
    });
  }
  const char* name() const override { return "sgemm"; }

 private:
  // Rows or columns of a part. How the library adds up depends on the sizes, and for no number of threads may
  // sums be others. For each part it packs the other operand.
  static constexpr int64_t kUnit = 192;

  // A part of a matrix of the batch. Returns the offset of the whole matrix in c.
  int64_t part(const GemmArgs& args, int64_t index, int64_t row, int64_t row_end, int64_t column,
               int64_t column_end) const {
    int64_t a = 0, b = 0, c = 0;
    for (int d = shape_.batch_rank - 1; d >= 0; --d) {
      const int64_t i = index % shape_.batch[d];
      index /= shape_.batch[d];
      a += i * shape_.a_batch[d];
      b += i * shape_.b_batch[d];
      c += i * shape_.c_batch[d];
    }
    const int64_t m = row_end - row, n = column_end - column;
    const float* pa = static_cast<const float*>(args.a) + a + row * shape_.a_row;
    const float* pb = static_cast<const float*>(args.b) + b + column * shape_.b_col;
    float* pc = static_cast<float*>(args.c) + c + row * shape_.c_row + column * shape_.c_col;
    if (call_.swapped) {
      const char ta = call_.trans_b == 'N' ? 'T' : 'N', tb = call_.trans_a == 'N' ? 'T' : 'N';
      dnnl_sgemm(ta, tb, n, m, shape_.k, 1.0f, pb, call_.ldb, pa, call_.lda, 0.0f, pc, call_.ldc);
    } else {
      dnnl_sgemm(call_.trans_a, call_.trans_b, m, n, shape_.k, 1.0f, pa, call_.lda, pb, call_.ldb, 0.0f, pc,
                 call_.ldc);
    }
    return c;
  }
  GemmShape shape_;
  SgemmCall call_;
  int threads_;
};

// A product as the library's matmul, or as its convolution with one tap: rows are pixels, columns are
// channels. Without matrix instructions only the convolution has kernels for packed weights
// (ConvolutionForm).
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
  static dnnl::matmul::primitive_desc describe(const dnnl::memory::desc& a, const dnnl::memory::desc& b,
                                               const dnnl::memory::desc& c, const dnnl::engine& engine,
                                               const dnnl::primitive_attr& attr = {}) {
    return describe_matmul(a, b, c, attr, engine);
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
  static dnnl::convolution_forward::primitive_desc describe(const dnnl::memory::desc& a,
                                                            const dnnl::memory::desc& b,
                                                            const dnnl::memory::desc& c,
                                                            const dnnl::engine& engine,
                                                            const dnnl::primitive_attr& attr = {}) {
    static const WindowGeometry one_tap = {{1, 1}, {1, 1}, {0, 0}, {0, 0}, {0, 0}};
    return describe_convolution<Primitive>(dnnl::algorithm::convolution_direct, a, b, {}, c, one_tap, attr,
                                           engine);
  }
};

template <class Form>
class PackedKernel final : public GemmKernel {
 public:
  using Primitive = typename Form::Primitive;

  // `steps` of the epilogue are the library's.
  PackedKernel(const GemmShape& shape, const typename Primitive::primitive_desc& pd, int steps,
               const dnnl::engine& engine, const dnnl::stream& stream, Scratch* scratch)
      : primitive_(pd), stream_(stream), scratch_(scratch), rest_(shape), steps_(steps) {
    rest_.epilogue = steps_from(shape.epilogue, steps_);
    scratch->reserve(pd.scratchpad_desc().get_size());
    args_.add(DNNL_ARG_SRC, pd.src_desc(), engine);
    args_.add(DNNL_ARG_WEIGHTS, pd.weights_desc(), engine);
    args_.add(DNNL_ARG_DST, pd.dst_desc(), engine);
    args_.add(DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc(), engine);
    for (int p = 0; p < steps_; ++p) {
      const PostOp op = shape.epilogue.ops[p];
      if (!takes_operand(op)) continue;
      args_.add(DNNL_ARG_ATTR_MULTIPLE_POST_OP(p) | DNNL_ARG_SRC_1, operand_of(shape, op), engine);
      operands_.push_back(p);
    }
  }
  // Null if the library has no fast kernel for the shape and layout.
  static std::unique_ptr<GemmKernel> make(const GemmShape& s, const dnnl::memory::desc& packed,
                                          const dnnl::engine& engine, const dnnl::stream& stream,
                                          Scratch* scratch) {
    int steps = kMaxPostOps;
    for (std::string name;;) {
      const int own = std::min(steps, steps_of_library(s.epilogue, name));
      const auto pd = Form::describe(Form::matrix(s.m, s.k, s.a_row), packed, Form::matrix(s.m, s.n, s.c_row),
                                     engine, attributes(s, own));
      if (!pd || is_reference(pd.impl_info_str())) return nullptr;
      name = pd.impl_info_str();
      if (own == std::min(own, steps_of_library(s.epilogue, name)))
        return std::make_unique<PackedKernel>(s, pd, own, engine, stream, scratch);
      steps = own;
    }
  }
  void run(const GemmArgs& args, const PackedMatrix* packed) const override {
    args_.set(0, args.a);
    args_.set(1, packed->impl()->bytes.get());
    args_.set(2, args.c);
    args_.set(3, scratch_->memory.get());
    for (size_t k = 0; k < operands_.size(); ++k) args_.set(4 + k, args.vectors[operands_[k]]);
    args_.execute(primitive_, stream_);
    if (!rest_.epilogue.empty()) finish(args);
  }
  const char* name() const override { return Form::kName; }

 private:
  static constexpr int64_t kParallelElements = 16384;

  void finish(GemmArgs args) const {
    std::copy(args.vectors + steps_, std::end(args.vectors), args.vectors);
    parallel_for(rest_.m, rest_.m * rest_.n > kParallelElements,
                 [&](int64_t begin, int64_t end) { own_kernels().finish(rest_, args, 0, begin, end); });
  }
  static dnnl::memory::desc operand_of(const GemmShape& s, PostOp op) {
    return op == PostOp::add_matrix ? Form::matrix(s.m, s.n, s.c_row) : Form::vector(s.n);
  }
  // The first steps of the epilogue as the library's post-ops.
  static dnnl::primitive_attr attributes(const GemmShape& s, int steps) {
    dnnl::post_ops ops;
    for (int p = 0; p < steps; ++p)
      append_post_op(ops, s.epilogue.ops[p], s.epilogue.scale, operand_of(s, s.epilogue.ops[p]));
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
  GemmShape rest_;  // with the steps of the epilogue that the library does not compute
  int steps_;       // those that it computes
};

// The library's primitive, and its layout of b, for products of about `m` rows with this form.
template <class Form>
typename Form::Primitive::primitive_desc typical(int64_t m, int64_t k, int64_t n,
                                                 const dnnl::engine& engine) {
  return Form::describe(Form::matrix(m, k, k), Form::weights(k, n), Form::matrix(m, n, n), engine);
}

bool has_matrix_kernels(const char* implementation) {
  return std::string(implementation).find("brg") != std::string::npos;
}

class OneDnnGemm final : public LibraryGemm {
 public:
  PackedMatrix::Impl* pack(int64_t k, int64_t n, const float* b, int64_t b_row, int64_t b_col,
                           int64_t typical_m) override {
    try {
      const int64_t m = std::max<int64_t>(typical_m, 1);
      auto p = std::make_unique<OneDnnMatrix>();
      dnnl::memory::desc source_desc;
      const auto matmul = typical<MatmulForm>(m, k, n, engine_);
      if (matmul && has_matrix_kernels(matmul.impl_info_str())) {
        p->desc = matmul.weights_desc();
        source_desc = MatmulForm::given_weights(k, n, b_row, b_col);
      } else {
        // sgemm packs as it goes, which many rows pay for.
        char trans = 'N';
        int64_t ld = 0;
        if (m >= kManyRows && leading(k, n, b_row, b_col, &trans, &ld)) return nullptr;
        const auto convolution = typical<ConvolutionForm>(m, k, n, engine_);
        if (!convolution || is_reference(convolution.impl_info_str())) return nullptr;
        p->desc = convolution.weights_desc();
        p->form = OneDnnMatrix::Form::convolution;
        source_desc = ConvolutionForm::given_weights(k, n, b_row, b_col);
      }
      p->panels = panels_of(p->desc);
      p->size = p->desc.get_size();
      p->bytes = aligned_bytes(p->size);
      if (source_desc == p->desc) return nullptr;
      dnnl::memory source(source_desc, engine_, const_cast<float*>(b));
      dnnl::memory target(p->desc, engine_, p->bytes.get());
      dnnl::reorder(source, target).execute(stream_, source, target);
      stream_.wait();
      return p.release();
    } catch (const dnnl::error& e) {
      throw std::runtime_error(std::string("oneDNN cannot pack a weight matrix: ") + e.what());
    }
  }
  std::unique_ptr<GemmKernel> packed(const GemmShape& shape, const PackedMatrix::Impl& packed) override {
    const auto& matrix = static_cast<const OneDnnMatrix&>(packed);
    const auto make = matrix.form == OneDnnMatrix::Form::convolution ? PackedKernel<ConvolutionForm>::make
                                                                     : PackedKernel<MatmulForm>::make;
    try {
      return make(shape, matrix.desc, engine_, stream_, &scratch_);
    } catch (const dnnl::error&) {
      return nullptr;
    }
  }
  std::unique_ptr<GemmKernel> sgemm(const GemmShape& shape, int threads) override {
    const SgemmCall call = sgemm_call(shape);
    return call.usable ? std::make_unique<SgemmKernel>(shape, call, threads) : nullptr;
  }

 private:
  dnnl::engine engine_ = make_engine();
  dnnl::stream stream_{engine_};
  Scratch scratch_;
};

}  // namespace

std::unique_ptr<LibraryGemm> make_library_gemm() { return std::make_unique<OneDnnGemm>(); }

}  // namespace braid::rt
