// The inputs and outputs of a program, for every target: the facts of its library's table, and those that
// only its manifest has.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/parts.h"
#include "ir/expr.h"
#include "ir/tensor.h"
#include "runtime/cuda_abi.h"
#include "runtime/dtype.h"
#include "runtime/program_abi.h"

namespace braid::harness {

using RankTensors = std::vector<std::vector<ir::Tensor>>;  // per rank, in the order of inputs or outputs

// Element types of the compiler and of the runtime, which have the same names.
ir::DType to_ir(rt::DType dtype);
inline ir::DType to_ir(BraidDType dtype) { return to_ir(static_cast<rt::DType>(dtype)); }
rt::DType to_runtime(ir::DType dtype);

// An input as the program declares it. A size is a constant, the name of a dimension, or -1 for any other
// expression.
struct InputSpec {
  struct Size {
    std::int64_t constant = -1;
    std::string dim;
  };
  std::string name;
  ir::DType dtype = ir::DType::f32;
  std::vector<Size> sizes;
  std::int64_t max_bytes = 0;
  std::string index_below = {};  // an index: the size, over the program's dimensions, that it must stay below
  std::optional<TensorPart> part = {};  // what a rank has of the plain model's input
};

struct ProgramInterface {
  struct Dim {
    std::string name;
    std::int64_t min = 0, max = 0;
  };
  struct Output {
    std::string name;
    int rank = 0;
    std::int64_t max_bytes = 0;
    std::optional<TensorPart> part = {};  // what a rank has of the plain model's output
  };
  int ranks = 1;
  std::vector<Dim> dims;
  std::vector<InputSpec> inputs;
  std::vector<Output> outputs;
};

// `dir` holds the manifest.
ProgramInterface interface_of(const BraidProgram& table, const std::string& dir);
ProgramInterface interface_of(const BraidCudaProgram& table, const std::string& dir);

// A name for each output that is a file's name as well; if two become one, the later one gets a number.
std::vector<std::string> output_names(const ProgramInterface& program);

// Sizes for random inputs: the user's values, otherwise the upper bounds.
std::map<std::string, std::int64_t> dim_values(const ProgramInterface& program,
                                               const std::map<std::string, ir::Bounds>& given);

}  // namespace braid::harness
