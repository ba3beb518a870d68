// Code shared by the kernels that call oneDNN, and the differences between its versions 2.6 and 3. Private to
// the runtime library.
#pragma once

#include <cstddef>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/aligned_bytes.h"
#include "runtime/gemm.h"

namespace braid::rt {

// Working memory of the kernels of one library, of which one runs at a time.
struct Scratch {
  AlignedBytes memory;
  size_t bytes = 0;

  void reserve(size_t wanted) {
    if (wanted <= bytes) return;
    memory = aligned_bytes(wanted);
    bytes = wanted;
  }
};

// The layout of a blocked memory descriptor (dnnl_blocking_desc_t of version 2.6).
struct Blocking {
  dnnl::memory::dims strides;
  dnnl::memory::dims inner_blocks, inner_dims;  // outermost first
};
// nullopt if the layout is the library's secret, or none.
std::optional<Blocking> blocking_of(const dnnl::memory::desc& desc);

// The same sizes and type, the layout left to the library.
dnnl::memory::desc in_any_layout(const dnnl::memory::desc& desc);
// The same sizes and strides in f32, of a layout without blocks.
dnnl::memory::desc in_floats(const dnnl::memory::desc& desc);

struct WindowGeometry {
  dnnl::memory::dims stride, taps, dilation, pad_before, pad_after;  // dilation: elements between two taps
};

// Descriptors of primitives; false in a condition if the library has none. `bias` may be empty.
dnnl::matmul::primitive_desc describe_matmul(const dnnl::memory::desc& a, const dnnl::memory::desc& b,
                                             const dnnl::memory::desc& c, const dnnl::primitive_attr& attr,
                                             const dnnl::engine& engine);

// `Convolution`: dnnl::convolution_forward or dnnl::deconvolution_forward.
template <class Convolution>
typename Convolution::primitive_desc describe_convolution(
    dnnl::algorithm algorithm, const dnnl::memory::desc& a, const dnnl::memory::desc& b,
    const dnnl::memory::desc& bias, const dnnl::memory::desc& c, const WindowGeometry& w,
    const dnnl::primitive_attr& attr, const dnnl::engine& engine) {
  constexpr auto kKind = dnnl::prop_kind::forward_inference;
#if DNNL_VERSION_MAJOR >= 3
  return {engine,   kKind,      algorithm,    a,           b,    bias, c,
          w.stride, w.dilation, w.pad_before, w.pad_after, attr, true};
#else
  const typename Convolution::desc desc(kKind, algorithm, a, b, bias, c, w.stride, w.dilation, w.pad_before,
                                        w.pad_after);
  return {desc, attr, engine, true};
#endif
}

// The engine of this processor, whose kernels use no wider instructions than instruction_set() and, from
// AVX-512 on, all that the processor has.
dnnl::engine make_engine();

// While it lives, primitives that the calling thread makes and runs use it alone: the library's own threads
// spin for some milliseconds after each, on processors that the team needs.
class OneLibraryThread {
 public:
  OneLibraryThread();
  ~OneLibraryThread();
  OneLibraryThread(const OneLibraryThread&) = delete;
  OneLibraryThread& operator=(const OneLibraryThread&) = delete;

 private:
  const int before_;
};

// Appends post-op `op`; `operand` describes what an addition adds.
void append_post_op(dnnl::post_ops& ops, PostOp op, float scale, const dnnl::memory::desc& operand);

// The number of steps at the beginning of an epilogue that a kernel of the library computes as we do. None
// computes relu and relu6 so, and without AVX2 any function: it makes numbers of NaN there, and NaN of minus
// infinity. Its products of unfolded images ("gemm") take sigmoid's NaN for 0 and give some operands to wrong
// elements; `bias` steps are not theirs.
int steps_of_library(const Epilogue& epilogue, const std::string& implementation, int bias = 0);
// The steps of an epilogue before step `at`, and from it on.
Epilogue steps_before(const Epilogue& epilogue, int at);
Epilogue steps_from(const Epilogue& epilogue, int at);

// Whether the library would compute this with plain loops.
inline bool is_reference(const char* implementation) {
  return std::string(implementation).find("ref") != std::string::npos;
}

// The arguments of a primitive. oneDNN's own execute takes them in an unordered_map; the C interface
// underneath takes a plain array.
class PrimitiveArgs {
 public:
  void add(int id, const dnnl::memory::desc& desc, const dnnl::engine& engine) {
    ids_.push_back(id);
    memories_.emplace_back(desc, engine, nullptr);
    args_.push_back({id, memories_.back().get()});
  }
  void set(size_t k, const void* p) const {
    dnnl_memory_set_data_handle(memories_[k].get(), const_cast<void*>(p));
  }
  void execute(const dnnl::primitive& primitive, const dnnl::stream& stream) const {
    dnnl_primitive_execute(primitive.get(), stream.get(), static_cast<int>(args_.size()), args_.data());
  }

 private:
  std::vector<int> ids_;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> args_;
};

}  // namespace braid::rt
