#include "harness/cuda_session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>

#include "ir/error.h"
#include "ir/error_numbers.h"
#include "runtime/capacity.h"
#include "runtime/comm/control_bootstrap.h"
#include "runtime/comm/control_peers.h"
#include "runtime/comm/settings.h"
#include "runtime/program_shapes.h"

namespace braid::harness {
namespace {

rt::MappedFile map_file(const ProgramFiles& files, const std::string& name, std::uint64_t bytes) {
  return bytes == 0 ? rt::MappedFile() : rt::MappedFile((std::filesystem::path(files.dir) / name).string());
}

std::size_t bytes_of(const rt::TensorView& view) {
  std::size_t bytes = rt::size_of(view.dtype);
  for (std::int64_t size : view.shape) bytes *= static_cast<std::size_t>(size);
  return bytes;
}

// Device memory for a tensor that the caller has in host memory; grows as it is needed.
class Staging {
 public:
  void* of(std::size_t bytes, const std::shared_ptr<const TensorDevice>& device) {
    if (memory_ == nullptr || bytes > bytes_) {
      memory_.reset();
      memory_ = TensorDevice::allocate(device, bytes, nullptr);
      bytes_ = bytes;
    }
    return memory_.get();
  }

 private:
  std::shared_ptr<void> memory_;
  std::size_t bytes_ = 0;
};

class CudaSession : public Session {
 public:
  CudaSession(const ProgramFiles& files, const rt::CudaLibrary& library, const SessionOptions& options)
      : library_(library),
        table_(library_.table()),
        calls_(library_.session_calls()),
        emulated_(files.emulated),
        host_(options.host),
        waits_(options.stream == kNoStream),
        owner_(::getpid()),
        shapes_(table_),
        wanted_(static_cast<std::size_t>(table_.dim_count)),
        input_staging_(static_cast<std::size_t>(table_.input_count)),
        output_staging_(static_cast<std::size_t>(table_.output_count)),
        in_(input_staging_.size()),
        out_(output_staging_.size()) {
    if (table_.ranks > 1) {
      if (!options.environment)
        throw rt::ProgramError(rt::kWrongRanks,
                               "a rank of several needs the environment that names the others");
      join(*options.environment);
    }
    open(files, options);
    void* event = nullptr;
    if (!waits_) {
      event = calls_.make_event(number_);
      if (event == nullptr) {
        calls_.close(session_);
        throw rt::ProgramError(rt::kStepFailed, "no memory for an event of the device");
      }
    }
    device_ = std::make_shared<TensorDevice>(calls_, number_, event);
  }

  ~CudaSession() override {
    if (owner_ != ::getpid()) return;  // a fork has none of the device
    calls_.close(session_);
    if (emulated_) (void)library_.take_findings();  // those of a step were its error
  }

  int rank() const override { return rank_; }
  Places places() const override {
    return {.cuda = number_,
            .host = host_,
            .stream = static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(calls_.stream(session_)))};
  }
  std::shared_ptr<const TensorDevice> device() const override { return device_; }

  void prepare(std::span<const rt::TensorView> inputs) override {
    check_owner();
    shapes_.find_dims(inputs, wanted_);
    if (shapes_.are(wanted_)) return;
    good(calls_.prepare(session_, wanted_.data()));
    shapes_.set(wanted_);
  }
  std::span<const std::int64_t> output_shape(std::size_t index) const override {
    return shapes_.output(index);
  }

  void follow(std::int64_t stream) override {
    check_owner();
    if (calls_.follow(session_, reinterpret_cast<void*>(stream)) != BRAID_OK)
      ir::user_error(errors::kWrongStream, {}, calls_.last_error(session_),
                     "pass a stream of the session's device");
  }

