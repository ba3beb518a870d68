#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include "runtime/gemm_library.h"
#include "runtime/half_gemm.h"
#include "runtime/half_windows.h"
#include "runtime/integer_windows.h"
#include "runtime/kernel_variables.h"
#include "runtime/onednn_support.h"
#include "runtime/plain_convolution.h"
#include "runtime/pool.h"
#include "runtime/team.h"
#include "runtime/window_kernels.h"
#include "runtime/window_kernels_own.h"
#include "runtime/window_parts.h"

namespace braid::rt {
namespace {

using Dims = dnnl::memory::dims;
using Desc = dnnl::memory::desc;
using Type = dnnl::memory::data_type;
constexpr auto kFloat = Type::f32;
constexpr auto kAnyLayout = dnnl::memory::format_tag::any;

Type library_type(DType type) {
  return type == DType::bf16 ? Type::bf16 : type == DType::f16 ? Type::f16 : Type::f32;
}

// The numbers of the used spatial dimensions.
Dims spatial(const WindowShape& s, const std::array<int64_t, kMaxSpatial>& numbers) {
  return Dims(numbers.begin(), numbers.begin() + s.spatial);
}
// oneDNN's order: batch or filters, channels, spatial dimensions.
Dims dims(const WindowShape& s, int64_t first, int64_t second, const std::array<int64_t, kMaxSpatial>& rest) {
  Dims out = spatial(s, rest);
  out.insert(out.begin(), {first, second});
  return out;
}

// Row-major strides of these sizes with the dimensions in this order, outermost first.
Dims dense(const Dims& sizes, const std::vector<size_t>& order) {
  Dims strides(sizes.size());
  int64_t next = 1;
  for (size_t k = order.size(); k-- > 0;) {
    strides[order[k]] = next;
    next *= sizes[order[k]];
  }
  return strides;
}

// The library's kernels look for layouts that are channels-last or row-major in every dimension. Strides of
// dimensions of one element may have any value, so this replaces them.
Desc activations(const Dims& sizes, Dims strides, Type type) {
  std::vector<size_t> channels_first(sizes.size());
  std::iota(channels_first.begin(), channels_first.end(), size_t{0});
  std::vector<size_t> channels_last = channels_first;
  std::rotate(channels_last.begin() + 1, channels_last.begin() + 2, channels_last.end());
  for (const std::vector<size_t>& order : {channels_last, channels_first}) {
    const Dims wanted = dense(sizes, order);
    bool same = true;
    for (size_t d = 0; d < sizes.size(); ++d) same &= sizes[d] == 1 || strides[d] == wanted[d];
    if (!same) continue;
    strides = wanted;
    break;
  }
  return Desc(sizes, type, strides);
}

struct Operands {
  Desc a, out;
};
Operands operands_of(const WindowShape& s, int64_t a_channels, int64_t out_channels, Type a_type = kFloat,
                     Type out_type = kFloat) {
  return {
      activations(dims(s, s.batch, a_channels, s.in), dims(s, s.a_batch, s.a_channel, s.a_spatial), a_type),
      activations(dims(s, s.batch, out_channels, s.out), dims(s, s.out_batch, s.out_channel, s.out_spatial),
                  out_type)};
}

// The padding at the end up to which the last windows reach.
Dims pads_after(const WindowShape& s, bool transposed) {
  Dims after;
  for (int d = 0; d < s.spatial; ++d) {
    const int64_t extent = (s.taps[d] - 1) * s.dilation[d] + 1;
    const int64_t full = transposed ? (s.in[d] - 1) * s.stride[d] + extent - s.pad[d] - s.out[d]
                                    : (s.out[d] - 1) * s.stride[d] + extent - s.in[d] - s.pad[d];
    after.push_back(transposed ? full : std::max<int64_t>(full, 0));
  }
  return after;
}
Dims gaps(const WindowShape& s) {  // oneDNN counts the elements between two taps
  Dims out;
  for (int d = 0; d < s.spatial; ++d) out.push_back(s.taps[d] == 1 ? 0 : s.dilation[d] - 1);
  return out;
}

Desc weights_dims(const ConvolutionShape& s, const Dims& strides) {
  Dims sizes = dims(s, s.filters, s.channels, s.taps);
  if (s.groups > 1) sizes.insert(sizes.begin(), s.groups);
  const Type type = library_type(s.b_type);
  return strides.empty() ? Desc(sizes, type, kAnyLayout) : Desc(sizes, type, strides);
}
Desc given_weights(const ConvolutionShape& s) {
  Dims strides = dims(s, s.b_filter, s.b_channel, s.b_tap);
  if (s.groups > 1) strides.insert(strides.begin(), s.b_group);
  return weights_dims(s, strides);
}

// A bias is cheaper than an addition after the sum.
bool begins_with_bias(const ConvolutionShape& s) { return s.epilogue.ops[0] == PostOp::add_vector; }

Desc vector_desc(const ConvolutionShape& s) {
  Dims sizes(static_cast<size_t>(s.spatial) + 2, 1);
  sizes[1] = s.groups * s.filters;
  Dims strides(sizes.size(), 1);
  strides[0] = sizes[1];
  return Desc(sizes, kFloat, strides);
}

dnnl::primitive_attr attributes(const ConvolutionShape& s, const Desc& out) {
  dnnl::post_ops ops;
  for (int p = begins_with_bias(s) ? 1 : 0; p < kMaxPostOps && s.epilogue.ops[p] != PostOp::none; ++p) {
    const bool matrix = s.epilogue.ops[p] == PostOp::add_matrix;
    append_post_op(ops, s.epilogue.ops[p], s.epilogue.scale, matrix ? out : vector_desc(s));
  }
  dnnl::primitive_attr attr;
  attr.set_post_ops(ops);
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

// A primitive with its operands' layouts, whatever its kind.
struct Chosen {
  dnnl::primitive primitive;
  Desc a, b, out, scratch;
  std::string name;
  bool reference = true;
};

template <class Primitive>
Chosen chosen(const typename Primitive::primitive_desc& pd) {
  return {Primitive(pd),
          pd.src_desc(),
          {},
          pd.dst_desc(),
          pd.scratchpad_desc(),
          pd.impl_info_str(),
          is_reference(pd.impl_info_str())};
}

WindowGeometry geometry(const WindowShape& s, bool transposed) {
  return {spatial(s, s.stride), spatial(s, s.taps), gaps(s), spatial(s, s.pad), pads_after(s, transposed)};
}

std::optional<Chosen> convolution(const ConvolutionShape& s, const Operands& layouts, const Desc& out,
                                  const dnnl::engine& engine) {
  const Desc any = weights_dims(s, {});
  const Desc bias = begins_with_bias(s) ? Desc({s.groups * s.filters}, kFloat, Dims{1}) : Desc();
  const auto of_kind = [&]<class Primitive>(Primitive, dnnl::algorithm kind) -> std::optional<Chosen> {
    const auto pd = describe_convolution<Primitive>(kind, layouts.a, any, bias, layouts.out,
                                                    geometry(s, s.transposed), attributes(s, out), engine);
    if (!pd) return std::nullopt;
    Chosen c = chosen<Primitive>(pd);
    c.b = pd.weights_desc();
    return c;
  };
  return s.transposed ? of_kind(dnnl::deconvolution_forward(), dnnl::algorithm::deconvolution_direct)
                      : of_kind(dnnl::convolution_forward(), dnnl::algorithm::convolution_direct);
}

// Kernels without matrix instructions read the rows that a window covers once per block of filters. If all
// channels of an element are adjacent and the rows do not stay in the first-level caches, blocks of channels
// are faster, copies included (oneDNN 2.6 with AVX2: 50 to 60 instead of 80 GFLOP/s).
bool rereads_rows(const ConvolutionShape& s, const Chosen& direct) {
  constexpr int64_t kCached = 96 * 1024;
  const int last = s.spatial - 1;
  int64_t taps = 1;
  for (int d = 0; d < s.spatial; ++d) taps *= s.taps[d];
  const int64_t bytes = s.in[last] * s.channels * s.taps[0] * static_cast<int64_t>(sizeof(float));
  const std::optional<Blocking> plain = blocking_of(direct.a);
  return !s.transposed && s.groups == 1 && taps > 1 && s.filters > 8 && bytes >= kCached &&
         direct.name.find("brg") == std::string::npos && plain && plain->inner_blocks.empty();
}

// Copies one operand into another layout; without effect if both are the same.
class Reorder {
 public:
  Reorder(const Desc& from, const Desc& to, const dnnl::engine& engine) : needed_(!(from == to)) {
    if (!needed_) return;
    const dnnl::reorder::primitive_desc pd(engine, from, engine, to);
    primitive_ = dnnl::reorder(pd);
    args_.add(DNNL_ARG_FROM, from, engine);
    args_.add(DNNL_ARG_TO, to, engine);
  }
  bool needed() const { return needed_; }
  void run(const void* from, void* to, const dnnl::stream& stream) const {
    args_.set(0, from);
    args_.set(1, to);
    args_.execute(primitive_, stream);
  }

 private:
  bool needed_;
  dnnl::primitive primitive_;
  PrimitiveArgs args_;
};

size_t rounded(size_t bytes) { return (bytes + 63) / 64 * 64; }

// A primitive, with copies of its operands around it where it wants other layouts.
class Kernel final : public WindowKernel {
 public:
  // `packed_b` is null if the weights are not constant.
  Kernel(const Chosen& c, const Operands& given, const Desc& given_b, const std::byte* packed_b,
         const ConvolutionShape& shape, const dnnl::engine& engine, const dnnl::stream& stream,
         Scratch* scratch)
      : primitive_(c.primitive),
        name_(c.name),
        a_(given.a, c.a, engine),
        out_(c.out, given.out, engine),
        b_(packed_b != nullptr ? c.b : given_b, c.b, engine),
        packed_b_(packed_b),
        stream_(stream),
        scratch_(scratch) {
    scratch_bytes_ = rounded(c.scratch.get_size());
    a_at_ = scratch_bytes_;
    b_at_ = a_at_ + (a_.needed() ? rounded(c.a.get_size()) : 0);
    out_at_ = b_at_ + (b_.needed() ? rounded(c.b.get_size()) : 0);
    scratch->reserve(out_at_ + (out_.needed() ? c.out.get_size() : 0));
    args_.add(DNNL_ARG_SRC, c.a, engine);
    args_.add(DNNL_ARG_DST, c.out, engine);
    args_.add(DNNL_ARG_SCRATCHPAD, c.scratch, engine);
    args_.add(DNNL_ARG_WEIGHTS, c.b, engine);
    const bool bias = begins_with_bias(shape);
    for (int p = 0; p < kMaxPostOps && shape.epilogue.ops[p] != PostOp::none; ++p) {
      const PostOp op = shape.epilogue.ops[p];
      if (!takes_operand(op)) continue;
      if (p == 0 && bias) {
        args_.add(DNNL_ARG_BIAS, Desc({shape.groups * shape.filters}, kFloat, Dims{1}), engine);
      } else {
        args_.add(DNNL_ARG_ATTR_MULTIPLE_POST_OP(p - bias) | DNNL_ARG_SRC_1,
                  op == PostOp::add_matrix ? in_floats(given.out) : vector_desc(shape), engine);
      }
      operands_.push_back(p);
    }
  }

  void run(const WindowArgs& args) const override {
    std::byte* const memory = scratch_->memory.get();
    const void* a = args.a;
    if (a_.needed()) a_.run(args.a, memory + a_at_, stream_), a = memory + a_at_;
    args_.set(0, a);
    args_.set(1, out_.needed() ? memory + out_at_ : args.out);
    args_.set(2, memory);
    const void* b = packed_b_ != nullptr ? packed_b_ : args.b;
    if (b_.needed()) b_.run(b, memory + b_at_, stream_), b = memory + b_at_;
    args_.set(3, b);
    for (size_t k = 0; k < operands_.size(); ++k) args_.set(4 + k, args.vectors[operands_[k]]);
    args_.execute(primitive_, stream_);
    if (out_.needed()) out_.run(memory + out_at_, args.out, stream_);
  }
  const char* name() const override { return name_.c_str(); }

 private:
  dnnl::primitive primitive_;
  std::string name_;
  Reorder a_, out_, b_;
  const std::byte* packed_b_;
  const dnnl::stream& stream_;
  Scratch* scratch_;
  size_t scratch_bytes_ = 0, a_at_ = 0, b_at_ = 0, out_at_ = 0;
  PrimitiveArgs args_;
  std::vector<int> operands_;
};

// Whether the kernel multiplies unfolded images.
bool is_product(const Chosen& c) { return c.name.find("gemm") != std::string::npos; }

// Whether the order in which the kernel adds up depends on the sizes of the images.
bool adds_by_size(const Chosen& c) { return is_product(c) || c.name.find("brgconv") != std::string::npos; }

// The same kernels take a convolution for a product of the image if there is one tap and the sizes are equal,
// whatever the stride. With enough padding after the image, the sizes are equal.
bool ignores_stride(const ConvolutionShape& s, const Chosen& c) {
  bool one_tap = true, strides = false;
  for (int d = 0; d < s.spatial; ++d) {
    one_tap &= s.taps[d] == 1 && s.in[d] == s.out[d];
    strides |= s.stride[d] > 1 && s.out[d] > 1;
  }
  return one_tap && strides && is_product(c);
}

// A convolution with the first steps of an epilogue, and the others after it.
class FinishedApart final : public WindowKernel {
 public:
  FinishedApart(const WindowKernel* convolution, const ConvolutionShape& shape, int first)
      : convolution_(convolution), first_(first) {
    part_.m = 1;
    part_.epilogue = steps_from(shape.epilogue, first);
    dimensions_[kFilters] = {shape.groups * shape.filters, shape.out_channel};
    dimensions_[kFilters + 1] = {shape.batch, shape.out_batch};
    for (int d = 0; d < shape.spatial; ++d)
      dimensions_[static_cast<size_t>(kFilters + 2 + d)] = {shape.out[d], shape.out_spatial[d]};
    // Steps with a value for each filter take runs of filters, or single elements.
    const bool by_filter = std::ranges::any_of(
        part_.epilogue.ops, [](PostOp op) { return op == PostOp::mul_vector || op == PostOp::add_vector; });
    const auto is_run = [&](const Dimension& d) { return d.stride == 1 && (d.size > 1 || by_filter); };
    const auto end = by_filter ? dimensions_.begin() + 1 : dimensions_.end(),
               run = std::find_if(dimensions_.begin(), end, is_run);
    part_.n = run == end ? 1 : run->size;
    if (run != end) run->size = 1;
  }
  void run(const WindowArgs& args) const override {
    convolution_->run(args);
    int64_t count = 1;
    for (const Dimension& d : dimensions_) count *= d.size;
    parallel_for(count, count * part_.n > kParallelElements,
                 [&](int64_t begin, int64_t end) { finish_runs(args, begin, end); });
  }
  const char* name() const override { return convolution_->name(); }

 private:
  static constexpr int64_t kParallelElements = 16384;
  static constexpr size_t kFilters = 0;
  struct Dimension {
    int64_t size = 1, stride = 0;
  };

  void finish_runs(const WindowArgs& args, int64_t begin, int64_t end) const {
    std::array<int64_t, 2 + kMaxSpatial> index = {};
    int64_t at = 0, rest = begin;
    for (size_t d = index.size(); d-- > 0; rest /= dimensions_[d].size) {
      index[d] = rest % dimensions_[d].size;
      at += index[d] * dimensions_[d].stride;
    }
    for (int64_t k = begin; k < end; ++k) {
      finish(args, at, index[kFilters]);
      for (size_t d = index.size(); d-- > 0;) {
        at += dimensions_[d].stride;
        if (++index[d] < dimensions_[d].size) break;
        at -= dimensions_[d].size * dimensions_[d].stride;
        index[d] = 0;
      }
    }
  }
  void finish(const WindowArgs& args, int64_t at, int64_t filter) const {
    GemmArgs part;
    part.c = static_cast<float*>(args.out) + at;
    for (int p = first_; p < kMaxPostOps; ++p) {
      if (args.vectors[p] == nullptr) continue;
      const bool matrix = part_.epilogue.ops[p - first_] == PostOp::add_matrix;
      part.vectors[p - first_] = static_cast<const float*>(args.vectors[p]) + (matrix ? at : filter);
    }
    own_kernels().finish(part_, part, 0, 0, 1);
  }

  const WindowKernel* convolution_;
  int first_;                                          // step of the epilogue
  GemmShape part_;                                     // a run of elements
  std::array<Dimension, 2 + kMaxSpatial> dimensions_;  // of the runs: filters, batch, spatial ones
};

// For a result without elements.
class Nothing final : public WindowKernel {
 public:
  void run(const WindowArgs&) const override {}
  const char* name() const override { return "nothing"; }
};

bool empty(const WindowShape& s, int64_t channels) {
  int64_t elements = s.batch * channels;
  for (int d = 0; d < s.spatial; ++d) elements *= s.out[d];
  return elements == 0;
}

// Whether oneDNN describes the convolution: of an image with elements, and without negative padding.
bool has_description(const ConvolutionShape& s) {
  const Dims after = pads_after(s, s.transposed);
  for (int d = 0; d < s.spatial; ++d) {
    if (s.in[d] == 0 || s.pad[d] < 0 || after[static_cast<size_t>(d)] < 0) return false;
  }
  return true;
}

// Some of the images of a convolution, or some rows of their results.
struct ConvolutionPart {
  ConvolutionShape shape;
  int64_t a = 0, out = 0;  // offsets of the first elements
};

// Rows [begin, end) of the result, and those of the image that reach them.
ConvolutionPart rows_of(const ConvolutionShape& s, int64_t begin, int64_t end) {
  ConvolutionPart part{s};
  const int64_t reach = (s.taps[0] - 1) * s.dilation[0];
  int64_t first_read = begin * s.stride[0] - s.pad[0], start = 0, behind = 0;
  if (s.transposed) {
    const int64_t first = begin + s.pad[0] - reach;
    start =
        std::min(first > 0 ? (first + s.stride[0] - 1) / s.stride[0] : 0, (begin + s.pad[0]) / s.stride[0]);
    behind = (end - 1 + s.pad[0]) / s.stride[0] + 1;
    first_read = start * s.stride[0] - (begin + s.pad[0]);
  } else {
    start = std::clamp<int64_t>(first_read, 0, s.in[0]);
    behind = (end - 1) * s.stride[0] - s.pad[0] + reach + 1;
  }
  part.shape.out[0] = end - begin;
  part.shape.in[0] = std::max<int64_t>(std::min(behind, s.in[0]) - start, 0);
  part.shape.pad[0] = std::max<int64_t>(-first_read, 0);
  part.a = start * s.a_spatial[0];
  part.out = begin * s.out_spatial[0];
  return part;
}

std::vector<ConvolutionPart> parts_of(const ConvolutionShape& s, int threads) {
  constexpr int64_t kFewestRows = 4;  // parts begin where tiles of Winograd's algorithm do
  double work = static_cast<double>(s.batch * s.groups * s.channels * s.filters);
  for (int d = 0; d < s.spatial; ++d) work *= static_cast<double>(s.out[d] * s.taps[d]);
  if (useful_threads(work, threads) == 1) return {{s}};
  std::vector<ConvolutionPart> parts;
  const bool by_image = s.batch >= threads || s.spatial == 0;
  const int64_t grain = by_image ? 1 : kFewestRows,
                units = ((by_image ? s.batch : s.out[0]) + grain - 1) / grain,
                count = std::min<int64_t>(threads, units);
  for (int64_t k = 0; k < count; ++k) {
    const int64_t begin = units * k / count * grain, end = units * (k + 1) / count * grain;
    if (!by_image) {
      parts.push_back(rows_of(s, begin, std::min(end, s.out[0])));
      continue;
    }
    ConvolutionPart part{s};
    part.shape.batch = end - begin;
    part.a = begin * s.a_batch;
    part.out = begin * s.out_batch;
    parts.push_back(part);
  }
  return parts;
}

// A convolution in parts that the team computes.
class PartedKernel final : public WindowKernel {
 public:
  explicit PartedKernel(std::string name) : name_(std::move(name)) {}
  // The memory and the stream of a part: several threads may run parts at once.
  struct Own {
    Scratch scratch;
    dnnl::stream stream;
  };
  Own& add_own(const dnnl::engine& engine) {
    own_.push_back(std::make_unique<Own>());
    own_.back()->stream = dnnl::stream(engine);
    return *own_.back();
  }
  void add(const ConvolutionPart& part, std::unique_ptr<WindowKernel> kernel) {
    epilogue_ = part.shape.epilogue;
    parts_.push_back({part.a, part.out, std::move(kernel)});
  }
  void run(const WindowArgs& args) const override {
    parallel_for(std::ssize(parts_), parts_.size() > 1, [&](int64_t begin, int64_t end) {
      const OneLibraryThread alone;
      for (int64_t k = begin; k < end; ++k) {
        const Part& part = parts_[static_cast<size_t>(k)];
        WindowArgs own = args;
        own.a = static_cast<const float*>(args.a) + part.a;
        own.out = static_cast<float*>(args.out) + part.out;
        for (int p = 0; p < kMaxPostOps; ++p) {
          if (epilogue_.ops[p] == PostOp::add_matrix)
            own.vectors[p] = static_cast<const float*>(args.vectors[p]) + part.out;
        }
        part.kernel->run(own);
      }
    });
  }
  const char* name() const override { return name_.c_str(); }

 private:
  struct Part {
    int64_t a, out;
    std::unique_ptr<WindowKernel> kernel;
  };
  std::string name_;
  Epilogue epilogue_;
  std::vector<std::unique_ptr<Own>> own_;
  std::vector<Part> parts_;
};

}  // namespace

struct WindowLibrary::Impl {
  dnnl::engine engine = make_engine();
  dnnl::stream stream{engine};
  Scratch scratch;
  OwnWindows own;
  ByteWindows bytes;
  HalfWindows halves;
  struct Packed {
    const void* b;
    Desc given, layout;
    AlignedBytes bytes;
  };
  std::vector<Packed> packed;
  // Keyed by shape, constant weights and threads.
  std::map<std::tuple<ConvolutionShape, const float*, int>, std::unique_ptr<WindowKernel>> convolutions;
  std::map<std::tuple<PoolShape, int>, std::unique_ptr<WindowKernel>> pools;

