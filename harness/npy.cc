#include "harness/npy.h"

#include <algorithm>
#include <cstring>

#include "codegen/output_files.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "ir/input_file.h"

namespace braid::harness {
namespace {

constexpr std::string_view kMagic{"\x93NUMPY", 6};

struct Descr {
  std::string_view text;
  ir::DType dtype;
};
constexpr Descr kDescrs[] = {{"<f4", ir::DType::f32}, {"<f8", ir::DType::f64}, {"<f2", ir::DType::f16},
                             {"|i1", ir::DType::i8},  {"<i2", ir::DType::i16}, {"<i4", ir::DType::i32},
                             {"<i8", ir::DType::i64}, {"|u1", ir::DType::u8},  {"<u2", ir::DType::u16},
                             {"<u4", ir::DType::u32}, {"<u8", ir::DType::u64}, {"|b1", ir::DType::boolean}};

[[noreturn]] void bad(const std::string& path, const std::string& why) {
  ir::user_error(errors::kBadNpy, {.file = path}, "this is not a readable .npy file: " + why,
                 "save it with numpy.save, little endian and C-contiguous");
}

// The text between the quotes, or the value up to the next comma, that follows 'key': in the header's
// dictionary.
std::string_view after_key(std::string_view header, std::string_view key) {
  const std::size_t at = header.find("'" + std::string(key) + "'");
  if (at == std::string_view::npos) return {};
  std::string_view rest = header.substr(at + key.size() + 2);
  const std::size_t colon = rest.find(':');
  if (colon == std::string_view::npos) return {};
  rest.remove_prefix(colon + 1);
  while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  return rest;
}

std::vector<std::int64_t> parse_shape(const std::string& path, std::string_view text) {
  const std::size_t close = text.find(')');
  if (text.empty() || text.front() != '(' || close == std::string_view::npos)
    bad(path, "its header has no shape");
  std::vector<std::int64_t> sizes;
  std::int64_t value = -1, total = 1;
  for (char c : text.substr(1, close - 1)) {
    if (c >= '0' && c <= '9') {
      value = (value < 0 ? 0 : value) * 10 + (c - '0');
      if (value > (std::int64_t{1} << 48)) bad(path, "its shape is too large");
    } else if (c == ',') {
      if (value >= 0) sizes.push_back(value);
      value = -1;
    } else if (c != ' ') {
      bad(path, "its shape is malformed");
    }
  }
  if (value >= 0) sizes.push_back(value);
  for (std::int64_t s : sizes) {
    if (__builtin_mul_overflow(total, s, &total) || total > (std::int64_t{1} << 48))
      bad(path, "its shape is too large");
  }
  return sizes;
}

// The header's length has two bytes in format version 1 and four in later ones.
constexpr std::size_t kLongPrefix = 12, kMostHeader = 1 << 20;

std::size_t header_start(const std::string& path, std::string_view all) {
  const int major = all.size() < 8 ? 0 : static_cast<unsigned char>(all[6]);
  if (major < 1 || major > 3) bad(path, "unknown format version");
  return major == 1 ? kLongPrefix - 2 : kLongPrefix;
}

std::size_t header_length(const std::string& path, std::string_view all) {
  const std::size_t start = header_start(path, all);
  if (all.size() < start) bad(path, "it is truncated in its header");
  std::size_t length = 0;
  for (std::size_t k = 8; k < start; ++k)
    length |= static_cast<std::size_t>(static_cast<unsigned char>(all[k])) << (8 * (k - 8));
  if (length > kMostHeader) bad(path, "its header is too long");
  return length;
}

// A tensor without its elements.
ir::Tensor header_of(const std::string& path, std::string_view header) {
  ir::Tensor tensor;
  const std::string_view descr = after_key(header, "descr");
  bool known = false;
  for (const Descr& d : kDescrs) {
    if (descr.size() > d.text.size() + 1 && descr.substr(1, d.text.size()) == d.text) {
      tensor.dtype = d.dtype;
      known = true;
    }
  }
  if (!known) bad(path, "its element type is not supported");
  if (!after_key(header, "fortran_order").starts_with("False")) bad(path, "it is in Fortran order");
  tensor.sizes = parse_shape(path, after_key(header, "shape"));
  return tensor;
}

std::size_t byte_count(const ir::Tensor& tensor) {
  auto bytes = static_cast<std::size_t>(ir::size_of(tensor.dtype));
  for (const std::int64_t size : tensor.sizes) bytes *= static_cast<std::size_t>(size);
  return bytes;
}

}  // namespace

ir::Tensor read_npy(const std::string& path) {
  ir::InputFile file(path);
  // Reads no more than a file of this header has: another kind of file, or a pipe, may never end.
  std::string all = file.read(kMagic.size());
  if (all != kMagic) bad(path, "it does not begin with NumPy's magic");
  const auto more = [&](std::size_t until) { all += file.read(until - std::min(until, all.size())); };
  more(kLongPrefix);
  const std::size_t start = header_start(path, all), length = header_length(path, all);
  more(start + length);
  if (all.size() < start + length) bad(path, "it is truncated in its header");
  const std::size_t bytes = byte_count(header_of(path, std::string_view(all).substr(start, length)));
  more(start + length + bytes + 1);  // a byte too many is an error
  return parse_npy(path, all);
}

ir::Tensor parse_npy(const std::string& path, std::string_view all) {
  if (all.size() < 10 || all.compare(0, kMagic.size(), kMagic) != 0)
    bad(path, "it does not begin with NumPy's magic");
  const std::size_t start = header_start(path, all), length = header_length(path, all);
  if (all.size() < start + length) bad(path, "it is truncated in its header");
  ir::Tensor tensor = header_of(path, all.substr(start, length));
  const std::size_t bytes = byte_count(tensor);
  all.remove_prefix(start + length);
  if (all.size() != bytes) bad(path, "its size does not match its shape");
  tensor.bytes.resize(bytes);
  if (bytes > 0) std::memcpy(tensor.bytes.data(), all.data(), bytes);
  return tensor;
}

std::string numpy_name(ir::DType dtype) {
  const std::string name(to_string(dtype));  // "f32", "bool"
  switch (name[0]) {
    case 'f':
      return "float" + name.substr(1);
    case 'i':
      return "int" + name.substr(1);
    case 'u':
      return "uint" + name.substr(1);
    default:
      return name == "bool" ? "bool_" : "";
  }
}

void write_npy(const std::string& path, const ir::Tensor& tensor) {
  codegen::write_file(path, npy_content(tensor));
}

std::string npy_content(const ir::Tensor& given) {
  ir::Tensor widened;
  const ir::Tensor* tensor = &given;
  if (given.dtype == ir::DType::bf16) {
    widened = {ir::DType::f32, given.sizes, {}};
    widened.bytes.resize(given.bytes.size() * 2);
    for (std::size_t k = 0; 2 * k < given.bytes.size(); ++k) {
      std::memcpy(&widened.bytes[4 * k + 2], &given.bytes[2 * k], 2);  // the upper half of a float
    }
    tensor = &widened;
  }
  std::string header = "{'descr': '";
  for (const Descr& d : kDescrs) {
    if (d.dtype == tensor->dtype) header += d.text;
  }
  header += "', 'fortran_order': False, 'shape': (";
  for (std::int64_t s : tensor->sizes) header += fmt::format("{},", s);
  header += "), }";
  // The data begin at a multiple of 64 bytes; the header ends with a newline.
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::string content(kMagic);
  for (const int c : {1, 0, static_cast<int>(header.size() & 0xff), static_cast<int>(header.size() >> 8)})
    content += static_cast<char>(c);
  content += header;
  content.append(reinterpret_cast<const char*>(tensor->bytes.data()), tensor->bytes.size());
  return content;
}

}  // namespace braid::harness
