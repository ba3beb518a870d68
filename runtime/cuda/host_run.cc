#include <atomic>
#include <barrier>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/cuda/api.h"
#include "runtime/cuda_host.h"
#include "runtime/dtype.h"

namespace {

// One rank: its resources and its progress.
class Rank {
 public:
  Rank(const BraidCudaHostRun& run, int rank) : run_(run), program_(*run.program), rank_(rank) {}
  ~Rank() {
    if (instance_ != nullptr) program_.destroy(instance_);
    for (void* memory : memory_) cudaFree(memory);
    for (const auto* events : {&begins_, &ends_}) {
      for (cudaEvent_t event : *events) cudaEventDestroy(event);
    }
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
    if (comm_ != nullptr) ncclCommDestroy(comm_);
  }

  bool make(const ncclUniqueId& id) {
    int devices = 0;
    return ok(cudaGetDeviceCount(&devices), "cudaGetDeviceCount") &&
           ok(cudaSetDevice(rank_ % devices), "cudaSetDevice") &&
           ok(ncclCommInitRank(&comm_, program_.ranks, id, rank_), "ncclCommInitRank") && create();
  }
  // After all ranks are there.
  bool run() { return copy_in() && steps() && copy_out(); }

  BraidStatus status() const { return status_; }
  const std::string& message() const { return message_; }

 private:
  bool ok(cudaError_t e, const char* call) {
    return e == cudaSuccess || fail(BRAID_LIBRARY_ERROR, std::string(call) + ": " + cudaGetErrorString(e));
  }
  bool ok(ncclResult_t e, const char* call) {
    return e == ncclSuccess || fail(BRAID_COMM_ERROR, std::string(call) + ": " + ncclGetErrorString(e));
  }
  bool ok(BraidStatus e) { return e == BRAID_OK || fail(e, program_.last_error(instance_)); }
  bool fail(BraidStatus status, const std::string& message) {
    status_ = status;
    message_ = "rank " + std::to_string(rank_) + ": " + message;
    return false;
  }