  const std::byte* pack(const void* b, const Desc& given, const Desc& layout) {
    if (given == layout) return static_cast<const std::byte*>(b);
    for (const Packed& p : packed) {
      if (p.b == b && p.given == given && p.layout == layout) return p.bytes.get();
    }
    AlignedBytes bytes = aligned_bytes(layout.get_size());
    Reorder(given, layout, engine).run(b, bytes.get(), stream);
    stream.wait();
    packed.push_back({b, given, layout, std::move(bytes)});
    return packed.back().bytes.get();
  }

  // Returns the library's kernel for halves, or null if it would not be faster than one for f32. Kernels by
  // products of unfolded images are not faster, and wrong in some cases (steps_of_library, ignores_stride).
  std::unique_ptr<WindowKernel> half_kernel(const ConvolutionShape& s, const void* weights) {
    if (s.type != DType::bf16 || !has_bf16_units() || !has_description(s)) return nullptr;
    const Operands given = operands_of(s, s.groups * s.channels, s.groups * s.filters, library_type(s.type),
                                       library_type(s.out_type));
    const Operands f32 = operands_of(s, s.groups * s.channels, s.groups * s.filters);
    std::optional<Chosen> c;
    try {
      for (const Operands& layouts : {given, Operands{in_any_layout(given.a), in_any_layout(given.out)}}) {
        c = convolution(s, layouts, f32.out, engine);
        if (c && !c->reference && c->name.find("gemm") == std::string::npos) break;
        c.reset();
      }
    } catch (const dnnl::error&) {
      return nullptr;
    }
    if (!c) return nullptr;
    const std::byte* const packed = pack(weights, given_weights(s), c->b);
    return std::make_unique<Kernel>(*c, given, given_weights(s), packed, s, engine, stream, &scratch);
  }

