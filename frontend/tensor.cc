#include "frontend/tensor.h"

#include <onnx/onnx_pb.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "frontend/errors.h"
#include "frontend/external_data.h"

namespace braid::frontend {

using ir::DType;
using ir::Location;
using ir::user_error;
using onnx::TensorProto;

std::optional<DType> dtype_of_onnx(int onnx_type) {
  switch (onnx_type) {
    case TensorProto::FLOAT:
      return DType::f32;
    case TensorProto::DOUBLE:
      return DType::f64;
    case TensorProto::FLOAT16:
      return DType::f16;
    case TensorProto::BFLOAT16:
      return DType::bf16;
    case TensorProto::INT8:
      return DType::i8;
    case TensorProto::INT16:
      return DType::i16;
    case TensorProto::INT32:
      return DType::i32;
    case TensorProto::INT64:
      return DType::i64;
    case TensorProto::UINT8:
      return DType::u8;
    case TensorProto::UINT16:
      return DType::u16;
    case TensorProto::UINT32:
      return DType::u32;
    case TensorProto::UINT64:
      return DType::u64;
    case TensorProto::BOOL:
      return DType::boolean;
    default:
      return std::nullopt;
  }
}

int onnx_type_of(DType dtype) {
  for (int type = 0; type < 64; ++type) {
    if (dtype_of_onnx(type) == dtype) return type;
  }
  return TensorProto::UNDEFINED;
}

std::string onnx_type_name(int onnx_type) {
  if (!onnx::TensorProto_DataType_IsValid(onnx_type)) return fmt::format("type {}", onnx_type);
  return onnx::TensorProto_DataType_Name(static_cast<onnx::TensorProto_DataType>(onnx_type));
}

std::int64_t Tensor::count() const {
  std::int64_t n = 1;
  for (std::int64_t s : sizes) n *= s;
  return n;
}

namespace {

template <class T>
T read(const Tensor& tensor, std::int64_t index) {
  T value;
  std::memcpy(&value, tensor.data.of_rank(0).data() + index * static_cast<std::int64_t>(sizeof(T)),
              sizeof(T));
  return value;
}

double half_to_double(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const double mantissa = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 31) return mantissa == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

}  // namespace

std::int64_t integer_at(const Tensor& tensor, std::int64_t index) {
  switch (tensor.dtype) {
    case DType::i8:
      return read<std::int8_t>(tensor, index);
    case DType::i16:
      return read<std::int16_t>(tensor, index);
    case DType::i32:
      return read<std::int32_t>(tensor, index);
    case DType::i64:
      return read<std::int64_t>(tensor, index);
    case DType::u8:
      return read<std::uint8_t>(tensor, index);
    case DType::u16:
      return read<std::uint16_t>(tensor, index);
    case DType::u32:
      return read<std::uint32_t>(tensor, index);
    case DType::u64:
      return static_cast<std::int64_t>(read<std::uint64_t>(tensor, index));
    case DType::boolean:
      return read<std::uint8_t>(tensor, index) != 0;
    default:
      throw ir::InternalError(fmt::format("integer_at on {}", to_string(tensor.dtype)));
  }
}

double float_at(const Tensor& tensor, std::int64_t index) {
  switch (tensor.dtype) {
    case DType::f32:
      return read<float>(tensor, index);
    case DType::f64:
      return read<double>(tensor, index);
    case DType::f16:
      return half_to_double(read<std::uint16_t>(tensor, index));
    case DType::bf16:
      return std::bit_cast<float>(static_cast<std::uint32_t>(read<std::uint16_t>(tensor, index)) << 16);
    default:
      throw ir::InternalError(fmt::format("float_at on {}", to_string(tensor.dtype)));
  }
}

ir::Literal literal_at(const Tensor& tensor, std::int64_t index) {
  if (is_float(tensor.dtype)) return float_at(tensor, index);
  return integer_at(tensor, index);
}

namespace {

template <class T>
Tensor own(DType dtype, std::vector<std::int64_t> sizes, const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {dtype, std::move(sizes), ir::own_bytes({bytes.begin(), bytes.end()})};
}

template <class T, class Values>
std::vector<std::byte> convert(const Values& values) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(values.size()) * sizeof(T));
  std::size_t at = 0;
  for (const auto& v : values) {
    const T value = static_cast<T>(v);
    std::memcpy(bytes.data() + at, &value, sizeof(T));
    at += sizeof(T);
  }
  return bytes;
}

