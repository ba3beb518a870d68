// Inputs of a program, read from files or drawn at random.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/parts.h"
#include "driver/model_options.h"
#include "ir/tensor.h"

namespace CLI {
class App;
}  // namespace CLI

namespace braid::cli {

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
  std::string
      index_below;  // an index: the size, over the program's dimensions, that it must stay below; else ""
  std::optional<TensorPart> part;  // what a rank has of the plain model's input
};

struct InputOptions {
  std::vector<std::string> files;       // NAME=FILE.npy, NAME@RANK=FILE.npy (also .pb)
  std::optional<std::uint64_t> random;  // seed; fills inputs without a file
  std::int64_t random_max =
      100;  // integers are drawn from [0, random_max), indices from [0, size of their axis)

  void add(CLI::App& command);
};

struct GivenInputs {
  std::vector<std::vector<ir::Tensor>> ranks;  // in the order of the program's inputs
  std::map<std::size_t, ir::Tensor> whole;     // of which ranks have parts, by input; unless parts were given
  std::vector<std::string> random;             // names of those that were drawn, on any rank
};

// `dims` are the dimensions for random inputs; files override them. Drawn inputs are whole, and given ones
// may be: every rank gets its part. UserErrors: BR0003 for a malformed option, BR0006 for a missing or
// unknown input.
GivenInputs make_inputs(const std::vector<InputSpec>& specs, int ranks,
                        std::map<std::string, std::int64_t> dims, const InputOptions& options);

struct ProgramInterface;
class Report;
// For a program; "inputs" of the JSON says what they are and which are random.
GivenInputs make_inputs(const ProgramInterface& table, const ModelOptions& model, const InputOptions& options,
                        Report& report);
// Draws missing inputs also without --random, and then says so on standard error.
inline constexpr std::uint64_t kDefaultSeed = 1;
GivenInputs make_inputs_or_draw(const ProgramInterface& table, const ModelOptions& model,
                                InputOptions options, Report& report);

}  // namespace braid::cli
