// The functions that generated code calls in a step, and the functions of a program's table.
#include <algorithm>
#include <memory>
#include <new>
#include <string>

#include "runtime/cuda/core.h"
#include "runtime/device/launch.h"

namespace braid::rt::cuda {

Instance::Instance(const BraidCudaProgram& table, const Layout& layout)
    : core_(new InstanceCore(*this, table, layout)) {}
Instance::~Instance() { delete core_; }

bool Instance::failed(cudaError_t e, const char* call) { return core_->ok(e, call); }
bool Instance::failed(ncclResult_t e, const char* call) { return core_->ok(e, call); }

void Instance::at_node(const char* node) {
  core_->failure_.node = node;
  set_label(node, core_->begin_node());
}

Instance::Collective Instance::begin_collective() { return core_->begin_collective(); }
bool Instance::end_collective(bool good) { return core_->end_collective(good); }

void Instance::comes_to_collective() { core_->comes_to_collective(); }

bool Instance::compute_waits(int event) {
  return ok(cudaStreamWaitEvent(compute_, core_->events_[static_cast<size_t>(event)], 0),
            "cudaStreamWaitEvent");
}
bool Instance::communication_waits(int event) {
  return ok(cudaStreamWaitEvent(communication_, core_->events_[static_cast<size_t>(event)], 0),
            "cudaStreamWaitEvent");
}
bool Instance::compute_records(int event) {
  return ok(cudaEventRecord(core_->events_[static_cast<size_t>(event)], compute_), "cudaEventRecord");
}
bool Instance::communication_records(int event) {
  return ok(cudaEventRecord(core_->events_[static_cast<size_t>(event)], communication_), "cudaEventRecord");
}

int64_t Instance::spilled_bytes(std::initializer_list<Rows> kernels) const {
  int64_t bytes = 0;
  for (const Rows& rows : kernels) {
    if (!fits_shared(rows.bytes)) bytes = std::max(bytes, spill_blocks(rows.count) * rows.bytes);
  }
  return bytes;
}

bool Instance::gemm(int index, const void* a, const void* b, const void* bias, const void* residual,
                    void* d) {
  GemmOperands operands;
  operands.a = a;
  operands.b = b;
  operands.bias = bias;
  operands.c = residual;
  operands.d = d;
  return core_->products_.run(core_->current_->products[static_cast<size_t>(index)], operands, max_grid_,
                              compute_);
}

bool Instance::call_extern(BraidExternKernel kernel, std::initializer_list<BraidTensorView> reads,
                           std::initializer_list<BraidTensorView> writes,
                           std::initializer_list<BraidAttribute> attributes) {
  const char* why = rt::call_extern(kernel, reads, writes, attributes, compute_);
  return why == nullptr || core_->fail(BRAID_LIBRARY_ERROR, std::string("the extern kernel failed: ") + why);
}

bool Instance::transfers(int index, int peer) const {
  return in_group(index) && core_->groups_.position(index) != peer;
}
int Instance::rank() const { return core_->groups_.rank(); }
ncclComm_t Instance::group(int index) const { return core_->groups_.comm(index); }
device::PeerGroup Instance::peers(int index) const { return core_->segment_.peers(core_->groups_, index); }

namespace {

// The message of the last create that failed on this thread.
std::string& reported() {
  thread_local std::string message;
  return message;
}
BraidStatus report(BraidStatus status, const char* function, const char* why) noexcept {
  try {
    reported() = std::string(function) + ": " + why;
  } catch (...) {
    reported().clear();
  }
  return status;
}

InstanceCore& core(BraidCudaInstance* i) { return reinterpret_cast<Instance*>(i)->core(); }

// Returns the result of `call` on the core. The functions of the table throw nothing.
template <class Call>
BraidStatus guarded(BraidCudaInstance* i, const char* function, Call call) noexcept {
  if (i == nullptr) return report(BRAID_INVALID_ARGUMENT, function, "null instance");
  try {
    return call(core(i));
  } catch (const std::bad_alloc&) {
    return core(i).thrown(BRAID_OUT_OF_MEMORY, function, "out of host memory");
  } catch (...) {
    return core(i).thrown(BRAID_INTERNAL_ERROR, function, "unexpected exception");
  }
}

BraidStatus prepare(BraidCudaInstance* i, const int64_t* dims) {
  return guarded(i, "prepare", [&](InstanceCore& c) { return c.prepare(dims); });
}
BraidStatus run(BraidCudaInstance* i, const void* const* inputs, void* const* outputs, void* stream) {
  return guarded(i, "run",
                 [&](InstanceCore& c) { return c.run(inputs, outputs, static_cast<cudaStream_t>(stream)); });
}
BraidStatus status(BraidCudaInstance* i) {
  return guarded(i, "status", [](InstanceCore& c) { return c.status(); });
}
BraidStatus synchronize(BraidCudaInstance* i, int64_t timeout_ms) {
  return guarded(i, "synchronize", [&](InstanceCore& c) { return c.synchronize(timeout_ms); });
}
BraidStatus profile(BraidCudaInstance* i, BraidCudaNodeCost* costs) {
  return guarded(i, "profile", [&](InstanceCore& c) { return c.profile(costs); });
}
const char* last_error(const BraidCudaInstance* i) {
  return i == nullptr ? reported().c_str()
                      : reinterpret_cast<const Instance*>(i)->core().failure().message.c_str();
}
void destroy(BraidCudaInstance* i) { delete reinterpret_cast<Instance*>(i); }

}  // namespace

BraidStatus create_instance(const BraidCudaCreateInfo* info, BraidCudaInstance** out, Instance* (*make)()) {
  if (info == nullptr || out == nullptr) return report(BRAID_INVALID_ARGUMENT, "create", "null argument");
  *out = nullptr;
  try {
    std::unique_ptr<Instance> instance(make());
    if (!instance->core().set_up(*info)) {
      const Failure& failure = instance->core().failure();
      reported() = failure.message;
      return failure.status;
    }
    *out = reinterpret_cast<BraidCudaInstance*>(instance.release());
    return BRAID_OK;
  } catch (const std::bad_alloc&) {
    return report(BRAID_OUT_OF_MEMORY, "create", "out of host memory");
  } catch (...) {
    return report(BRAID_INTERNAL_ERROR, "create", "unexpected exception");
  }
}

void set_functions(BraidCudaProgram& table) {
  table.abi_version = BRAID_CUDA_ABI_VERSION;
  table.struct_size = sizeof(BraidCudaProgram);
  table.prepare = prepare;
  table.run = run;
  table.status = status;
  table.synchronize = synchronize;
  table.profile = profile;
  table.last_error = last_error;
  table.destroy = destroy;
}

}  // namespace braid::rt::cuda
