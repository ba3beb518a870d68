#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/cuda/api.h"
#include "runtime/cuda/host_session.h"
#include "runtime/cuda/host_threads.h"
#include "runtime/cuda_host.h"
#include "runtime/dtype.h"

namespace {

// One rank: its memory and its steps.
class Rank : public braid::rt::cuda::HostSession {
 public:
  Rank(const BraidCudaHostRun& run, const BraidCudaHostPeers& peers)
      : HostSession(options_of(run, peers)), run_(run), mine_(run.peers != nullptr ? 0 : rank_) {}
  ~Rank() {
    release_instance();
    if (abandoned()) return;
    for (void* memory : memory_) cudaFree(memory);
    for (const auto* events : {&begins_, &ends_}) {
      for (cudaEvent_t event : *events) cudaEventDestroy(event);
    }
  }

  // One that is done keeps its communicator until the others are, too.
  bool run() {
    return open(true, run_.dims) && copy_in() && steps() && copy_out() &&
           all_at(kFinished, time_of(run_.steps + 1));
  }

 private:
  static Options options_of(const BraidCudaHostRun& run, const BraidCudaHostPeers& peers) {
    const BraidCudaHostRank& mine = run.ranks[run.peers != nullptr ? 0 : peers.rank];
    Options options;
    options.program = run.program;
    options.weights = run.weights;
    options.weights_bytes = run.weights_bytes;
    options.rank_weights = mine.rank_weights;
    options.rank_weights_bytes = mine.rank_weights_bytes;
    options.peers = peers;
    options.own_process = run.peers != nullptr;
    options.timeout_ms = run.timeout_ms;
    options.progress = run.progress;
    options.progress_user = run.progress_user;
    return options;
  }

  // Bytes of the memory of every input, then of every output.
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
      for (int d = 0; d < tensor.rank; ++d, ++next)
        n *= static_cast<size_t>(tensor.capacities != nullptr ? tensor.capacities[d] : sizes[next]);
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
    const auto inputs = static_cast<size_t>(program_.input_count);
    input_bytes_.assign(sizes.begin(), sizes.begin() + program_.input_count);
    output_bytes_.assign(sizes.begin() + program_.input_count, sizes.end());
    for (size_t k = 0; k < inputs; ++k) {
      void* memory = nullptr;
      if (!allocate(input_bytes_[k], &memory)) return false;
      inputs_.push_back(memory);
      if (run_.reuses_buffers != 0 && !allocate(input_bytes_[k], &memory)) return false;
      given_.push_back(memory);
      if (!copy_input(static_cast<int>(k))) return false;
    }
    for (size_t k = 0; k < output_bytes_.size(); ++k) {
      void* memory = nullptr;
      const int alias = program_.outputs[k].alias_of_input;
      if (alias >= 0) {
        memory = const_cast<void*>(inputs_[static_cast<size_t>(alias)]);
      } else if (!allocate(output_bytes_[k], &memory)) {
        return false;
      }
      outputs_.push_back(memory);
      if (run_.reuses_buffers != 0 && !allocate(output_bytes_[k], &memory)) return false;
      results_.push_back(memory);
    }
    // A program on its own stream is not ordered with this one.
    return run_.on_own_stream == 0 || ok(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  }

  bool copy_input(int k) {
    const auto at = static_cast<size_t>(k);
    return copy(given_[at], run_.ranks[mine_].inputs[k], input_bytes_[at], cudaMemcpyHostToDevice);
  }

  bool copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    return ok(copy_on_stream(to, from, bytes, kind), "cudaMemcpyAsync");
  }

  bool overwrite(const void* memory, size_t bytes) {
    return bytes == 0 ||
           ok(cudaMemsetAsync(const_cast<void*>(memory), kOverwritten, bytes, stream_), "cudaMemsetAsync");
  }

  // Work of a caller's stream before a step, and after it.
  bool hand_over() {
    for (size_t k = 0; k < inputs_.size(); ++k) {
      if (!copy(const_cast<void*>(inputs_[k]), given_[k], input_bytes_[k], cudaMemcpyDeviceToDevice))
        return false;
    }
    for (size_t k = 0; k < outputs_.size(); ++k) {
      if (program_.outputs[k].alias_of_input < 0 && !overwrite(outputs_[k], output_bytes_[k])) return false;
    }
    return true;
  }
  bool take_back() {
    for (size_t k = 0; k < outputs_.size(); ++k) {
      if (!copy(results_[k], outputs_[k], output_bytes_[k], cudaMemcpyDeviceToDevice)) return false;
    }
    for (size_t k = 0; k < inputs_.size(); ++k) {
      if (!overwrite(inputs_[k], input_bytes_[k])) return false;
    }
    return true;
  }

