// The interface to programs that run, one for CPU and CUDA programs. The command line and Python know no
// other.
//
//   files = find_program("out", DeviceChoice::automatic, "out")   the folder; a missing library is built
//   program = load_program(files)                                 load
//   results = execute(*program, inputs, options)                  prepare and run on all ranks, then release
//   session = program->open({})                                   one rank in this process, for steps on
//                                                                  the caller's memory
//
// Tensors: row-major, in the order of interface(). A run takes and returns dense tensors per rank; a session
// uses memory as large as the capacities of the program's table ask for.
// Ownership: inputs stay the caller's and must outlive the run. Libraries stay loaded until the process ends,
// so sessions and results may outlive the Program.
// Errors: rt::ProgramErrors BR0721 to BR0726 of a program or step, as of runtime/program.h, for both kinds;
// UserErrors of ranks that are processes or threads (BR0007), and of what was asked for.
// Threads: const functions may be called from any thread; a session or execution is used by one at a time.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "harness/execution.h"
#include "harness/interface.h"
#include "harness/program_files.h"
#include "harness/session.h"
#include "runtime/cuda_library.h"
#include "runtime/program_abi.h"

namespace braid::harness {

class Program {
 public:
  Program(ProgramFiles files, ProgramInterface interface)
      : files_(std::move(files)), interface_(std::move(interface)) {}
  virtual ~Program() = default;
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  const ProgramFiles& files() const { return files_; }
  const ProgramInterface& interface() const { return interface_; }
  bool is_cuda() const { return files_.abi == codegen::ProgramAbi::cuda; }
  // Kernels and communication steps, in order.
  virtual std::span<const BraidNode> nodes() const = 0;

  // One rank. Of a program of several ranks, options name the others. UserError BR0735 for a stream that is
  // not of the device.
  virtual std::unique_ptr<Session> open(const SessionOptions& options) const = 0;
  // All ranks. The program, inputs and options must outlive the result. UserErrors BR0008 and BR0019.
  virtual std::unique_ptr<Execution> prepare(const RankTensors& inputs,
                                             const ExecuteOptions& options) const = 0;

  // Each kind of program has one of these; the other is null.
  virtual const BraidProgram* host_table() const { return nullptr; }
  virtual const rt::CudaLibrary* cuda_library() const { return nullptr; }

 private:
  const ProgramFiles files_;
  const ProgramInterface interface_;
};

// Loads the library. rt::ProgramError BR0721 if it is not this program's.
std::shared_ptr<const Program> load_program(const ProgramFiles& files);

// Returns one result per rank, or only this process's result if mpirun, torchrun or Slurm started it as one
// of several (launched.h). UserErrors: BR0003 for options that are not for this program, BR0007 if one of
// several ranks fails; the ranks print why. A program with one rank throws its rt::ProgramError; a launched
// rank prints it and throws ReportedError. Findings of the emulated device's checkers (races, accesses out of
// bounds, poison) are errors too.
std::vector<RankResult> execute(const Program& program, const RankTensors& inputs,
                                const ExecuteOptions& options);

// Returns the number of threads with which a CPU rank computes, if `ranks_here` ranks run on this machine.
int threads_of_rank(int asked, int ranks_here);

std::int64_t median(std::vector<std::int64_t> values);

}  // namespace braid::harness
