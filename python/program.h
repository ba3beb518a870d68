// A program that Python can run: a compiled one, or the interpreter with a schedule.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harness/session.h"
#include "ir/schedule.h"
#include "ir/tensor.h"
#include "runtime/program.h"

namespace braid::python {

struct TensorInfo {
  std::string name;
  rt::DType dtype = rt::DType::f32;
  bool written = false;                       // inputs: by a step
  int alias_of_input = -1;                    // outputs
  std::int64_t max_bytes = 0;                 // of compiled programs, at the upper bounds of all dims
  std::vector<std::int64_t> capacities = {};  // BraidTensorInfo::capacities; empty: dense
};

class Program : public std::enable_shared_from_this<Program> {
 public:
  virtual ~Program() = default;
  const std::string& manifest() const { return manifest_; }  // JSON
  const std::vector<TensorInfo>& inputs() const { return inputs_; }
  const std::vector<TensorInfo>& outputs() const { return outputs_; }
  // User errors: BR0003 for options that are not this target's; BR0011, BR0012 and BR0734 if this process is
  // not one of the program's ranks; BR0013 and BR0735 for a device or stream that is not there. Also
  // rt::ProgramErrors.
  virtual std::unique_ptr<harness::Session> open(const harness::SessionOptions& options) = 0;
  // Reads facts that only the library for that device has: bytes of inputs and outputs. Builds it if it is
  // missing.
  virtual void use_device(const std::string& /*device*/) {}

 protected:
  void read_manifest_of(const std::string& dir);
  void read_interface();  // from manifest_

  std::string manifest_;
  std::vector<TensorInfo> inputs_, outputs_;
};

// Loads the program in `dir`, and builds its library if it is missing; that of a CUDA program is built when a
// session chooses the device. User errors BR0008, BR0016; rt::ProgramErrors.
std::shared_ptr<Program> load_program(const std::string& dir);

// "gpu" or "emulated", as a CUDA program runs without being told, and why not on a GPU.
std::pair<std::string, std::string> default_device();

// Runs steps by the interpreter (ir/interpreter.h), in one process for all ranks.
class InterpretedProgram : public Program {
 public:
  InterpretedProgram(ir::Schedule schedule, const std::string& name);
  std::unique_ptr<harness::Session> open(const harness::SessionOptions& options) override;
  const ir::Schedule& schedule() const { return schedule_; }
  // All ranks at once.
  std::vector<std::vector<ir::Tensor>> run(const std::vector<std::vector<ir::Tensor>>& inputs) const;

 private:
  ir::Schedule schedule_;
};

// Copies a tensor in memory with these capacities; empty: dense.
ir::Tensor to_ir(const rt::TensorView& view, std::span<const std::int64_t> capacities = {});

}  // namespace braid::python
