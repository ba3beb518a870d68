// Runs a compiled program on its ranks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/gpu.h"
#include "cli/inputs.h"
#include "cli/model_options.h"
#include "cli/parts.h"
#include "cli/ranks_as.h"
#include "driver/compile.h"
#include "explain/measured_timeline.h"
#include "ir/tensor.h"
#include "runtime/comm/paced_link.h"
#include "runtime/cuda_abi.h"
#include "runtime/program_abi.h"

namespace braid::cli {

// A compiled program: a folder with manifest.json, written by `braid compile`.
struct ProgramFiles {
  std::string dir;
  std::string shown;  // in messages: what the user gave, which is a model where the folder is a temporary one
  std::string name;
  codegen::ProgramAbi abi = codegen::ProgramAbi::host;
  std::string library;    // built if missing
  bool emulated = false;  // CUDA: for the emulated device, not for GPUs
  std::uint64_t id = 0;   // of the compilation; must match the library's
};
bool is_program_dir(const std::string& path);
// UserErrors: BR0008 if the folder holds no program, BR0016 if a compilation into it was interrupted, BR0003
// and BR0013 if the program cannot run on the chosen device.
ProgramFiles find_program(const std::string& dir, DeviceChoice device, const std::string& shown);
// BR0003 if the choice is not for this kind of program, before one is compiled.
void check_device(DeviceChoice device, bool cuda, const std::string& shown);

// The facts that a program's table contains for every target.
struct ProgramInterface {
  struct Dim {
    std::string name;
    std::int64_t min = 0, max = 0;
  };
  struct Output {
    std::string name;
    ir::DType dtype = ir::DType::f32;
    int rank = 0;
    std::int64_t max_bytes = 0;
    int alias_of_input = -1;
    std::optional<TensorPart> part;  // what a rank has of the plain model's output
  };
  int ranks = 1;
  std::vector<Dim> dims;
  std::vector<InputSpec> inputs;
  std::vector<Output> outputs;
  // Computes every size of every input, then of every output, for values of `dims`.
  void (*sizes)(const std::int64_t* dims, std::int64_t* out) = nullptr;
};
// Loads the library, which stays loaded.
ProgramInterface interface_of(const ProgramFiles& program);

struct ExecuteOptions {
  DeviceChoice device = DeviceChoice::automatic;
  RanksAs ranks_as = RanksAs::automatic;
  int omp_threads = 0;                 // per rank; 0: cores / ranks, at least 1
  int warmup = 0;                      // steps before the measured ones
  int repeat = 1;                      // measured steps, at least 1
  bool record = false;                 // CPU: record the times of all nodes in the measured steps
  bool profile = false;                // CUDA: what each node costs; every step then runs alone
  std::optional<rt::LinkPacing> link;  // CPU, several ranks: communicate over a paced link

  void add(CLI::App& command);        // --threads --device --ranks-as-threads --ranks-as-processes
  void add_steps(CLI::App& command);  // --repeat --warmup
};

// Returns the number of threads with which a CPU rank computes, if `ranks_here` ranks run on this machine.
int threads_of_rank(const ExecuteOptions& options, int ranks_here);

// A line about the device for what is printed with times; empty on the CPU.
std::string device_line(const ProgramFiles& program);

struct RankResult {
  int rank = 0;
  std::vector<ir::Tensor> outputs;    // of the last step
  std::vector<std::int64_t> step_ns;  // one per measured step; empty if there is nothing to measure: emulated
  // If they were recorded: one row per measured step, of BraidProgram::node_count + 1 entries.
  std::vector<std::vector<BraidNodeTimes>> node_times;
  // With ExecuteOptions::profile: one row per measured step, of BraidCudaProgram::node_count entries.
  std::vector<std::vector<BraidCudaNodeCost>> node_costs;
};

// Returns one result per rank, or only this process's result if mpirun, torchrun or Slurm started it as one
// of several (launched.h). UserError BR0007 if one of several ranks fails; the ranks print why. A program
// with one rank throws its rt::ProgramError; a launched rank prints it and throws ReportedError.
std::vector<RankResult> execute(const ProgramFiles& program,
                                const std::vector<std::vector<ir::Tensor>>& inputs,
                                const ExecuteOptions& options);
// The two implementations, between which execute() chooses.
std::vector<RankResult> execute_cpu(const ProgramFiles& program,
                                    const std::vector<std::vector<ir::Tensor>>& inputs,
                                    const ExecuteOptions& options);
// Runs on GPUs, a rank on each, or on the emulated device. Ranks in processes of their own are connected by a
// control channel (runtime/comm/control_channel.h). Findings of the emulated device's checkers (races,
// accesses out of bounds, poison) are errors too.
std::vector<RankResult> execute_cuda(const ProgramFiles& program,
                                     const std::vector<std::vector<ir::Tensor>>& inputs,
                                     const ExecuteOptions& options);

// The value of --link for the ranks of a program.
std::optional<rt::LinkPacing> link_pacing(const ModelOptions& options);
// The ranks' recorded times together with the program's table of nodes.
explain::MeasuredTimeline measured_timeline(const ProgramFiles& program,
                                            const std::vector<RankResult>& results,
                                            const ExecuteOptions& options);

ir::DType to_ir(BraidDType dtype);
rt::DType to_rt(ir::DType dtype);
// Sizes for random inputs: the user's values, otherwise the upper bounds.
std::map<std::string, std::int64_t> dim_values(const ProgramInterface& program,
                                               const std::map<std::string, ir::Bounds>& given);
std::int64_t median(std::vector<std::int64_t> values);

}  // namespace braid::cli
