// Runs a compiled program on its ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/inputs.h"
#include "ir/tensor.h"
#include "runtime/program.h"

namespace braid::cli {

// Where a compiled program lies: a folder with manifest.json that `braid compile` wrote.
struct ProgramFiles {
  std::string dir;
  std::string name;
  std::string library;  // DIR/<name>.so, built if it is not there
};
// UserError BR0008 where the folder holds no program.
ProgramFiles find_program(const std::string& dir);
bool is_program_dir(const std::string& path);

struct ExecuteOptions {
  bool threads_as_ranks = false;  // ranks as threads of one process instead of processes
  int omp_threads = 0;            // per rank; 0: cores / ranks, at least 1
  int warmup = 0;                 // steps before the measured ones
  int repeat = 1;                 // measured steps, at least 1
};

struct RankResult {
  std::vector<ir::Tensor> outputs;     // of the last step
  std::vector<std::int64_t> step_ns;   // one per measured step
};

// One result per rank. UserError BR0007 where a rank fails; the ranks print why.
std::vector<RankResult> execute(const ProgramFiles& program, const std::vector<std::vector<ir::Tensor>>& inputs,
                                const ExecuteOptions& options);

std::vector<InputSpec> input_specs(const BraidProgram& table);
std::vector<std::string> output_names(const BraidProgram& table);
ir::DType to_ir(BraidDType dtype);

std::int64_t median(std::vector<std::int64_t> values);

}  // namespace braid::cli
