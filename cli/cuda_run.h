// One execution of a CUDA program: what all ranks are given, and memory for their results, which processes made by fork
// share with this one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/cuda_library.h"
#include "cli/execute.h"
#include "cli/shared_bytes.h"
#include "runtime/cuda_host.h"
#include "runtime/mapped_file.h"

namespace braid::cli {

class CudaRun {
 public:
  // Everything must outlive this object. UserErrors: BR0723 if the inputs are not the program's, BR0008.
  CudaRun(const ProgramFiles& files, const std::vector<std::vector<ir::Tensor>>& inputs,
          const ExecuteOptions& options);

  int ranks() const { return table_.ranks; }
  // What must be the same for all ranks.
  std::string subject() const;

  // All ranks, as threads of this process. UserError BR0007.
  void run_all() const;
  // One rank, in this process. Throws rt::ProgramErrors.
  void run_rank(const BraidCudaHostPeers& peers) const;

  RankResult result(int rank) const;

 private:
  struct Memory {
    std::vector<std::vector<std::byte>> inputs;  // those with capacities
    std::vector<std::unique_ptr<SharedBytes>> outputs;
    std::unique_ptr<SharedBytes> step_us;
    std::unique_ptr<SharedBytes> node_costs;  // of a profile: steps * node_count
    std::vector<const void*> in;
    std::vector<void*> out;
  };

  void check_inputs(const std::vector<ir::Tensor>& inputs, std::size_t rank) const;
  BraidCudaHostRank host_rank(std::size_t rank, const rt::MappedFile& weights) const;
  std::string run(BraidCudaHostRun& host, BraidStatus* status) const;
  BraidCudaNodeCost* node_costs(std::size_t rank) const;  // null without a profile
  std::size_t cost_count() const {
    return static_cast<std::size_t>(steps()) * static_cast<std::size_t>(table_.node_count);
  }
  int steps() const { return options_.warmup + options_.repeat; }

  const ProgramFiles& files_;
  const ExecuteOptions& options_;
  const rt::CudaLibrary library_;
  const BraidCudaProgram& table_;
  const ProgramInterface program_;
  std::vector<std::int64_t> dims_;
  std::vector<std::vector<std::int64_t>> input_sizes_, output_sizes_;
  std::vector<Memory> memory_;  // per rank
};

}  // namespace braid::cli
