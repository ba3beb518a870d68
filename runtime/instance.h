// The part of an instance that is common to all generated programs. Generated source derives from Instance
// and makes its table with make_program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "runtime/attention.h"
#include "runtime/extern_kernel.h"
#include "runtime/gemm.h"
#include "runtime/kernel_support.h"
#include "runtime/owned.h"
#include "runtime/processor.h"
#include "runtime/program_abi.h"
#include "runtime/window_kernels.h"

namespace braid::rt {

struct LifecyclePlan;

// The kernels of one kind that fit one set of sizes, in the order in which the step uses them.
template <class Kernel>
class KernelList {
 public:
  KernelList() = default;
  ~KernelList() { delete[] kernels_; }
  KernelList(const KernelList&) = delete;
  KernelList& operator=(const KernelList&) = delete;

  void operator=(std::initializer_list<const Kernel*> kernels) {
    const Kernel** const list = new const Kernel*[kernels.size()];
    size_t count = 0;
    for (const Kernel* const kernel : kernels) list[count++] = kernel;
    delete[] kernels_;
    kernels_ = list;
  }
  const Kernel& operator[](size_t index) const { return *kernels_[index]; }

 private:
  const Kernel** kernels_ = nullptr;
};

class Instance {
 public:
  // Checks `info` against the table. Throws InstanceError (runtime/instance_error.h).
  Instance(const BraidProgram& table, const BraidCreateInfo& info, size_t scratch_bytes);
  virtual ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  void set_up();  // once, after construction: packs weights, joins communicators; throws
  BraidStatus prepare(const int64_t* dims) noexcept;
  BraidStatus run(const void* const* inputs, void* const* outputs) noexcept;
  // Sets the node_count + 1 entries that each run fills in, or null.
  void record(BraidNodeTimes* times) { times_ = times; }
  const char* last_error() const;
  const int64_t* dims() const { return current_->dims; }  // after prepare

 protected:
  // Packs constant operands of GEMMs.
  virtual void pack_weights() {}
  // Throws InstanceError if a guard does not hold.
  virtual void check_guards(const int64_t* dims) const { (void)dims; }
  // Chooses one kernel per GEMM for these dims.
  virtual void choose_gemms(const int64_t* dims, KernelList<GemmKernel>& kernels) {
    (void)dims;
    (void)kernels;
  }
  // The same for convolutions and pools.
  virtual void choose_windows(const int64_t* dims, KernelList<WindowKernel>& kernels) {
    (void)dims;
    (void)kernels;
  }
  // And for attention.
  virtual void choose_attentions(const int64_t* dims, KernelList<AttentionKernel>& kernels) {
    (void)dims;
    (void)kernels;
  }
  // For programs compiled with checks (runtime/lifecycle.h).
  virtual const LifecyclePlan* lifecycle_plan() const { return nullptr; }
  // False after one of the calls below failed.
  virtual bool step(const void* const* inputs, void* const* outputs) = 0;

  void guard(bool holds, const int64_t* dims, const char* text) const;
  // For pack_weights: GemmLibrary::pack of a constant matrix, whose checksums are checked if it is packed.
  PackedMatrix pack(int64_t k, int64_t n, const float* b, int64_t b_row, int64_t b_col, int64_t typical_m);
  PackedMatrix pack(DType a_type, DType type, int64_t k, int64_t n, const void* b, int64_t b_row,
                    int64_t b_col);

  // The same for the weights of a convolution whose shape depends on no dimension.
  void pack(const ConvolutionShape& shape, const void* b);

  // ---- for step
  // Sets a measured dimension for the rest of the step, and chooses the kernels that fit. Throws
  // InstanceError if the value is beyond the bounds.
  void measure(size_t dim, int64_t value, const char* node);
  void gemm(size_t index, const GemmArgs& args, const PackedMatrix* packed = nullptr) const {
    current_->gemms[index].run(args, packed);
  }
  // Columns [begin, end) of the product, by the calling thread; `end` 0: all of them, by all threads.
  void gemm_columns(size_t index, const GemmArgs& args, const PackedMatrix* packed, int64_t begin,
                    int64_t end) const {
    if (end == 0)
      gemm(index, args, packed);
    else
      current_->gemms[index].run_columns(args, packed, begin, end);
  }
  // The columns that parts of products [first, first + count) begin at multiples of; 0 if there are none.
  int64_t column_block(size_t first, size_t count) const;
  void window(size_t index, const WindowArgs& args) const { current_->windows[index].run(args); }
  void attention(size_t index, const AttentionArgs& args) const { current_->attentions[index].run(args); }
  // Marks the beginning of node `index` of the table. Costs one register test unless times are recorded.
  void node(size_t index) {
    if (times_ != nullptr) [[unlikely]]
      begin_node(index);
  }
  // Starts collective `index` of the table with `count` elements (CollectiveCall::count). True for a rank
  // that is not in the group.
  bool start(size_t index, int64_t count, const void* input, void* output);
  bool wait(size_t index);
  bool release(size_t index);
  bool indices_ok(const char* const* sites);
  // `node` is named where the kernel fails.
  bool call_extern(const char* node, BraidExternKernel kernel, std::initializer_list<BraidTensorView> reads,
                   std::initializer_list<BraidTensorView> writes,
                   std::initializer_list<BraidAttribute> attributes);
  bool before_step(int32_t step);
  bool after_step(int32_t step);
  // Declares that the next kernel only copies into or out of communication buffers.
  void copies(int64_t bytes);

