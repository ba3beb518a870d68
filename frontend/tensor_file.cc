#include "frontend/tensor_file.h"

#include <onnx/onnx_pb.h>

#include <limits>

#include "frontend/external_data.h"
#include "frontend/tensor.h"
#include "ir/error_numbers.h"

namespace braid::frontend {

NamedTensor read_tensor_file(const std::string& path) {
  const auto file = MappedFile::open(path);
  onnx::TensorProto proto;
  constexpr auto kMost = static_cast<std::size_t>(std::numeric_limits<int>::max());
  if (file->bytes().empty() || file->bytes().size() > kMost ||
      !proto.ParseFromArray(file->bytes().data(), static_cast<int>(file->bytes().size()))) {
    ir::user_error(errors::kNotOnnx, {.file = path}, "this is not an ONNX TensorProto",
                   "store one TensorProto per file");
  }
  FileMap files(path);
  NamedTensor result{proto.name(), {}};
  const Tensor tensor = take_tensor(proto, files, {.file = path});
  const std::span<const std::byte> bytes = tensor.data.of_rank(0);
  // Interfaces of programs have bytes instead of storage types.
  result.tensor = {byte_type(tensor.dtype), tensor.sizes, {bytes.begin(), bytes.end()}};
  return result;
}

}  // namespace braid::frontend
