#include <algorithm>

#include "runtime/cuda/core.h"
#include "runtime/cuda_variables.h"

namespace braid::rt::cuda {

namespace {

constexpr int kReductionBytes = 2048;  // of shared memory, which kernels declare themselves

}  // namespace

InstanceCore::InstanceCore(Instance& program, const BraidCudaProgram& table, const Instance::Layout& layout)
    : Reporter(last_),
      program_(program),
      table_(table),
      layout_(layout),
      groups_(table, others_, last_),
      segment_(table, layout_, last_),
      products_(table, last_),
      watch_(last_),
      profile_(last_) {}

bool InstanceCore::set_up(const BraidCudaCreateInfo& info) {
  if (info.abi_version != BRAID_CUDA_ABI_VERSION || info.struct_size != sizeof(BraidCudaCreateInfo)) {
    return fail(BRAID_INVALID_ARGUMENT, "create: made for another version of the interface");
  }
  BRAID_TRY(cudaGetDevice(&device_));
  if (!read_options(info) || !make_streams() || !make_flag()) return false;
  const bool peers = table_.ranks > 1 || layout_.collectives;
  if (peers) {
    if (info.comm == nullptr) return fail(BRAID_INVALID_ARGUMENT, "create: the program needs a communicator");
    if (!groups_.join(static_cast<ncclComm_t>(info.comm), timeout_ms_)) return lost_peer();
  }
  // A rank may fail here by itself. Then the others must not wait for it in the collectives that follow, so
  // all agree first.
  const bool has_all = check_device() && make_memory() && upload(info, false) && upload(info, true) &&
                       program_.set_up_kernels() && (!peers || watch_.make(timeout_ms_));
  if (!groups_.all_agree(has_all, host_flag_, program_.error_flag_, program_.compute_)) return lost_peer();
  if (!groups_.make() || !segment_.register_with(groups_, program_.compute_)) return lost_peer();
  // A rank that is done may destroy its instance at once, and with it the window whose address others still
  // ask for.
  if (layout_.peer_groups != nullptr &&
      !groups_.all_agree(true, host_flag_, program_.error_flag_, program_.compute_))
    return lost_peer();
  BRAID_TRY(cudaMemsetAsync(program_.error_flag_, 0, sizeof(int), program_.compute_));
  *host_flag_ = 0;
  BRAID_TRY(cudaStreamSynchronize(program_.compute_));
  program_.plan_ = {.buffers = layout_.buffers,
                    .buffer_count = layout_.buffer_count,
                    .arena = program_.arena_,
                    .segment = program_.segment_,
                    .segment_bytes = static_cast<int64_t>(table_.comm_bytes),
                    .weights = program_.weights_,
                    .rank_weights = program_.rank_weights_,
                    .error_flag = program_.error_flag_,
                    .abandoned = segment_.abandoned()};
  return true;
}

bool InstanceCore::read_options(const BraidCudaCreateInfo& info) {
  int64_t timeout = 600'000, graphs = 1, tune = 0;
  const auto read = [&](const NumberVariable& variable, int64_t* out) {
    const std::string wrong = read_variable(variable, out);
    return wrong.empty() || fail(BRAID_INVALID_ARGUMENT, "create: " + wrong);
  };
  // Products read kTune when they are made.
  if (!read(kTimeout, &timeout) || !read(kGraphs, &graphs) || !read(kTune, &tune)) return false;
  timeout_ms_ = info.timeout_ms == 0 ? timeout : info.timeout_ms;
  graphs_ = info.graphs == 0 ? graphs == 1 : info.graphs > 0;
  others_ = OtherRanks(info);
  return true;
}

bool InstanceCore::check_device() {
  int driver = 0, runtime = 0, major = 0, minor = 0, processors = 0, shared = 0;
  BRAID_TRY(cudaDriverGetVersion(&driver));
  BRAID_TRY(cudaRuntimeGetVersion(&runtime));
  const auto version = [](int v) { return std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10); };
  if (driver / 1000 < runtime / 1000) {
    return fail(BRAID_LIBRARY_ERROR, "create: the driver supports CUDA " + version(driver) +
                                         ", but the program was built with " + version(runtime) +
                                         ": install a later driver");
  }
  BRAID_TRY(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device_));
  BRAID_TRY(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device_));
  const int oldest = layout_.oldest_architecture;
  if (major * 100 + minor * 10 < oldest) {
    return fail(BRAID_LIBRARY_ERROR, "create: the GPU is sm_" + std::to_string(major * 10 + minor) +
                                         ", but the program was built for sm_" + std::to_string(oldest / 10) +
                                         " and later");
  }
  BRAID_TRY(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device_));
  processors = std::max(processors, 1);
  program_.max_grid_ = int64_t{32} * processors;
  program_.most_spilling_ = int64_t{2} * processors;  // each as many threads as a block may have for a row
  BRAID_TRY(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device_));
  program_.most_shared_ = shared - kReductionBytes;
  return true;
}