  // How a convolution is given to the library.
  enum class Route { given_layouts, any_layouts };
  struct Routed {
    Route route;
    Chosen chosen;
  };

  std::optional<Chosen> along(Route route, const ConvolutionShape& s) const {
    const Operands given = operands_of(s, s.groups * s.channels, s.groups * s.filters);
    const Operands any{in_any_layout(given.a), in_any_layout(given.out)};
    return convolution(s, route == Route::given_layouts ? given : any, given.out, engine);
  }

  // Prefers a fast kernel for the given layouts, unless others suit the library better. nullopt: the library
  // has none.
  std::optional<Routed> routed(const ConvolutionShape& s) const {
    const OneLibraryThread alone;  // the number of threads must not decide
    std::optional<Routed> direct;
    try {
      if (const std::optional<Chosen> c = along(Route::given_layouts, s)) direct = {Route::given_layouts, *c};
      if (direct && !direct->chosen.reference && !rereads_rows(s, direct->chosen) &&
          !ignores_stride(s, direct->chosen))
        return direct;
      const std::optional<Chosen> other = along(Route::any_layouts, s);
      if (other && (!direct || !other->reference)) return Routed{Route::any_layouts, *other};
    } catch (const dnnl::error&) {
    }
    return direct;
  }

  std::unique_ptr<WindowKernel> with_library(const ConvolutionShape& s, const Chosen& c,
                                             const void* constant_b, const dnnl::stream& own_stream,
                                             Scratch* memory) {
    const Desc b = given_weights(s);
    return std::make_unique<Kernel>(c, operands_of(s, s.groups * s.channels, s.groups * s.filters), b,
                                    constant_b != nullptr ? pack(constant_b, b, c.b) : nullptr, s, engine,
                                    own_stream, memory);
  }

