// Runs a case on the emulated device and through the interpreter.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "ir/tensor.h"
#include "runtime/cuda_host.h"
#include "tests/codegen_cuda/cases.h"
#include "tests/emulated/support.h"

namespace braid::test {

struct RunOptions {
  int steps = 1;
  bool own_stream = false;
  bool integers = true;  // small integers as inputs, so that every order of additions is exact
  std::uint64_t seed = 1;
  std::string program;  // runs this one, with the weights and the expectation of the case
  // By input name, instead of random values; the same on all ranks.
  std::map<std::string, ir::Tensor> inputs;
  std::vector<std::vector<ir::Tensor>> all_inputs;  // if not empty: of every rank
};

struct CaseResult {
  BraidStatus status = BRAID_OK;
  std::string message;
  std::vector<std::vector<ir::Tensor>> outputs;   // per rank
  std::vector<std::vector<ir::Tensor>> expected;  // of the interpreter
};

// Random inputs, rank by rank.
std::vector<std::vector<ir::Tensor>> random_inputs(const ir::Graph& graph,
                                                   const std::map<std::string, std::int64_t>& dims,
                                                   const RunOptions& options);

CaseResult run_case(const std::string& name, const std::map<std::string, std::int64_t>& dims = {},
                    const RunOptions& options = {});

// The program of a case: it is part of this executable.
const BraidCudaProgram* program_of(const std::string& name);

// Returns the first difference between outputs and expectation; empty if there is none. Compares bits where
// `tolerance` is 0 (NaNs count as equal), else relative.
std::string difference(const CaseResult& result, double tolerance);
void expect_equal(const CaseResult& result, double tolerance);

class CudaCase : public EmulatedTest {};

}  // namespace braid::test
