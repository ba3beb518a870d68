// Reads and writes NumPy's .npy files (format versions 1 to 3, little endian, C order). Source:
// numpy.lib.format.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/tensor.h"

namespace braid::harness {

// UserError BR0005, which names the file, if it is not a readable .npy file.
ir::Tensor read_npy(const std::string& path);
// bf16 has no NumPy type and is written as float32. UserError BR0010 if the file cannot be written.
void write_npy(const std::string& path, const ir::Tensor& tensor);

// "float32"; bf16 has none.
std::string numpy_name(ir::DType dtype);

// The same of a file's content; `path` is for messages. npz.h keeps such contents in an archive.
ir::Tensor parse_npy(const std::string& path, std::string_view content);
std::string npy_content(const ir::Tensor& tensor);

}  // namespace braid::harness
