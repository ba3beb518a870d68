// Writes binary Chakra traces by hand: protobuf messages, each after its length.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace braid::frontend {

inline std::string varint(std::uint64_t v) {
  std::string out;
  for (; v >= 128; v >>= 7) out += static_cast<char>(v | 128);
  return out + static_cast<char>(v);
}
inline std::string number_field(int field, std::uint64_t v) {
  return varint(static_cast<std::uint64_t>(field) << 3) + varint(v);
}
inline std::string bytes_field(int field, const std::string& v) {
  return varint(static_cast<std::uint64_t>(field) << 3 | 2) + varint(v.size()) + v;
}
inline std::string message(const std::string& content) { return varint(content.size()) + content; }

inline std::string int64_attr(const std::string& name, std::uint64_t v) {
  return bytes_field(10, bytes_field(1, name) + number_field(9, v));
}
inline std::string bool_attr(const std::string& name, bool v) {
  return bytes_field(10, bytes_field(1, name) + number_field(27, v ? 1 : 0));
}
inline std::string string_attr(const std::string& name, const std::string& v) {
  return bytes_field(10, bytes_field(1, name) + bytes_field(29, v));
}
inline std::string metadata() { return message(bytes_field(1, "0.0.4")); }

struct NodeText {
  std::uint64_t id;
  std::string name;
  std::uint64_t type;  // 4: kernel, 7: collective
  std::vector<std::uint64_t> data_deps;
  std::uint64_t start_us = 0, duration_us = 0;
  std::string attributes;
};
inline std::string node(const NodeText& n) {
  std::string out = number_field(1, n.id) + bytes_field(2, n.name) + number_field(3, n.type);
  std::string packed;
  for (std::uint64_t d : n.data_deps) packed += varint(d);
  if (!packed.empty()) out += bytes_field(5, packed);
  if (n.start_us > 0) out += number_field(6, n.start_us);
  if (n.duration_us > 0) out += number_field(7, n.duration_us);
  return message(out + n.attributes);
}

}  // namespace braid::frontend
