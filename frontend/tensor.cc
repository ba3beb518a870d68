#include "frontend/tensor.h"

#include <onnx/onnx_pb.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "frontend/external_data.h"
#include "ir/error_numbers.h"

namespace braid::frontend {

using ir::DType;
using ir::Location;
using ir::user_error;
using onnx::TensorProto;

namespace {

struct OnnxType {
  int number;
  DType dtype;
};
constexpr OnnxType kOnnxTypes[] = {{TensorProto::FLOAT, DType::f32},
                                   {TensorProto::DOUBLE, DType::f64},
                                   {TensorProto::FLOAT16, DType::f16},
                                   {TensorProto::BFLOAT16, DType::bf16},
                                   {TensorProto::INT8, DType::i8},
                                   {TensorProto::INT16, DType::i16},
                                   {TensorProto::INT32, DType::i32},
                                   {TensorProto::INT64, DType::i64},
                                   {TensorProto::UINT8, DType::u8},
                                   {TensorProto::UINT16, DType::u16},
                                   {TensorProto::UINT32, DType::u32},
                                   {TensorProto::UINT64, DType::u64},
                                   {TensorProto::BOOL, DType::boolean},
                                   {TensorProto::INT4, DType::i4},
                                   {TensorProto::UINT4, DType::u4},
                                   {TensorProto::INT2, DType::i2},
                                   {TensorProto::UINT2, DType::u2},
                                   {TensorProto::FLOAT8E4M3FN, DType::f8e4m3fn},
                                   {TensorProto::FLOAT8E4M3FNUZ, DType::f8e4m3fnuz},
                                   {TensorProto::FLOAT8E5M2, DType::f8e5m2},
                                   {TensorProto::FLOAT8E5M2FNUZ, DType::f8e5m2fnuz},
                                   {TensorProto::FLOAT8E8M0, DType::f8e8m0},
                                   {TensorProto::FLOAT4E2M1, DType::f4e2m1}};
static_assert(std::size(kOnnxTypes) == ir::kDTypeCount);

}  // namespace

std::optional<DType> dtype_of_onnx(int onnx_type) {
  for (const OnnxType& type : kOnnxTypes) {
    if (type.number == onnx_type) return type.dtype;
  }
  return std::nullopt;
}

int onnx_type_of(DType dtype) {
  for (const OnnxType& type : kOnnxTypes) {
    if (type.dtype == dtype) return type.number;
  }
  return TensorProto::UNDEFINED;
}

std::string onnx_type_name(int onnx_type) {
  if (!onnx::TensorProto_DataType_IsValid(onnx_type)) return fmt::format("type {}", onnx_type);
  return onnx::TensorProto_DataType_Name(static_cast<onnx::TensorProto_DataType>(onnx_type));
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
  switch (byte_type(tensor.dtype)) {
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
  switch (byte_type(dtype)) {
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
      user_error(errors::kInvalidDimension, at, fmt::format("tensor '{}' has a negative size {}", name, s),
                 "export the model again");
    }
    overflow |= __builtin_mul_overflow(bytes, s, &bytes);
  }
  for (std::int64_t s : sizes) overflow &= s != 0;
  if (overflow) {
    user_error(errors::kSizeOverflow, at, fmt::format("the size of tensor '{}' exceeds 64 bits", name),
               "check the sizes of the tensor");
  }
  return bytes;
}

namespace {

// Returns the bytes that ONNX stores for so many elements: types below one byte are packed, the first element
// in the low bits.
std::int64_t stored_bytes(std::int64_t elements, DType dtype) {
  const int bits = ir::bits_of(dtype);
  if (!is_storage(dtype) || bits == 8) return elements * ir::size_of(dtype);
  const std::int64_t per_byte = 8 / bits;
  return elements / per_byte + (elements % per_byte != 0 ? 1 : 0);
}

ir::ConstantData unpacked(std::span<const std::byte> packed, std::int64_t elements, DType dtype) {
  const int bits = ir::bits_of(dtype), per_byte = 8 / bits;
  const bool extend = byte_type(dtype) == DType::i8;
  std::vector<std::byte> bytes(static_cast<std::size_t>(elements));
  for (std::size_t k = 0; k < bytes.size(); ++k) {
    const auto byte = static_cast<unsigned>(packed[k / static_cast<std::size_t>(per_byte)]);
    const int at = static_cast<int>(k % static_cast<std::size_t>(per_byte)) * bits;
    const auto high = static_cast<std::uint8_t>((byte >> at) << (8 - bits));
    bytes[k] =
        static_cast<std::byte>(extend ? static_cast<std::int8_t>(high) >> (8 - bits) : high >> (8 - bits));
  }
  return ir::own_bytes(std::move(bytes));
}

}  // namespace

Tensor take_tensor(TensorProto& proto, FileMap& files, const Location& at) {
  const std::string& name = proto.name();
  const std::optional<DType> dtype = dtype_of_onnx(proto.data_type());
  if (!dtype) {
    user_error(errors::kUnsupportedType, at,
               fmt::format("tensor '{}' has the element type {}", name, onnx_type_name(proto.data_type())),
               kSupportedTypes);
  }
  Tensor tensor{*dtype, {proto.dims().begin(), proto.dims().end()}, {}};
  const std::int64_t elements = checked_bytes(tensor.sizes, *dtype, at, name) / ir::size_of(*dtype),
                     bytes = stored_bytes(elements, *dtype);
  const auto unpack = [&] {
    if (is_storage(*dtype) && ir::bits_of(*dtype) < 8)
      tensor.data = unpacked(tensor.data.of_rank(0), elements, *dtype);
  };
  if (proto.data_location() == TensorProto::EXTERNAL) {
    ExternalBytes external = files.find(proto, bytes, at);
    tensor.data = {{external.bytes}, std::move(external.owner), std::move(external.file), external.offset};
    unpack();
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
    user_error(errors::kInitializerSize, at,
               fmt::format("tensor '{}' has {} bytes, but its type and sizes require {}", name, found, bytes),
               "export the model again");
  }
  unpack();
  return tensor;
}

}  // namespace braid::frontend
