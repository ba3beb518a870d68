// Makes a bundle's case of a program and sizes: describes how to generate weights and inputs, and computes
// the program's expected results with the interpreter.
#pragma once

#include <functional>
#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "bench/gpu/case_file.h"
#include "codegen/cuda/emit.h"

namespace braid::test {

using Sizes = std::map<std::string, std::int64_t>;  // by dimension

struct GeneratedWeight {
  ir::DType dtype;
  std::string kind;  // of gpu_bundle::Piece
  std::int64_t parameter = 0;
  std::uint64_t seed = 0;  // of rank 0; the next ones follow
};

struct BundleProgram {
  ir::Schedule schedule;
  codegen::cuda::CudaProgram emitted;
  std::string kind, dtype;
  double tolerance = 0;
  std::map<ir::StorageId, GeneratedWeight> weights;  // all other constants are stored
  // The arithmetic of what was compiled (model_flops.h); absent where nothing is timed.
  std::function<double(const Sizes&)> flops = {};
};

// The function of a graph that no pass has changed. Keeps the graph, but for the bytes of its constants.
std::function<double(const Sizes&)> flops_of(const ir::Schedule& model);

// Replaces the large constants that look like trained weights (many different finite numbers) by generated
// ones of the same magnitude and sign. Tables and masks stay.
std::map<ir::StorageId, GeneratedWeight> generate_weights(ir::Graph& graph);

// Returns sizes within the bounds that the guards accept: small ones, and a larger one for the dimension with
// the largest bound. Empty if none are found.
std::vector<Sizes> sizes_to_check(const ir::Graph& graph);

// Returns the tolerance of the least exact element type of any buffer; 0 for integers.
double loosest_type(const ir::Graph& graph);
// Returns the float type of the first output that has one.
std::string float_type(const ir::Graph& graph);

// Appends data that cannot be generated to `data`. Without `checked` the case has no expected outputs, only
// the work that it does, and its inputs have no checksum.
gpu_bundle::Case bundle_case(const BundleProgram& program, const Sizes& sizes, bool checked,
                             std::ostream& data);

}  // namespace braid::test
