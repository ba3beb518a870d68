// Results to compare with: ONNX Runtime's, or stored ones.
#pragma once

#include <string>
#include <vector>

#include "frontend/import.h"
#include "harness/interface.h"
#include "ir/tensor.h"

namespace braid::harness {

// Runs the model with the Python of $BRAID_PYTHON, else python3, which needs onnxruntime. `fixed` are the
// inputs that are constants of the program. UserErrors: BR0018 if that fails, BR0003 for several ranks.
RankTensors onnxruntime_outputs(const std::string& model, const frontend::FixedInputs& fixed,
                                const ProgramInterface& table, const RankTensors& inputs);
// The same for a table whose outputs from `first_inner` on are inner values of the model. A copy of the model
// has them as outputs. Only those in `wanted` (by output) are asked for; the others are empty tensors.
RankTensors onnxruntime_outputs(const std::string& model, const frontend::FixedInputs& fixed,
                                const ProgramInterface& table, const RankTensors& inputs,
                                const std::vector<bool>& wanted, std::size_t first_inner);

// The outputs that `braid run -o` has written into a folder or an .npz file. A program of several ranks may
// also read those of a program of one rank, the same for each of its ranks. UserErrors BR0001 and BR0005.
struct StoredOutputs {
  RankTensors outputs;
  bool plain = false;  // of a program of one rank, for one of several
};
StoredOutputs stored_outputs(const std::string& path, const ProgramInterface& table);

}  // namespace braid::harness
