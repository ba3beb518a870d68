#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/cuda/api.h"
#include "runtime/cuda/host_comm.h"
#include "runtime/cuda/host_threads.h"
#include "runtime/cuda_host.h"
#include "runtime/dtype.h"

namespace {

// One rank: its resources and its progress.
class Rank {
 public:
  Rank(const BraidCudaHostRun& run, const BraidCudaHostPeers& peers)
      : run_(run),
        program_(*run.program),
        peers_(peers),
        rank_(peers.rank),
        mine_(run.peers != nullptr ? 0 : rank_) {}
  ~Rank() {
    if (instance_ != nullptr) program_.destroy(instance_);
    // What the device may still run uses the rest, and freeing it would wait for ever: it is left to the end of the process.
    if (run_.peers != nullptr && status_ != BRAID_OK && running_) {
      comm_.release(false, giving_up());
      return;
    }
    for (void* memory : memory_) cudaFree(memory);
    for (const auto* events : {&begins_, &ends_}) {
      for (cudaEvent_t event : *events) cudaEventDestroy(event);
    }
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
    comm_.release(status_ == BRAID_OK, giving_up());
  }

  // A rank that cannot begin must not be waited for in a step.
  // One that is done keeps its communicator until the others are, too.
  bool run() {
    return make() && all_at(1, run_.timeout_ms) && copy_in() && steps() && copy_out() &&
           all_at(kFinished, time_of(run_.steps + 1));
  }

  BraidStatus status() const { return status_; }
  const std::string& message() const { return message_; }
  bool by_itself() const { return !consequence_; }

 private:
  using Clock = std::chrono::steady_clock;

  bool ok(cudaError_t e, const char* call) {
    return e == cudaSuccess || fail(BRAID_LIBRARY_ERROR, std::string(call) + ": " + cudaGetErrorString(e));
  }
  bool ok(ncclResult_t e, const char* call) {
    return e == ncclSuccess || fail(BRAID_COMM_ERROR, std::string(call) + ": " + ncclGetErrorString(e));
  }
  bool ok(BraidStatus e) {
    if (e == BRAID_COMM_ERROR) return fail_together(program_.last_error(instance_));
    return e == BRAID_OK || fail(e, program_.last_error(instance_));
  }
  bool fail(BraidStatus status, const std::string& message, bool consequence = false) {
    status_ = status;
    consequence_ = consequence;
    message_ = run_.peers != nullptr ? message : "rank " + std::to_string(rank_) + ": " + message;
    peers_.failed(peers_.user, message.c_str(), consequence);
    return false;
  }
  // What may have failed because of another rank.
  bool fail_together(const std::string& message, bool consequence = false) {
    char text[kText] = "";
    const int found = peers_.missing(peers_.user, overdue(), text, sizeof text);
    const bool missing = found > 0;  // negative: the others wait for this rank
    const bool said = found == 0 || message.find(text) != std::string::npos;
    // What fails in `create` fails on all ranks because of the first.
    const bool after = instance_ == nullptr && peers_.lost(peers_.user) != 0;
    return fail(BRAID_COMM_ERROR, said ? message : message + ": " + text, consequence || missing || after);
  }

  // When to stop waiting for other ranks: one is lost, or the time is over, which begins now.
  std::function<bool()> giving_up() const {
    return [this, begin = Clock::now()] {
      return peers_.lost(peers_.user) != 0 ||
             (run_.timeout_ms >= 0 && Clock::now() - begin > std::chrono::milliseconds(run_.timeout_ms));
    };
  }

  bool make() {
    int devices = 0;
    return ok(cudaGetDeviceCount(&devices), "cudaGetDeviceCount") &&
           ok(cudaSetDevice(peers_.local_rank % devices), "cudaSetDevice") && make_comm() && create();
  }

  bool make_comm() {
    ncclUniqueId id = {};
    char text[kText] = "";
    if (rank_ == 0 && !ok(ncclGetUniqueId(&id), "ncclGetUniqueId")) return false;
    if (peers_.broadcast(peers_.user, &id, sizeof id, text, sizeof text) == 0)
      return fail(BRAID_COMM_ERROR, text, true);
    const ncclResult_t e = comm_.make(program_.ranks, id, rank_, giving_up());
    return e == ncclSuccess ||
           fail_together(std::string("the communicator cannot be made: ") +
                             (e == ncclInProgress ? "ranks are missing" : ncclGetErrorString(e)),
                         e == ncclInProgress);
  }

  bool all_at(uint64_t progress, int64_t timeout_ms) {
    char text[kText] = "";
    peers_.reached(peers_.user, progress);
    return peers_.await_all(peers_.user, progress, timeout_ms, text, sizeof text) != 0 ||
           fail(BRAID_COMM_ERROR, text, true);
  }

  // In milliseconds, how long this many steps may take together.
  int64_t time_of(int steps) const {
    constexpr int64_t kYearMs = 365LL * 24 * 3600 * 1000;  // as good as for ever, and may be added to a time
    const int64_t count = std::max(steps, 1);
    return run_.timeout_ms < 0 ? kYearMs : std::min(run_.timeout_ms, kYearMs / count) * count;
  }

  // From now on a wait is overdue after this time.
  void wait_for(int64_t ms) { question_ = Clock::now() + std::chrono::milliseconds(ms); }
  void wait_no_more() { question_ = Clock::time_point::max(); }
  bool overdue() const { return Clock::now() > question_; }

