// The cases of a GPU bundle: cases.txt describes them, cases.data holds the bytes that cannot be generated.
//
//   case layers_2@rows=5                      a program with sizes
//   program cases layers_2 89ab...            library, name, hash of the program's source
//   about collective f32 2 1e-05              kind, dtype, ranks, tolerance
//   work 4096 0                               least bytes moved in a step, flops
//   dims 5
//   image weights 0 -1 640 0123...            what, index, rank (-1: all), bytes, checksum (0: not
//                                             checked); its pieces follow
//   generate 64 f32 128 scaled -3 77          offset, dtype, count, kind, parameter, seed
//   stored 0 64 4096                          offset, bytes, offset in cases.data
//   expected 0 0 f32 35 1 8192                output, rank, dtype, elements, every how many are stored,
//                                             offset in cases.data
//
// Generated elements are a function of seed and index in integers, then exact in every element type, so they
// have the same bits on every machine.
#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/dtype.h"
#include "runtime/half.h"
#include "runtime/hash.h"

namespace braid::gpu_bundle {

struct Piece {
  uint64_t offset = 0;  // in the image
  // stored
  uint64_t bytes = 0, data_offset = 0;  // bytes 0: generated
  // generated
  rt::DType dtype = rt::DType::f32;
  uint64_t count = 0, seed = 0;
  // integers: -3..3 without 0; below: 0..parameter-1; scaled: within 2^parameter; positive: and above 0
  std::string kind;
  int64_t parameter = 0;
};
inline constexpr uint64_t kNotChecked = 0;  // a checksum: of inputs that no expected output was computed from
struct Image {
  std::string what;  // weights, input
  int index = 0, rank = -1;
  uint64_t bytes = 0, checksum = 0;
  std::vector<Piece> pieces;
};
struct Expected {
  int index = 0, rank = 0;
  rt::DType dtype = rt::DType::f32;
  uint64_t elements = 0, stride = 1, data_offset = 0;
};
struct Case {
  std::string id, library, program, source, kind, dtype;
  int ranks = 1;
  double tolerance = 0;  // times the larger of 1 and the expected value; 0: equal bits, but for NaN
  uint64_t bytes = 0, flops = 0;
  std::vector<int64_t> dims;
  std::vector<Image> images;
  std::vector<Expected> expected;
};

inline uint64_t random_bits(uint64_t seed, uint64_t index) {  // splitmix64
  uint64_t z = (seed + 1) * 0x9e3779b97f4a7c15ull + index * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

// value * 2^exponent, exact: 8 bits of value, and an exponent that no type flushes to zero.
inline void put_element(rt::DType dtype, int64_t value, int exponent, void* at) {
  const auto put = [&](auto v) { std::memcpy(at, &v, sizeof v); };
  // Powers of two by their bits, so that no library decides.
  const double power = std::bit_cast<double>(static_cast<uint64_t>(1023 + exponent) << 52);
  const double real = static_cast<double>(value) * power;
  switch (dtype) {
    case rt::DType::f32:
      return put(static_cast<float>(real));
    case rt::DType::f64:
      return put(real);
    case rt::DType::f16:
      return put(rt::to_half(static_cast<float>(real)));
    case rt::DType::bf16:
      return put(rt::to_bfloat16(static_cast<float>(real)));
    case rt::DType::i16:
    case rt::DType::u16:
      return put(static_cast<int16_t>(value));
    case rt::DType::i32:
    case rt::DType::u32:
      return put(static_cast<int32_t>(value));
    case rt::DType::i64:
    case rt::DType::u64:
      return put(value);
    default:
      return put(static_cast<int8_t>(value));
  }
}

inline bool is_float(rt::DType dtype) {
  return dtype == rt::DType::f32 || dtype == rt::DType::f64 || dtype == rt::DType::f16 ||
         dtype == rt::DType::bf16;
}

inline void generate(const Piece& piece, unsigned char* image) {
  const size_t item = rt::size_of(piece.dtype);
  const bool is_unsigned = piece.dtype == rt::DType::u8 || piece.dtype == rt::DType::u16 ||
                           piece.dtype == rt::DType::u32 || piece.dtype == rt::DType::u64;
  for (uint64_t k = 0; k < piece.count; ++k) {
    const uint64_t bits = random_bits(piece.seed, k);
    int64_t value = 0;
    int exponent = 0;
    if (piece.kind == "integers") {
      value = static_cast<int64_t>(bits % 7) - (is_unsigned ? 0 : 3);
      if (piece.dtype == rt::DType::boolean) {
        value &= 1;
      } else if (value == 0 && !is_float(piece.dtype)) {
        value = 5;  // integers are divided by one another
      }
    } else if (piece.kind == "below") {
      value = static_cast<int64_t>(bits % static_cast<uint64_t>(piece.parameter));
    } else if (piece.kind == "positive") {
      value = static_cast<int64_t>(bits >> 57) + 128;
      exponent = static_cast<int>(piece.parameter) - 8;
    } else if (piece.kind == "scaled") {
      value = static_cast<int64_t>(bits >> 56) - 128;
      exponent = static_cast<int>(piece.parameter) - 7;
    } else {
      throw std::runtime_error("unknown kind of numbers: " + piece.kind);
    }
    put_element(piece.dtype, value, exponent, image + piece.offset + k * item);
  }
}

inline rt::DType dtype_named(const std::string& name) {
  for (int k = 0; k < rt::kDTypeCount; ++k) {
    if (name == rt::to_string(static_cast<rt::DType>(k))) return static_cast<rt::DType>(k);
  }
  throw std::runtime_error("unknown element type " + name);
}

inline void write_case(std::ostream& out, const Case& c) {
  out << "case " << c.id << "\nprogram " << c.library << ' ' << c.program << ' ' << c.source << "\nabout "
      << c.kind << ' ' << c.dtype << ' ' << c.ranks << ' ' << c.tolerance << "\nwork " << c.bytes << ' '
      << c.flops << "\ndims";
  for (int64_t d : c.dims) out << ' ' << d;
  out << '\n';
  for (const Image& i : c.images) {
    out << "image " << i.what << ' ' << i.index << ' ' << i.rank << ' ' << i.bytes << ' ' << i.checksum
        << '\n';
    for (const Piece& p : i.pieces) {
      if (p.bytes > 0)
        out << "stored " << p.offset << ' ' << p.bytes << ' ' << p.data_offset << '\n';
      else
        out << "generate " << p.offset << ' ' << rt::to_string(p.dtype) << ' ' << p.count << ' ' << p.kind
            << ' ' << p.parameter << ' ' << p.seed << '\n';
    }
  }
  for (const Expected& e : c.expected)
    out << "expected " << e.index << ' ' << e.rank << ' ' << rt::to_string(e.dtype) << ' ' << e.elements
        << ' ' << e.stride << ' ' << e.data_offset << '\n';
}

inline std::vector<Case> read_cases(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::vector<Case> cases;
  std::string text, word, dtype;
  while (std::getline(file, text)) {
    std::istringstream line(text);
    line >> word;
    if (word == "case") {
      cases.emplace_back();
      line >> cases.back().id;
      continue;
    }
    if (cases.empty()) throw std::runtime_error(path + " does not begin with a case");
    Case& c = cases.back();
    if (word == "program") {
      line >> c.library >> c.program >> c.source;
    } else if (word == "about") {
      line >> c.kind >> c.dtype >> c.ranks >> c.tolerance;
    } else if (word == "work") {
      line >> c.bytes >> c.flops;
    } else if (word == "dims") {
      for (int64_t d = 0; line >> d;) c.dims.push_back(d);
      continue;
    } else if (word == "image") {
      Image i;
      line >> i.what >> i.index >> i.rank >> i.bytes >> i.checksum;
      c.images.push_back(std::move(i));
    } else if (word == "expected") {
      Expected e;
      line >> e.index >> e.rank >> dtype >> e.elements >> e.stride >> e.data_offset;
      e.dtype = dtype_named(dtype);
      c.expected.push_back(e);
    } else if (word == "stored" && !c.images.empty()) {
      Piece p;
      line >> p.offset >> p.bytes >> p.data_offset;
      c.images.back().pieces.push_back(p);
    } else if (word == "generate" && !c.images.empty()) {
      Piece p;
      line >> p.offset >> dtype >> p.count >> p.kind >> p.parameter >> p.seed;
      p.dtype = dtype_named(dtype);
      c.images.back().pieces.push_back(p);
    } else {
      throw std::runtime_error(path + ": unknown line: " + text);
    }
    if (!line) throw std::runtime_error(path + ": broken line: " + text);
  }
  return cases;
}

// The bytes of an image; `data` is cases.data, open.
inline std::vector<unsigned char> make_image(const Image& image, std::istream& data) {
  std::vector<unsigned char> bytes(image.bytes);
  for (const Piece& p : image.pieces) {
    const uint64_t size = p.bytes > 0 ? p.bytes : p.count * rt::size_of(p.dtype);
    if (p.offset > image.bytes || size > image.bytes - p.offset)
      throw std::runtime_error("a piece outside of its image");
    if (p.bytes == 0) {
      generate(p, bytes.data());
      continue;
    }
    data.seekg(static_cast<std::streamoff>(p.data_offset));
    data.read(reinterpret_cast<char*>(bytes.data() + p.offset), static_cast<std::streamsize>(p.bytes));
    if (!data) throw std::runtime_error("cases.data is too short");
  }
  if (image.checksum != kNotChecked && rt::checksum(bytes.data(), bytes.size()) != image.checksum)
    throw std::runtime_error("the generated " + image.what +
                             " differ from those that the outputs were computed with");
  return bytes;
}

}  // namespace braid::gpu_bundle