  void run(const Step& step) override {
    prepare(step.inputs);
    for (std::size_t k = 0; k < step.inputs.size(); ++k) shapes_.check_input(k, step.inputs[k]);
    for (std::size_t k = 0; k < step.outputs.size(); ++k) check_output(k, step);
    bool host = false;
    for (std::size_t k = 0; k < step.inputs.size(); ++k)
      in_[k] = place_input(k, step.inputs[k], step.inputs_on_device[k] != 0, host);
    for (std::size_t k = 0; k < step.outputs.size(); ++k)
      out_[k] = place_output(k, step.outputs[k], step.outputs_on_device[k] != 0);
    good(calls_.run(session_, in_.data(), out_.data(), device_->event()));
    // Copies back the inputs in host memory that the step has written.
    for (std::size_t k = 0; k < step.inputs.size(); ++k) {
      if (table_.inputs[k].written != 0 && step.inputs_on_device[k] == 0)
        host |= copy(table_.inputs[k], step.inputs[k].shape, const_cast<void*>(step.inputs[k].data), in_[k],
                     BRAID_TO_HOST);
    }
    for (std::size_t k = 0; k < step.outputs.size(); ++k) {
      const bool grown = table_.outputs[k].capacities != nullptr;
      if ((table_.outputs[k].alias_of_input < 0 || grown) && step.outputs_on_device[k] == 0)
        host |= copy(table_.outputs[k], step.outputs[k].shape, step.outputs[k].data, out_[k], BRAID_TO_HOST);
    }
    if (waits_ || host) {
      good(calls_.wait(session_));
      refuse_findings();
    } else {
      good(calls_.status(session_));
    }
  }

 private:
  // Meets the other ranks.
  void join(const rt::RankEnvironment& environment) {
    const std::string subject =
        fmt::format("a session of program '{}' (compilation {:016x})", table_.name, table_.compilation_id);
    if (const rt::Status joined = rt::join_control_from_environment(environment, subject, &control_);
        !joined.ok())
      throw rt::ProgramError(rt::kCommFailed, joined.message);
    peers_ = rt::control_peers(*control_.channel, environment.local_rank);
    rank_ = environment.rank;
  }

  void open(const ProgramFiles& files, const SessionOptions& options) {
    const rt::MappedFile common = map_weights(files, table_.weights_bytes);
    const rt::MappedFile own = map_rank_weights(files, rank_, table_.rank_weights_bytes);
    BraidCudaSessionInfo info{};
    info.struct_size = sizeof info;
    info.program = &table_;
    info.weights = common.bytes().data();
    info.weights_bytes = common.bytes().size();
    info.rank_weights = own.bytes().data();
    info.rank_weights_bytes = own.bytes().size();
    info.device = -1;
    if (options.device.starts_with("gpu:"))
      std::from_chars(options.device.data() + 4, options.device.data() + options.device.size(), info.device);
    else if (table_.ranks == 1)
      info.device = 0;
    if (!waits_) {
      info.stream = reinterpret_cast<void*>(options.stream == 0 ? kLegacyStream : options.stream);
      check_stream(info.device >= 0 ? info.device : peers_.local_rank, info.stream);
    }
    info.timeout_ms = -1;
    if (table_.ranks > 1) {
      info.peers = &peers_;
      if (const rt::Status known = rt::timeout_in_force({}, &info.timeout_ms); !known.ok())
        throw rt::ProgramError(rt::kCommFailed, known.message);
    }
    char message[8192] = "";
    const BraidStatus status = calls_.open(&info, &session_, message, sizeof message);
    if (status != BRAID_OK) {
      throw cuda_error(
          status, rt::kCannotOpen,
          fmt::format("program '{}': {}", table_.name, with_findings(message, library_.take_findings())));
    }
    number_ = calls_.device(session_);
  }

  void check_stream(int device, void* stream) const {
    if (calls_.check_stream(device, stream) == 0) return;
    ir::user_error(errors::kWrongStream, {},
                   fmt::format("stream {} is not one of CUDA device {}",
                               reinterpret_cast<std::uintptr_t>(stream), device),
                   "pass the number of a stream of that device that still exists, or leave stream= out");
  }

  void check_owner() const {
    if (owner_ == ::getpid()) return;
    ir::user_error(errors::kClosed, {}, "the session belongs to the process from which this one was forked",
                   "call program.session() in this process, or start it with another method than fork");
  }

  void good(BraidStatus status) {
    if (status == BRAID_OK) return;
    throw cuda_error(status, rt::kWrongInput,
                     fmt::format("program '{}': {}", table_.name,
                                 with_findings(calls_.last_error(session_), library_.take_findings())));
  }

  // Throws the findings of the emulated device's checkers as an error of the step.
  void refuse_findings() {
    if (!emulated_) return;
    if (const std::string findings = library_.take_findings(); !findings.empty())
      throw rt::ProgramError(rt::kStepFailed, fmt::format("program '{}': {}", table_.name, findings));
  }