std::vector<std::byte> convert_integers(DType dtype, const auto& values) {
  switch (dtype) {
    case DType::i8:
      return convert<std::int8_t>(values);
    case DType::i16:
      return convert<std::int16_t>(values);
    case DType::i32:
      return convert<std::int32_t>(values);
    case DType::i64:
      return convert<std::int64_t>(values);
    case DType::u8:
      return convert<std::uint8_t>(values);
    case DType::f16:  // bit patterns
    case DType::bf16:
    case DType::u16:
      return convert<std::uint16_t>(values);
    case DType::u32:
      return convert<std::uint32_t>(values);
    case DType::u64:
      return convert<std::uint64_t>(values);
    case DType::boolean:
      return convert<std::uint8_t>(values);
    default:
      throw ir::InternalError(fmt::format("integers as {}", to_string(dtype)));
  }
}

// The typed field that ONNX prescribes for the dtype.
std::vector<std::byte> typed_bytes(const TensorProto& proto, DType dtype) {
  switch (dtype) {
    case DType::f32:
      return convert<float>(proto.float_data());
    case DType::f64:
      return convert<double>(proto.double_data());
    case DType::i64:
      return convert_integers(dtype, proto.int64_data());
    case DType::u32:
    case DType::u64:
      return convert_integers(dtype, proto.uint64_data());
    default:
      return convert_integers(dtype, proto.int32_data());
  }
}

}  // namespace

Tensor integer_tensor(DType dtype, std::vector<std::int64_t> sizes, const std::vector<std::int64_t>& values) {
  return {dtype, std::move(sizes), ir::own_bytes(convert_integers(dtype, values))};
}

Tensor float_tensor(std::vector<std::int64_t> sizes, const std::vector<float>& values) {
  return own(DType::f32, std::move(sizes), values);
}

std::int64_t checked_bytes(const std::vector<std::int64_t>& sizes, DType dtype, const Location& at,
                           const std::string& name) {
  std::int64_t bytes = ir::size_of(dtype);
  bool overflow = false;
  for (std::int64_t s : sizes) {
    if (s < 0) {
      user_error(kInvalidDimension, at, fmt::format("tensor '{}' has a negative size {}", name, s),
                 "export the model again");
    }
    overflow |= __builtin_mul_overflow(bytes, s, &bytes);
  }
  for (std::int64_t s : sizes) overflow &= s != 0;
  if (overflow) {
    user_error(kSizeOverflow, at, fmt::format("the size of tensor '{}' exceeds 64 bits", name),
               "check the sizes of the tensor");
  }
  return bytes;
}

Tensor take_tensor(TensorProto& proto, FileMap& files, const Location& at) {
  const std::string& name = proto.name();
  const std::optional<DType> dtype = dtype_of_onnx(proto.data_type());
  if (!dtype) {
    user_error(kUnsupportedType, at,
               fmt::format("tensor '{}' has the element type {}", name, onnx_type_name(proto.data_type())),
               "supported are float, double, float16, bfloat16, (u)int8 to (u)int64 and bool");
  }
  Tensor tensor{*dtype, {proto.dims().begin(), proto.dims().end()}, {}};
  const std::int64_t bytes = checked_bytes(tensor.sizes, *dtype, at, name);
  if (proto.data_location() == TensorProto::EXTERNAL) {
    ExternalBytes external = files.find(proto, bytes, at);
    tensor.data = {{external.bytes}, std::move(external.owner), std::move(external.file), external.offset};
    return tensor;
  }
  if (proto.has_raw_data()) {
    auto owner = std::make_shared<const std::string>(std::move(*proto.mutable_raw_data()));
    tensor.data = {{std::as_bytes(std::span(owner->data(), owner->size()))}, owner};
    proto.clear_raw_data();
  } else {
    tensor.data = ir::own_bytes(typed_bytes(proto, *dtype));
    proto.clear_float_data();
    proto.clear_double_data();
    proto.clear_int32_data();
    proto.clear_int64_data();
    proto.clear_uint64_data();
  }
  const auto found = static_cast<std::int64_t>(tensor.data.of_rank(0).size());
  if (found != bytes) {
    user_error(kInitializerSize, at,
               fmt::format("tensor '{}' has {} bytes, but its type and sizes require {}", name, found, bytes),
               "export the model again");
  }
  return tensor;
}

}  // namespace braid::frontend
