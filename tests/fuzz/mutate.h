// Random changes of byte strings, for tests without libFuzzer (tests/codegen/mutated_inputs_test.cc).
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <random>
#include <string>

namespace braid::test {

// A few small changes: bits, bytes, runs that are cut out, repeated or taken from `other`.
inline std::string mutate(std::string bytes, const std::string& other, std::mt19937_64& random) {
  const auto below = [&](std::size_t n) { return n == 0 ? 0 : static_cast<std::size_t>(random() % n); };
  static constexpr unsigned char kExtremes[] = {0x00, 0x01, 0x7f, 0x80, 0xff, 0x08, 0x0a, 0x12};
  const std::size_t changes = 1 + below(4);
  for (std::size_t k = 0; k < changes && !bytes.empty(); ++k) {
    const std::size_t at = below(bytes.size()),
                      length = 1 + below(std::min<std::size_t>(16, bytes.size() - at));
    switch (below(6)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 1:
        bytes[at] = static_cast<char>(kExtremes[below(std::size(kExtremes))]);
        break;
      case 2:
        bytes[at] = static_cast<char>(random());
        break;
      case 3:
        bytes.erase(at, length);
        break;
      case 4:
        bytes.insert(at, bytes.substr(at, length));
        break;
      case 5:
        if (!other.empty()) bytes.replace(at, length, other.substr(below(other.size()), length));
        break;
    }
  }
  return bytes;
}

}  // namespace braid::test