  void check_output(std::size_t k, const Step& step) const {
    shapes_.check_output(k, step.outputs[k]);
    const int alias = table_.outputs[k].alias_of_input;
    if (alias < 0 || step.outputs[k].data == step.inputs[static_cast<std::size_t>(alias)].data) return;
    throw rt::ProgramError(
        rt::kWrongInput,
        fmt::format("output '{}' must be the memory of input '{}', which it was declared to be",
                    table_.outputs[k].name, table_.inputs[alias].name));
  }

  // Returns true: the host must wait for it.
  bool copy(void* to, const void* from, std::size_t bytes, BraidCudaCopy kind) {
    if (bytes > 0) good(calls_.copy(session_, to, from, bytes, kind));
    return bytes > 0;
  }

  // The elements alone: the caller's memory may end with them.
  bool copy(const BraidTensorInfo& tensor, std::span<const std::int64_t> shape, void* to, const void* from,
            BraidCudaCopy kind) {
    bool any = false;
    rt::for_each_piece(rt::room_of(rt::capacities_of(tensor), shape), shape,
                       rt::size_of(static_cast<rt::DType>(tensor.dtype)),
                       [&](std::size_t at, std::size_t, std::size_t bytes) {
                         any |= copy(static_cast<std::byte*>(to) + at,
                                     static_cast<const std::byte*>(from) + at, bytes, kind);
                       });
    return any;
  }

  const void* place_input(std::size_t k, const rt::TensorView& view, bool on_device, bool& host) {
    const std::size_t bytes = rt::memory_bytes(table_.inputs[k], view.shape);
    if (on_device && bytes > 0 && view.data != nullptr) return view.data;
    void* memory = input_staging_[k].of(bytes, device_);  // tensors without elements need an address, too
    host |= copy(table_.inputs[k], view.shape, memory, view.data, BRAID_TO_DEVICE);
    return memory;
  }
  void* place_output(std::size_t k, const rt::TensorView& view, bool on_device) {
    if (const int alias = table_.outputs[k].alias_of_input; alias >= 0)
      return const_cast<void*>(in_[static_cast<std::size_t>(alias)]);
    const std::size_t bytes = bytes_of(view);
    return on_device && bytes > 0 ? view.data : output_staging_[k].of(bytes, device_);
  }

  const rt::CudaLibrary library_;
  const BraidCudaProgram& table_;
  const BraidCudaSessionCalls& calls_;
  const bool emulated_;
  const bool host_;   // takes and gives host memory
  const bool waits_;  // for each step: there is no stream of the caller
  const pid_t owner_;
  rt::ProgramShapes<BraidCudaProgram> shapes_;
  std::vector<std::int64_t> wanted_;
  rt::Control control_;
  BraidCudaHostPeers peers_{};
  int rank_ = 0, number_ = 0;
  BraidCudaSession* session_ = nullptr;
  std::shared_ptr<TensorDevice> device_;
  std::vector<Staging> input_staging_, output_staging_;
  std::vector<const void*> in_;
  std::vector<void*> out_;
};

}  // namespace

std::unique_ptr<Session> open_cuda(const ProgramFiles& files, const rt::CudaLibrary& library,
                                   const SessionOptions& options) {
  return std::make_unique<CudaSession>(files, library, options);
}

rt::ProgramError cuda_error(BraidStatus status, int invalid_argument, const std::string& message) {
  const int code = status == BRAID_COMM_ERROR         ? rt::kCommFailed
                   : status == BRAID_BAD_SIZE         ? rt::kWrongSize
                   : status == BRAID_INVALID_ARGUMENT ? invalid_argument
                                                      : rt::kStepFailed;
  return {code, message};
}

std::string with_findings(const char* message, const std::string& findings) {
  return fmt::format("{}{}{}", message, findings.empty() || *message == '\0' ? "" : "\n", findings);
}

rt::MappedFile map_weights(const ProgramFiles& files, std::uint64_t bytes) {
  return map_file(files, "weights.bin", bytes);
}

rt::MappedFile map_rank_weights(const ProgramFiles& files, int rank, std::uint64_t bytes) {
  return map_file(files, fmt::format("weights.rank{}.bin", rank), bytes);
}

}  // namespace braid::harness
