// The C++ interface of a generated program: maps its weights, owns its memory, checks its arguments.
//
//   braid::rt::Program program = braid::rt::Program::open(braid_program_gpt2(), {.weights_dir = "out"});
//   program.prepare({1, 128});                  // or let run() find the dimensions from the inputs' shapes
//   program.run(inputs, outputs);               // allocates nothing
//
// Errors are ProgramErrors, with the number of docs/errors.md in the text. A Program may be used by one
// thread at a time; several may coexist. With several ranks, each rank opens its own Program and all run in
// step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/dtype.h"
#include "runtime/program_abi.h"

namespace braid::rt {

class ProgramError : public std::runtime_error {
 public:
  // "error BR0723: ..."
  ProgramError(int code, const std::string& message);
  int code() const { return code_; }

 private:
  int code_;
};

inline constexpr int kCannotOpen = 721;  // library, symbol or weights
inline constexpr int kWrongRanks = 722;  // world and program do not match
inline constexpr int kWrongInput = 723;  // count, dtype, rank or shape of a tensor
inline constexpr int kWrongSize = 724;   // a dimension out of bounds, or a violated guard
inline constexpr int kStepFailed = 725;  // an index out of range, or a failed library call
inline constexpr int kCommFailed = 726;  // a collective

// Row-major, dense. Does not own.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::f32;
  std::span<const int64_t> shape;
};

struct ProgramOptions {
  std::string
      weights_dir;  // holds weights.bin and weights.rank<r>.bin; open(path): the library's folder if empty
  World* world = nullptr;  // for programs of several ranks; must outlive the Program
  // For a program opened without a world: 0 for a program with one rank.
  int rank = 0;
};

class Program {
 public:
  static Program open(const BraidProgram* table, const ProgramOptions& options);
  // A library made by `braid compile`: DIR/<name>.so, entry braid_program_<name>.
  static Program open(const std::string& library, const ProgramOptions& options);
  ~Program();
  Program(Program&&) noexcept;
  Program& operator=(Program&&) noexcept;

  const BraidProgram& table() const;
  int input_index(std::string_view name) const;  // -1: there is none
  int output_index(std::string_view name) const;

  // Sets the actual dimensions, in the table's order, and makes what depends on them. The results are cached,
  // so switching back is cheap.
  void prepare(std::span<const int64_t> dims);
  // The dimensions that these inputs imply. A dimension that is no input's size keeps its value of the last
  // prepare, or its lower bound.
  std::vector<int64_t> dims_of(std::span<const TensorView> inputs) const;
  // For the prepared dimensions. An output whose sizes the data of a step decide (BraidDim::measured) is
  // given memory for its capacity, which is its output_shape. Its elements come first in it, row-major.
  std::span<const int64_t> input_shape(size_t index) const;
  std::span<const int64_t> output_shape(size_t index) const;
  // The sizes of an output after a run.
  std::span<const int64_t> result_shape(size_t index) const;

  // Runs one step: prepares for the inputs' shapes if they changed, checks everything, runs. Outputs must not
  // overlap inputs, except for declared aliases, which must be the same memory. Inputs that the table marks
  // as `written` have other contents afterwards.
  void run(std::span<const TensorView> inputs, std::span<const TensorView> outputs);

  // From now on each run records when its nodes (BraidProgram::nodes) began, on the monotonic clock. `times`
  // has one entry more than there are nodes; the last one is the end of the step. An empty span stops
  // recording.
  void record(std::span<BraidNodeTimes> times);

  // The planned memory, which never moves.
  std::span<const std::byte> arena() const;

 private:
  struct Impl;
  explicit Program(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The communication segment that each rank's world must have for this program.
WorldOptions world_options(const BraidProgram& table);
// Returns the table of a library, which is checked before it is opened (runtime/library_file.h) and stays
// loaded until the process ends. With a compilation id, the library must have been built by `braid compile`
// from that compilation. Throws ProgramError.
const BraidProgram* load_program(const std::string& library, uint64_t compilation_id = 0);

}  // namespace braid::rt
