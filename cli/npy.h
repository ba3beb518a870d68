// NumPy's .npy files (format versions 1 to 3, little endian, C order): how tensors come in and go out.
// Source: numpy.lib.format.
#pragma once

#include <string>

#include "ir/tensor.h"

namespace braid::cli {

// UserError BR0005 for what is no readable .npy file, naming the file.
ir::Tensor read_npy(const std::string& path);
// bf16 has no NumPy type and is written as float32. UserError BR0010 when the file cannot be written.
void write_npy(const std::string& path, const ir::Tensor& tensor);

}  // namespace braid::cli