  // Waits for the latest `steps` steps. One that is overdue has failed if a rank is missing; otherwise all of them may
  // together take as long as that many. Looks are short, as a lost rank is known here before the step is overdue.
  bool await(int steps = 1) {
    wait_for(time_of(steps));
    for (;;) {
      const BraidStatus e = program_.synchronize(instance_, kLookMs);
      if (e == BRAID_OK) return running_ = false, wait_no_more(), true;
      if (program_.status(instance_) != BRAID_OK) return ok(e);  // otherwise it is only not done yet
      if (overdue())
        return fail_together("the step is not done after " + std::to_string(run_.timeout_ms) + " ms");
    }
  }

  // BraidCudaCreateInfo's: nobody is missing before a rank is lost or a wait is overdue.
  static int missing(void* user, int step_overdue, char* text, uint64_t bytes) {
    Rank& self = *static_cast<Rank*>(user);
    const BraidCudaHostPeers& peers = self.peers_;
    if (step_overdue != 0) self.question_ = Clock::time_point::min();
    const bool overdue = self.overdue();
    return overdue || lost(user) != 0 ? peers.missing(peers.user, overdue, text, bytes) : 0;
  }
  static void device_at(void* user, uint64_t step, uint64_t collectives) {
    const BraidCudaHostPeers& peers = static_cast<const Rank*>(user)->peers_;
    peers.device_at(peers.user, step, collectives);
  }
  static int lost(void* user) {
    const BraidCudaHostPeers& peers = static_cast<const Rank*>(user)->peers_;
    return peers.lost(peers.user);
  }

  bool create() {
    const BraidCudaHostRank& mine = run_.ranks[mine_];
    BraidCudaCreateInfo info = {};
    info.abi_version = BRAID_CUDA_ABI_VERSION;
    info.struct_size = sizeof(info);
    info.weights = run_.weights;
    info.weights_bytes = run_.weights_bytes;
    info.rank_weights = mine.rank_weights;
    info.rank_weights_bytes = mine.rank_weights_bytes;
    info.comm = comm_.get();
    info.progress = run_.progress;
    info.progress_user = run_.progress_user;
    info.missing = missing;
    info.lost = lost;
    info.device_at = device_at;
    info.missing_user = this;
    info.timeout_ms = run_.timeout_ms;
    wait_for(time_of(1));
    if (!ok(program_.create(&info, &instance_))) return false;
    wait_no_more();
    return ok(program_.prepare(instance_, run_.dims)) &&
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
           ok(cudaMemcpyAsync(const_cast<void*>(inputs_[at]), run_.ranks[mine_].inputs[k], input_bytes_[at],
                              cudaMemcpyHostToDevice, stream_),
              "cudaMemcpyAsync");
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

  // One after the other.
  bool profiled_steps(void* stream) {
    for (int s = 0; s < run_.steps; ++s) {
      const int64_t step = int64_t{mine_} * run_.steps + s;
      if (s > 0 && !restore_inputs()) return false;
      running_ = true;
      if (!ok(program_.profile(instance_, run_.node_costs + step * program_.node_count)) ||
          !ok(program_.run(instance_, inputs_.data(), outputs_.data(), stream)))
        return false;
      peers_.reached(peers_.user, static_cast<uint64_t>(s) + 2);
      if (!await()) return false;
    }
    return true;
  }

  bool steps() {
    const bool timed = run_.step_us != nullptr;
    void* stream = run_.on_own_stream != 0 && !timed ? nullptr : stream_;
    if (run_.node_costs != nullptr) return profiled_steps(stream);
    for (int s = 0; s < run_.steps; ++s) {
      if (s > 0 && !restore_inputs()) return false;
      const auto k = static_cast<size_t>(s % kTimedAtOnce);
      if (timed && k == 0 && !read_times(s - kTimedAtOnce, kTimedAtOnce)) return false;
      if (timed && !record(begins_, k)) return false;
      running_ = true;
      if (!ok(program_.run(instance_, inputs_.data(), outputs_.data(), stream))) return false;
      peers_.reached(peers_.user, static_cast<uint64_t>(s) + 2);
      if (timed && !record(ends_, k)) return false;
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
    const std::vector<size_t> sizes = bytes();
    for (int k = 0; k < program_.output_count; ++k) {
      const size_t n = sizes[static_cast<size_t>(program_.input_count + k)];
      if (n == 0) continue;
      if (!ok(cudaMemcpyAsync(run_.ranks[mine_].outputs[k], outputs_[static_cast<size_t>(k)], n,
                              cudaMemcpyDeviceToHost, stream_),
              "cudaMemcpyAsync")) {
        return false;
      }
    }
    return ok(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  }

  static constexpr int kTimedAtOnce = 256;
  static constexpr int kLookMs = 50;  // between two looks at the other ranks
  static constexpr size_t kText = 4096;
  static constexpr uint64_t kFinished = UINT64_MAX;  // progress

  const BraidCudaHostRun& run_;
  const BraidCudaProgram& program_;
  const BraidCudaHostPeers peers_;
  const int rank_, mine_;  // in the program, in the arrays of the run
  braid::rt::cuda::HostComm comm_;
  cudaStream_t stream_ = nullptr;
  BraidCudaInstance* instance_ = nullptr;
  std::vector<void*> memory_;
  std::vector<const void*> inputs_;
  std::vector<size_t> input_bytes_;
  std::vector<void*> outputs_;
  std::vector<cudaEvent_t> begins_, ends_;  // of the latest steps
  BraidStatus status_ = BRAID_OK;
  Clock::time_point question_ = Clock::time_point::max();  // from when on a wait asks who is missing
  bool running_ = false;                                   // steps that may not be done
  bool consequence_ = false;                               // of another rank's failure
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
  // A rank that says what is wrong with itself before those that miss it.
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
