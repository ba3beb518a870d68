// One rank of a program in this process, ready to run steps: of a compiled program, or of the interpreter.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "harness/tensor_device.h"
#include "runtime/comm/bootstrap.h"
#include "runtime/program.h"

namespace braid::harness {

inline constexpr std::int64_t kNoStream = -1;
inline constexpr std::int64_t kLegacyStream = 1;  // CUDA's default stream, of which DLPack says 1, PyTorch 0

// Which memory a session takes and gives.
struct Places {
  int cuda = -1;     // the CUDA device whose memory it takes; -1: of none
  bool host = true;  // host memory is taken; and given, as long as no device memory is asked for
  std::int64_t stream = kNoStream;  // on which device memory is used: DLPack's number
};

// Where a session runs, how, and with which other ranks.
struct SessionOptions {
  int threads = 0;                  // CPU; 0: the default, of launched ranks cores / ranks on this machine
  std::string device = {};          // CUDA: "emulated", "gpu" (this rank's), "gpu:N". Empty for others
  std::int64_t stream = kNoStream;  // CUDA: the caller's
  bool host = false;                // CUDA: take and give host memory beside the device's
  // This process as one of several ranks: the session joins the others, and leaves them when it ends.
  std::optional<rt::RankEnvironment> environment = {};
  rt::World* world = nullptr;  // CPU: ranks that have met already; must outlive the session
};

// The arguments of a step, in the order of the program's inputs and outputs.
struct Step {
  std::span<const rt::TensorView> inputs, outputs;
  // Per tensor: whether it is in the memory of the session's CUDA device. Not read by other sessions.
  std::span<const std::uint8_t> inputs_on_device = {}, outputs_on_device = {};
};

class Session {
 public:
  // Releases the rank: waits for what it has enqueued and, of several ranks, for the others.
  virtual ~Session() = default;
  virtual int rank() const = 0;
  virtual Places places() const { return {}; }
  // Whose memory it uses; null: this process's alone.
  virtual std::shared_ptr<const TensorDevice> device() const { return nullptr; }
  // Prepares for these inputs, so that output_shape() knows.
  virtual void prepare(std::span<const rt::TensorView> inputs) = 0;
  virtual std::span<const std::int64_t> output_shape(std::size_t index) const = 0;
  // After a run: differs where the data decide about sizes, of which output_shape() has the capacities.
  virtual std::span<const std::int64_t> result_shape(std::size_t index) const { return output_shape(index); }
  // Runs a step on the caller's memory. With a stream of the caller it may only be enqueued when this
  // returns.
  virtual void run(const Step& step) = 0;
  // The next step follows what the stream has been given so far.
  virtual void follow(std::int64_t /*stream*/) {}
  // CPU: later steps record their nodes' times, as rt::Program::record says.
  virtual void record(std::span<BraidNodeTimes> /*times*/) {}
};

}  // namespace braid::harness
