// NumPy's .npz files: archives of .npy files, compressed or not. Without libzip both functions are BR0017.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ir/tensor.h"

namespace braid::harness {

using NamedTensors = std::vector<std::pair<std::string, ir::Tensor>>;

// In the archive's order. UserErrors BR0001 and BR0005.
NamedTensors read_npz(const std::string& path);
// As numpy.savez does, uncompressed. UserError BR0010.
void write_npz(const std::string& path, const NamedTensors& tensors);

}  // namespace braid::harness
