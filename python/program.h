// A program that Python can run: a compiled one, or the interpreter with a schedule.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/schedule.h"
#include "ir/tensor.h"
#include "runtime/program.h"

namespace braid::python {

struct TensorInfo {
  std::string name;
  rt::DType dtype = rt::DType::f32;
  bool written = false;        // inputs: by a step
  int alias_of_input = -1;     // outputs
  std::int64_t max_bytes = 0;  // of compiled programs for the CPU, at the upper bounds of all dims
};

// One rank, ready to run steps. Used by one thread at a time.
class Runner {
 public:
  virtual ~Runner() = default;
  virtual int rank() const = 0;
  // Prepares for these inputs, so that output_shape() knows.
  virtual void prepare(std::span<const rt::TensorView> inputs) = 0;
  virtual std::span<const std::int64_t> output_shape(std::size_t index) const = 0;
  virtual void run(std::span<const rt::TensorView> inputs, std::span<const rt::TensorView> outputs) = 0;
};

class Program : public std::enable_shared_from_this<Program> {
 public:
  virtual ~Program() = default;
  const std::string& manifest() const { return manifest_; }  // JSON
  const std::vector<TensorInfo>& inputs() const { return inputs_; }
  const std::vector<TensorInfo>& outputs() const { return outputs_; }
  // `threads`: 0 for the default, cores / ranks on this machine. User errors BR0011, BR0012 and BR0734 if this
  // process is not one of the program's ranks; rt::ProgramErrors.
  virtual std::unique_ptr<Runner> open(int threads) = 0;

 protected:
  void read_interface();  // from manifest_

  std::string manifest_;
  std::vector<TensorInfo> inputs_, outputs_;
};

// The program in `dir`, whose library is built if it is missing. User errors BR0008, BR0016, BR0734 for a program that is
// not for the CPU; rt::ProgramErrors.
std::shared_ptr<Program> load_program(const std::string& dir);

// Runs steps by the interpreter (ir/interpreter.h), in one process for all ranks.
class InterpretedProgram : public Program {
 public:
  InterpretedProgram(ir::Schedule schedule, const std::string& name);
  std::unique_ptr<Runner> open(int threads) override;
  const ir::Schedule& schedule() const { return schedule_; }
  // All ranks at once.
  std::vector<std::vector<ir::Tensor>> run(const std::vector<std::vector<ir::Tensor>>& inputs) const;

 private:
  ir::Schedule schedule_;
};

ir::Tensor to_ir(const rt::TensorView& view);
rt::DType to_runtime(ir::DType dtype);

}  // namespace braid::python