  // The same, in these parts. Null if the library has another kernel for one of them: it could round
  // differently, and results must not depend on the number of threads.
  std::unique_ptr<WindowKernel> in_parts(const std::vector<ConvolutionPart>& parts, const Routed& whole,
                                         const void* constant_b) {
    auto parted = std::make_unique<PartedKernel>(whole.chosen.name);
    const OneLibraryThread alone;
    for (const ConvolutionPart& part : parts) {
      if (!has_description(part.shape)) return nullptr;
      std::optional<Chosen> c;
      try {
        c = along(whole.route, part.shape);
      } catch (const dnnl::error&) {
        return nullptr;
      }
      if (!c || c->name != whole.chosen.name) return nullptr;
      PartedKernel::Own& own = parted->add_own(engine);
      parted->add(part, with_library(part.shape, *c, constant_b, own.stream, &own.scratch));
    }
    return parted;
  }

  // In parts for the threads of the team, if it can be divided. Otherwise the library's own threads compute
  // it, which after that keep the team's from their processors for a while. How some kernels add up depends
  // on their sizes: these have the same parts, or one, for every number of threads. So have transposed
  // convolutions, whose kernels are many.
  std::unique_ptr<WindowKernel> for_team(const ConvolutionShape& s, const Routed& whole,
                                         const void* constant_b) {
    constexpr int kFixedParts = 8;
    // Each part lays out computed weights for itself.
    const bool fixed = s.transposed || adds_by_size(whole.chosen), divides = constant_b != nullptr || fixed;
    const int threads = fixed ? kFixedParts : team_threads();
    std::unique_ptr<WindowKernel> kernel;
    if (divides && threads > 1) kernel = in_parts(parts_of(s, threads), whole, constant_b);
    if (!kernel && fixed) kernel = in_parts({{s}}, whole, constant_b);
    if (kernel) return kernel;
    const std::optional<Chosen> threaded = along(whole.route, s);
    const bool same = threaded && threaded->name == whole.chosen.name;
    return with_library(s, same ? *threaded : whole.chosen, constant_b, stream, &scratch);
  }
};

WindowLibrary::WindowLibrary() : impl_(new Impl) {}
WindowLibrary::~WindowLibrary() = default;

const WindowKernel* WindowLibrary::kernel(const ConvolutionShape& shape, const void* weights) {
  Impl& im = *impl_;
  const auto* constant_b = static_cast<const float*>(weights);
  std::unique_ptr<WindowKernel>& slot = im.convolutions[{shape, constant_b, team_threads()}];
  if (slot) return slot.get();
  if (empty(shape, shape.groups * shape.filters)) {
    slot = std::make_unique<Nothing>();
    return slot.get();
  }
  if (is_byte_convolution(shape)) {
    slot = im.bytes.kernel(shape, weights, team_threads());
    return slot.get();
  }
  if (is_half_convolution(shape)) {
    slot = im.half_kernel(shape, weights);
    if (slot) return slot.get();
    const WindowKernel* const f32 = kernel(HalfWindows::widened(shape), im.halves.widened(shape, weights));
    slot = im.halves.kernel(shape, *f32, team_threads());
    return slot.get();
  }
  slot = im.own.kernel(shape, constant_b, team_threads());
  if (slot) return slot.get();
  if (!has_description(shape)) {
    slot = im.own.of_taps(shape, constant_b, team_threads());
    if (!slot) slot = plain_convolution(shape, team_threads());
    return slot.get();
  }
  slot = im.own.of_taps(shape, constant_b, team_threads());
  if (slot) return slot.get();
  const std::optional<Impl::Routed> routed = im.routed(shape);
  if (!routed) {
    slot = plain_convolution(shape, team_threads());
    return slot.get();
  }
  const int steps = steps_of_library(shape.epilogue, routed->chosen.name, begins_with_bias(shape) ? 1 : 0);
  if (steps < kMaxPostOps && shape.epilogue.ops[steps] != PostOp::none) {
    ConvolutionShape begun = shape;
    begun.epilogue = steps_before(shape.epilogue, steps);
    const WindowKernel* const first = kernel(begun, constant_b);
    slot = std::make_unique<FinishedApart>(first, shape, steps);
    return slot.get();
  }
  slot = im.for_team(shape, *routed, constant_b);
  return slot.get();
}

const WindowKernel* WindowLibrary::kernel(const PoolShape& shape) {
  Impl& im = *impl_;
  std::unique_ptr<WindowKernel>& slot = im.pools[{shape, team_threads()}];
  if (!slot) slot = pool_kernel(shape, team_threads());
  return slot.get();
}

}  // namespace braid::rt