  // Restores what the previous step has overwritten.
  bool restore_inputs() {
    bool any = false;
    for (int k = 0; k < program_.input_count; ++k) {
      if (program_.inputs[k].written == 0) continue;
      if (!any && !await()) return false;
      any = true;
      if (!copy_input(k)) return false;
    }
    return !any || ok(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  }

  bool step_on(cudaStream_t stream) { return ok(begin_step(inputs_.data(), outputs_.data(), stream)); }

  // One after the other.
  bool profiled_steps(cudaStream_t stream) {
    for (int s = 0; s < run_.steps; ++s) {
      const int64_t step = int64_t{mine_} * run_.steps + s;
      if (s > 0 && !restore_inputs()) return false;
      running_ = true;
      if (!ok(program_.profile(instance_, run_.node_costs + step * program_.node_count)) ||
          !step_on(stream) || !await())
        return false;
    }
    return true;
  }

  bool steps() {
    const bool timed = run_.step_us != nullptr, reuses = run_.reuses_buffers != 0;
    const cudaStream_t stream = run_.on_own_stream != 0 && !timed ? nullptr : stream_;
    if (run_.node_costs != nullptr) return profiled_steps(stream);
    for (int s = 0; s < run_.steps; ++s) {
      if (reuses ? !hand_over() : s > 0 && !restore_inputs()) return false;
      const auto k = static_cast<size_t>(s % kTimedAtOnce);
      if (timed && k == 0 && !read_times(s - kTimedAtOnce, kTimedAtOnce)) return false;
      if (timed && !record(begins_, k)) return false;
      if (!step_on(stream)) return false;
      if (timed && !record(ends_, k)) return false;
      if (reuses && !take_back()) return false;
    }
    if (!await(run_.steps)) return false;
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
    if (!await(count)) return false;
    for (int k = 0; k < count; ++k) {
      const auto at = static_cast<size_t>(k);
      float ms = 0;
      if (!ok(cudaEventSynchronize(ends_[at]), "cudaEventSynchronize") ||
          !ok(cudaEventElapsedTime(&ms, begins_[at], ends_[at]), "cudaEventElapsedTime"))
        return false;
      run_.step_us[mine_ * run_.steps + first + k] = 1e3 * static_cast<double>(ms);
    }
    return true;
  }

  bool copy_out() {
    for (size_t k = 0; k < results_.size(); ++k) {
      if (!copy(run_.ranks[mine_].outputs[k], results_[k], output_bytes_[k], cudaMemcpyDeviceToHost))
        return false;
    }
    return ok(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  }

  static constexpr int kTimedAtOnce = 256;
  static constexpr int kOverwritten = 0xa5;  // each byte

  const BraidCudaHostRun& run_;
  const int mine_;  // in the arrays of the run
  std::vector<void*> memory_;
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
  std::vector<size_t> input_bytes_, output_bytes_;
  std::vector<void*> given_, results_;      // copies, if a step's buffers are reused; otherwise the same
  std::vector<cudaEvent_t> begins_, ends_;  // of the latest steps
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
  if (run->peers != nullptr) {
    Rank rank(*run, *run->peers);
    rank.run();
    return report(rank.status(), rank.message());
  }
  // Each rank tears down in its own thread: destroying a communicator waits for the others.
  struct Ending {
    BraidStatus status = BRAID_OK;
    bool by_itself = true;
    std::string message;
  };
  std::vector<Ending> endings(static_cast<size_t>(run->program->ranks));
  braid::rt::cuda::HostThreads all(run->program->ranks);
  std::vector<std::thread> threads;
  for (int r = 0; r < run->program->ranks; ++r) {
    threads.emplace_back([&, r] {
      Rank rank(*run, all.peers(r));
      rank.run();
      endings[static_cast<size_t>(r)] = {rank.status(), rank.by_itself(), rank.message()};
    });
  }
  for (std::thread& thread : threads) thread.join();
  // A rank that reports its own failure comes before the ranks that miss it.
  const auto first = [&](auto&& counts) -> const Ending* {
    const auto found = std::find_if(endings.begin(), endings.end(), [&](const Ending& ending) {
      return ending.status != BRAID_OK && counts(ending);
    });
    return found == endings.end() ? nullptr : &*found;
  };
  const Ending* ending = first([](const Ending& e) { return e.by_itself && e.status != BRAID_COMM_ERROR; });
  if (ending == nullptr) ending = first([](const Ending& e) { return e.by_itself; });
  if (ending == nullptr) ending = first([](const Ending&) { return true; });
  if (ending != nullptr) return report(ending->status, ending->message);
  return report(BRAID_OK, "");
}
