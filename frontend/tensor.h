// Tensors whose bytes are known at compile time: initializers and Constant nodes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/dtype.h"
#include "ir/error.h"
#include "ir/graph.h"
#include "ir/known_tensor.h"

namespace onnx {
class TensorProto;
}

namespace braid::frontend {

class FileMap;

// The IR's type for an ONNX element type; nullopt if it has none (strings, complex numbers, 6-bit floats).
std::optional<ir::DType> dtype_of_onnx(int onnx_type);
int onnx_type_of(ir::DType dtype);
// ONNX's own name of an element type, for messages: "FLOAT8E4M3FN".
std::string onnx_type_name(int onnx_type);
inline constexpr char kSupportedTypes[] =
    "supported are float, double, float16, bfloat16, (u)int2 to (u)int64, float8, float4e2m1 and bool";

using Tensor = ir::KnownTensor;

// Element `index` of rank 0's data. Integers and bool are returned as such, floats of all widths as double.
std::int64_t integer_at(const Tensor& tensor, std::int64_t index);
double float_at(const Tensor& tensor, std::int64_t index);
ir::Literal literal_at(const Tensor& tensor, std::int64_t index);

// A tensor that owns its bytes.
Tensor integer_tensor(ir::DType dtype, std::vector<std::int64_t> sizes,
                      const std::vector<std::int64_t>& values);
Tensor float_tensor(std::vector<std::int64_t> sizes, const std::vector<float>& values);

// Number of elements times their size. UserError if a size is negative or the product overflows int64.
std::int64_t checked_bytes(const std::vector<std::int64_t>& sizes, ir::DType dtype, const ir::Location& at,
                           const std::string& name);

// Takes the bytes out of `proto` (raw_data is moved, not copied; external data is mapped through `files`).
// UserError if dtype, sizes and number of bytes disagree.
Tensor take_tensor(onnx::TensorProto& proto, FileMap& files, const ir::Location& at);

}  // namespace braid::frontend