  std::byte* arena_ = nullptr;
  std::byte* segment_ = nullptr;
  std::byte* scratch_ = nullptr;  // scratch_stride_ bytes per thread
  size_t scratch_stride_ = 0;
  const std::byte* weights_ = nullptr;
  const std::byte* rank_weights_ = nullptr;
  int32_t rank_ = 0;
  IndexError index_error_;
  GemmLibrary gemms_;
  WindowLibrary windows_;
  AttentionLibrary attentions_;

 private:
  // The kernels for one set of sizes.
  struct Choice {
    const int64_t* dims = nullptr;
    KernelList<GemmKernel> gemms;
    KernelList<WindowKernel> windows;
    KernelList<AttentionKernel> attentions;
  };
  struct Prepared;
  struct State;  // generated source includes this header, so it is kept short

  // Constant weights were read, and what is packed from them is used from now on.
  void weights_packed(const void* begin, const void* end);
  const Prepared* prepare_sizes(bool measured, const int64_t* dims);
  void begin_node(size_t index);
  void join_groups();

  const Choice* current_ = nullptr;  // of a step, from its last measure on
  BraidNodeTimes* times_ = nullptr;
  size_t node_ = 0;  // that runs, while times_ is not null
  Owned<State> state_;
};

namespace abi {

BraidStatus report(BraidStatus status, const char* message);  // for last_error(null)
const char* reported();
// Returns BRAID_INVALID_ARGUMENT if this processor lacks one of the features (runtime/processor.h) that a
// program was built for.
BraidStatus check_processor(uint32_t features);
// Converts the exception being handled to a status and reports its message.
BraidStatus current_exception() noexcept;

inline Instance* instance(BraidInstance* i) { return reinterpret_cast<Instance*>(i); }
inline const Instance* instance(const BraidInstance* i) { return reinterpret_cast<const Instance*>(i); }

template <class Program>
BraidStatus create(const BraidCreateInfo* info, BraidInstance** out) {
  if (!info || !out) return report(BRAID_INVALID_ARGUMENT, "create: null argument");
  *out = nullptr;
  if (const BraidStatus fits = check_processor(kCompiledFeatures); fits != BRAID_OK) return fits;
  try {
    Owned<Program> program(new Program(*info));
    program->set_up();
    *out = reinterpret_cast<BraidInstance*>(static_cast<Instance*>(program.release()));
    return BRAID_OK;
  } catch (...) {
    return current_exception();
  }
}
inline BraidStatus prepare(BraidInstance* i, const int64_t* dims) {
  return i ? instance(i)->prepare(dims) : report(BRAID_INVALID_ARGUMENT, "prepare: null instance");
}
inline BraidStatus run(BraidInstance* i, const void* const* inputs, void* const* outputs) {
  return i ? instance(i)->run(inputs, outputs) : report(BRAID_INVALID_ARGUMENT, "run: null instance");
}
inline const int64_t* dims_of_run(const BraidInstance* i) { return i ? instance(i)->dims() : nullptr; }
inline void record(BraidInstance* i, BraidNodeTimes* times) {
  if (i) instance(i)->record(times);
}
inline const char* last_error(const BraidInstance* i) { return i ? instance(i)->last_error() : reported(); }
inline void destroy(BraidInstance* i) { delete instance(i); }

}  // namespace abi

// Completes a table, whose data the generated source has filled in, with the functions.
template <class Program>
constexpr BraidProgram make_program(BraidProgram table) {
  table.abi_version = BRAID_ABI_VERSION;
  table.struct_size = sizeof(BraidProgram);
  table.create = abi::create<Program>;
  table.prepare = abi::prepare;
  table.run = abi::run;
  table.dims_of_run = abi::dims_of_run;
  table.record = abi::record;
  table.last_error = abi::last_error;
  table.destroy = abi::destroy;
  return table;
}

}  // namespace braid::rt