  bool create() {
    const BraidCudaHostRank& mine = run_.ranks[rank_];
    BraidCudaCreateInfo info = {};
    info.abi_version = BRAID_CUDA_ABI_VERSION;
    info.struct_size = sizeof(info);
    info.weights = run_.weights;
    info.weights_bytes = run_.weights_bytes;
    info.rank_weights = mine.rank_weights;
    info.rank_weights_bytes = mine.rank_weights_bytes;
    info.comm = comm_;
    info.progress = run_.progress;
    info.progress_user = run_.progress_user;
    return ok(program_.create(&info, &instance_)) && ok(program_.prepare(instance_, run_.dims)) &&
           ok(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  }

  // Bytes of every input, then of every output.
  std::vector<size_t> bytes() const {
    size_t count = 0;
    for (int k = 0; k < program_.input_count; ++k) count += static_cast<size_t>(program_.inputs[k].rank);
    for (int k = 0; k < program_.output_count; ++k) count += static_cast<size_t>(program_.outputs[k].rank);
    std::vector<int64_t> sizes(count + 1);
    program_.sizes(run_.dims, sizes.data());
    std::vector<size_t> out;
    size_t next = 0;
    const auto add = [&](const BraidTensorInfo& tensor) {
      size_t n = braid::rt::size_of(static_cast<braid::rt::DType>(tensor.dtype));
      for (int d = 0; d < tensor.rank; ++d) n *= static_cast<size_t>(sizes[next++]);
      out.push_back(n);
    };
    for (int k = 0; k < program_.input_count; ++k) add(program_.inputs[k]);
    for (int k = 0; k < program_.output_count; ++k) add(program_.outputs[k]);
    return out;
  }

  bool allocate(size_t bytes, void** out) {
    if (!ok(cudaMalloc(out, bytes > 0 ? bytes : 1), "cudaMalloc")) return false;
    memory_.push_back(*out);
    return true;
  }

  bool copy_in() {
    const std::vector<size_t> sizes = bytes();
    for (int k = 0; k < program_.input_count; ++k) {
      void* memory = nullptr;
      if (!allocate(sizes[static_cast<size_t>(k)], &memory)) return false;
      inputs_.push_back(memory);
      input_bytes_.push_back(sizes[static_cast<size_t>(k)]);
      if (!copy_input(k)) return false;
    }
    for (int k = 0; k < program_.output_count; ++k) {
      void* memory = nullptr;
      const int alias = program_.outputs[k].alias_of_input;
      if (alias >= 0) {
        memory = const_cast<void*>(inputs_[static_cast<size_t>(alias)]);
      } else if (!allocate(sizes[static_cast<size_t>(program_.input_count + k)], &memory)) {
        return false;
      }
      outputs_.push_back(memory);
    }
    // A program on its own stream is not ordered with this one.
    return run_.on_own_stream == 0 || ok(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  }

  bool copy_input(int k) {
    const auto at = static_cast<size_t>(k);
    return input_bytes_[at] == 0 ||
           ok(cudaMemcpyAsync(const_cast<void*>(inputs_[at]), run_.ranks[rank_].inputs[k], input_bytes_[at],
                              cudaMemcpyHostToDevice, stream_),
              "cudaMemcpyAsync");
  }

  // Restores what the previous step has overwritten.
  bool restore_inputs() {
    bool any = false;
    for (int k = 0; k < program_.input_count; ++k) {
      if (program_.inputs[k].written == 0) continue;
      if (!any && !ok(program_.synchronize(instance_, run_.timeout_ms))) return false;
      any = true;
      if (!copy_input(k)) return false;
    }
    return !any || ok(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  }

  bool steps() {
    const bool timed = run_.step_us != nullptr;
    void* stream = run_.on_own_stream != 0 && !timed ? nullptr : stream_;
    for (int s = 0; s < run_.steps; ++s) {
      if (s > 0 && !restore_inputs()) return false;
      const auto k = static_cast<size_t>(s % kTimedAtOnce);
      if (timed && k == 0 && !read_times(s - kTimedAtOnce, kTimedAtOnce)) return false;
      if (timed && !record(begins_, k)) return false;
      if (!ok(program_.run(instance_, inputs_.data(), outputs_.data(), stream))) return false;
      if (timed && !record(ends_, k)) return false;
    }
    if (!ok(program_.synchronize(instance_, run_.timeout_ms))) return false;
    const int rest = run_.steps > 0 ? (run_.steps - 1) % kTimedAtOnce + 1 : 0;
    return !timed || read_times(run_.steps - rest, rest);
  }

  bool record(std::vector<cudaEvent_t>& events, size_t k) {
    if (k == events.size()) {
      events.push_back(nullptr);
      if (!ok(cudaEventCreate(&events[k]), "cudaEventCreate")) return false;
    }
    return ok(cudaEventRecord(events[k], stream_), "cudaEventRecord");
  }

  // Reads the times of the last `count` steps, which began with step `first`; a negative one: none.
  bool read_times(int first, int count) {
    if (first < 0 || count == 0) return true;
    if (!ok(program_.synchronize(instance_, run_.timeout_ms))) return false;
    for (int k = 0; k < count; ++k) {
      const auto at = static_cast<size_t>(k);
      float ms = 0;
      if (!ok(cudaEventSynchronize(ends_[at]), "cudaEventSynchronize") ||
          !ok(cudaEventElapsedTime(&ms, begins_[at], ends_[at]), "cudaEventElapsedTime"))
        return false;
      run_.step_us[rank_ * run_.steps + first + k] = 1e3 * static_cast<double>(ms);
    }
    return true;
  }

  bool copy_out() {
    const std::vector<size_t> sizes = bytes();
    for (int k = 0; k < program_.output_count; ++k) {
      const size_t n = sizes[static_cast<size_t>(program_.input_count + k)];
      if (n == 0) continue;
      if (!ok(cudaMemcpyAsync(run_.ranks[rank_].outputs[k], outputs_[static_cast<size_t>(k)], n,
                              cudaMemcpyDeviceToHost, stream_),
              "cudaMemcpyAsync")) {
        return false;
      }
    }
    return ok(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  }

  static constexpr int kTimedAtOnce = 256;

  const BraidCudaHostRun& run_;
  const BraidCudaProgram& program_;
  const int rank_;
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  BraidCudaInstance* instance_ = nullptr;
  std::vector<void*> memory_;
  std::vector<const void*> inputs_;
  std::vector<size_t> input_bytes_;
  std::vector<void*> outputs_;
  std::vector<cudaEvent_t> begins_, ends_;  // of the latest steps
  BraidStatus status_ = BRAID_OK;
  std::string message_;
};

}  // namespace

extern "C" BraidStatus braid_cuda_host_run(const BraidCudaHostRun* run, char* message,
                                           uint64_t message_bytes) {
  const auto report = [&](BraidStatus status, const std::string& text) {
    if (message != nullptr && message_bytes > 0) std::snprintf(message, message_bytes, "%s", text.c_str());
    return status;
  };
  if (run == nullptr || run->struct_size != sizeof(BraidCudaHostRun) || run->program == nullptr) {
    return report(BRAID_INVALID_ARGUMENT, "braid_cuda_host_run: made for another version of the interface");
  }
  ncclUniqueId id;
  if (const ncclResult_t e = ncclGetUniqueId(&id); e != ncclSuccess)
    return report(BRAID_COMM_ERROR, ncclGetErrorString(e));
  // Each rank tears down in its own thread: destroying a communicator waits for the others.
  std::vector<BraidStatus> statuses(static_cast<size_t>(run->program->ranks), BRAID_OK);
  std::vector<std::string> messages(statuses.size());
  std::vector<std::thread> threads;
  std::barrier all_made(run->program->ranks);
  std::atomic<bool> any_failed = false;
  for (int r = 0; r < run->program->ranks; ++r) {
    threads.emplace_back([&, r] {
      Rank rank(*run, r);
      if (!rank.make(id)) any_failed = true;
      all_made.arrive_and_wait();  // a rank that cannot run must not be waited for in a step
      if (!any_failed) rank.run();
      statuses[static_cast<size_t>(r)] = rank.status();
      messages[static_cast<size_t>(r)] = rank.message();
    });
  }
  for (std::thread& thread : threads) thread.join();
  // A rank that says what is wrong with itself before those that miss it.
  for (const bool any : {false, true}) {
    for (size_t r = 0; r < statuses.size(); ++r) {
      if (statuses[r] != BRAID_OK && (any || statuses[r] != BRAID_COMM_ERROR))
        return report(statuses[r], messages[r]);
    }
  }
  return report(BRAID_OK, "");
}
