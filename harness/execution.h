// One run of a program on all its ranks: their inputs, and memory for results that processes made by fork
// share with this one.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "harness/interface.h"
#include "harness/program_files.h"
#include "runtime/comm/bootstrap.h"
#include "runtime/comm/paced_link.h"
#include "runtime/cuda_abi.h"
#include "runtime/program_abi.h"

namespace braid::harness {

// The kind of the ranks that are started here. automatic: processes; but threads on the emulated device,
// where races between ranks are then found.
enum class RanksAs { automatic, processes, threads };

struct ExecuteOptions {
  DeviceChoice device = DeviceChoice::automatic;
  RanksAs ranks_as = RanksAs::automatic;
  int omp_threads = 0;                      // per rank; 0: cores / ranks, at least 1
  int warmup = 0;                           // steps before the measured ones
  int repeat = 1;                           // measured steps, at least 1
  bool record = false;                      // CPU: record the times of all nodes in the measured steps
  bool profile = false;                     // CUDA: what each node costs; every step then runs alone
  std::optional<rt::LinkPacing> link = {};  // CPU, several ranks: communicate over a paced link
  // CUDA: told how many bytes of the weights have reached the devices, by any thread of rank 0's process.
  // They are equal when there is no more to tell, also after an error.
  std::function<void(std::uint64_t done, std::uint64_t total)> uploaded = {};
};

struct RankResult {
  int rank = 0;
  std::vector<ir::Tensor> outputs;    // of the last step
  std::vector<std::int64_t> step_ns;  // one per measured step; empty if there is nothing to measure: emulated
  // If they were recorded: one row per measured step, of BraidProgram::node_count + 1 entries.
  std::vector<std::vector<BraidNodeTimes>> node_times;
  // With ExecuteOptions::profile: one row per measured step, of BraidCudaProgram::node_count entries.
  std::vector<std::vector<BraidCudaNodeCost>> node_costs;
};

class Execution {
 public:
  virtual ~Execution() = default;
  // Call before starting ranks that would wait for each other. Throws the error of the first rank whose sizes
  // or inputs are wrong, an rt::ProgramError BR0723 or BR0724, if it can be known before they start.
  virtual void refuse() const {}
  // Runs this process as the rank that a launcher made of it, and returns its number. UserError BR0007 if the
  // ranks do not meet; ReportedError if a step fails.
  virtual int run_launched(const rt::RankEnvironment& environment) = 0;
  // Run all ranks, in this process or in one each. Several: UserError BR0007; one: its rt::ProgramErrors.
  virtual void run_here() = 0;
  virtual void run_processes() = 0;
  virtual RankResult result(int rank) const = 0;
};

}  // namespace braid::harness
