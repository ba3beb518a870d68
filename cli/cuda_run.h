// One execution of a CUDA program: the inputs of all ranks, and memory for their results, which processes
// made by fork share with this one.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "cli/cuda_library.h"
#include "cli/execute.h"
#include "cli/shared_bytes.h"
#include "runtime/cuda_host.h"
#include "runtime/mapped_file.h"
#include "runtime/program_shapes.h"

namespace braid::cli {

class CudaRun {
 public:
  // Everything must outlive this object. UserErrors: BR0008, BR0019.
  CudaRun(const ProgramFiles& files, const std::vector<std::vector<ir::Tensor>>& inputs,
          const ExecuteOptions& options);

  int ranks() const { return table_.ranks; }
  // Describes the data that must be the same for all ranks.
  std::string subject() const;

  // Call before starting ranks that would wait for each other. Throws the error of the first rank whose sizes
  // or inputs are wrong, an rt::ProgramError BR0723 or BR0724.
  void refuse() const;
  // All ranks, as threads of this process. If there are several: UserError BR0007.
  void run_all() const;
  // One rank, in this process. Throws rt::ProgramErrors: BR0723 if its inputs are not the program's, BR0724,
  // BR0725, BR0726; UserError BR0019.
  void run_rank(const BraidCudaHostPeers& peers) const;

  RankResult result(int rank) const;

 private:
  struct Memory {
    std::exception_ptr refused;  // the rank's sizes or inputs are wrong, and there is no memory
    std::vector<std::vector<std::byte>> inputs;  // those with capacities
    std::vector<std::unique_ptr<SharedBytes>> outputs;
    std::unique_ptr<SharedBytes> step_us;
    std::unique_ptr<SharedBytes> node_costs;  // of a profile: steps * node_count
    std::vector<const void*> in;
    std::vector<void*> out;
  };

  void check_rank(std::size_t rank);
  void make_memory(std::size_t rank, Memory& memory) const;
  BraidCudaHostRank host_rank(std::size_t rank, const rt::MappedFile& weights) const;
  std::string run(BraidCudaHostRun& host, BraidStatus* status) const;
  BraidCudaNodeCost* node_costs(std::size_t rank) const;  // null without a profile
  std::size_t cost_count() const {
    return static_cast<std::size_t>(steps()) * static_cast<std::size_t>(table_.node_count);
  }
  int steps() const { return options_.warmup + options_.repeat; }

  const ProgramFiles& files_;
  const ExecuteOptions& options_;
  const std::vector<std::vector<ir::Tensor>>& inputs_;  // per rank
  const rt::CudaLibrary library_;
  const BraidCudaProgram& table_;
  rt::ProgramShapes<BraidCudaProgram> shapes_;
  std::vector<std::int64_t> dims_;
  std::vector<Memory> memory_;  // per rank
};

}  // namespace braid::cli