bool InstanceCore::make_streams() {
  int low = 0, high = 0;
  BRAID_TRY(cudaDeviceGetStreamPriorityRange(&low, &high));
  // Communication has the higher priority: its few blocks must not wait for the many of a kernel.
  BRAID_TRY(cudaStreamCreateWithPriority(&program_.compute_, cudaStreamNonBlocking, low));
  BRAID_TRY(cudaStreamCreateWithPriority(&program_.communication_, cudaStreamNonBlocking, high));
  events_.assign(static_cast<size_t>(layout_.events), nullptr);
  for (cudaEvent_t& event : events_) BRAID_TRY(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  for (cudaEvent_t* event : {&fork_, &join_, &caller_}) {
    BRAID_TRY(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
  }
  return true;
}

bool InstanceCore::make_flag() {
  if (cudaMalloc(reinterpret_cast<void**>(&program_.error_flag_), sizeof(int)) != cudaSuccess)
    return no_memory(table_, "flags", sizeof(int));
  BRAID_TRY(cudaHostAlloc(reinterpret_cast<void**>(&host_flag_), sizeof(int), cudaHostAllocDefault));
  return true;
}

bool InstanceCore::make_memory() {
  if (!segment_.allocate(program_.compute_)) return false;
  program_.segment_ = segment_.memory();
  if (table_.arena_bytes > 0 &&
      cudaMalloc(reinterpret_cast<void**>(&program_.arena_), table_.arena_bytes) != cudaSuccess)
    return no_memory(table_, "activations", table_.arena_bytes);
  return true;
}

bool InstanceCore::upload(const BraidCudaCreateInfo& info, bool of_rank) {
  const void* file = of_rank ? info.rank_weights : info.weights;
  const uint64_t bytes = of_rank ? info.rank_weights_bytes : info.weights_bytes;
  const uint64_t expected = of_rank ? table_.rank_weights_bytes : table_.weights_bytes;
  if (expected == 0) return true;
  const std::string what = std::string("create: ") + (of_rank ? "weights of this rank" : "weights.bin");
  if (file == nullptr || bytes != expected) {
    return fail(BRAID_INVALID_ARGUMENT, what + " has " + std::to_string(bytes) +
                                            " bytes, but the program needs " + std::to_string(expected));
  }
  WeightFileHeader head;
  if (!read_weight_header(file, bytes, &head))
    return fail(BRAID_INVALID_ARGUMENT, what + " is not a weight file of this version");
  if (head.compilation_id != table_.compilation_id)
    return fail(BRAID_INVALID_ARGUMENT, what + " belongs to another program");
  if (head.rank >= 0 && groups_.joined() && head.rank != groups_.rank()) {
    return fail(BRAID_INVALID_ARGUMENT, what + " is for rank " + std::to_string(head.rank) +
                                            ", this is rank " + std::to_string(groups_.rank()));
  }
  UploadProgress progress;
  if (info.progress != nullptr) {
    progress = [&info](uint64_t done, uint64_t total) { info.progress(info.progress_user, done, total); };
  }
  cudaError_t error = cudaSuccess;
  const std::shared_ptr<DeviceWeights> weights =
      DeviceWeights::of(file, head, program_.compute_, progress, &error);
  if (error == cudaErrorMemoryAllocation)
    return no_memory(table_, of_rank ? "weights of this rank" : "weights", bytes);
  BRAID_TRY(error);
  if (weights == nullptr)
    return fail(BRAID_INVALID_ARGUMENT, what + " is damaged: its contents have changed since compilation");
  (of_rank ? program_.rank_weights_ : program_.weights_) = weights->memory();
  weights_.push_back(weights);
  return true;
}

}  // namespace braid::rt::cuda
