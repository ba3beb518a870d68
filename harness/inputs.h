// Inputs of a program, read from files or drawn at random.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/interface.h"
#include "ir/tensor.h"

namespace braid::harness {

struct InputOptions {
  std::vector<std::string> files;       // NAME=FILE.npy, NAME@RANK=FILE.npy (also .pb)
  std::optional<std::uint64_t> random;  // seed; fills inputs without a file
  std::int64_t random_max =
      100;  // integers are drawn from [0, random_max), indices from [0, size of their axis)
};

struct GivenInputs {
  RankTensors ranks;                        // in the order of the program's inputs
  std::map<std::size_t, ir::Tensor> whole;  // of which ranks have parts, by input; unless parts were given
  std::vector<std::string> random;          // names of those that were drawn, on any rank
};

// `dims` are the dimensions for random inputs; files override them. Drawn inputs are whole, and given ones
// may be: every rank gets its part. UserErrors: BR0003 for a malformed option, BR0006 for a missing or
// unknown input, BR0723 for a type or size that no values of the dimensions make right. The step finds out
// whether sizes agree with each other.
GivenInputs make_inputs(const ProgramInterface& program, std::map<std::string, std::int64_t> dims,
                        const InputOptions& options);

// The name that differs from `word` in the fewest letters; empty if none is near.
std::string nearest(const std::string& word, const std::vector<std::string>& names);

// Seeds inputs that are drawn although no seed was given.
inline constexpr std::uint64_t kDefaultSeed = 1;

}  // namespace braid::harness
