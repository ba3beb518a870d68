// Random changes of byte strings, for fuzzing without libFuzzer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

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

using FuzzTarget = int (*)(const std::uint8_t*, std::size_t);

// PROGRAM [--runs N] [--seed S] FILE...: runs the files as they are, then N random changes of them. What
// crashes lies in fuzz_last_input, which is written before every run.
inline int fuzz_main(int argc, char** argv, FuzzTarget target) {
  long runs = 1000;
  std::uint64_t seed = 1;
  std::vector<std::string> seeds;
  for (int k = 1; k < argc; ++k) {
    const std::string argument = argv[k];
    if (argument == "--runs" && k + 1 < argc) {
      runs = std::atol(argv[++k]);
    } else if (argument == "--seed" && k + 1 < argc) {
      seed = std::strtoull(argv[++k], nullptr, 10);
    } else {
      std::ifstream file(argument, std::ios::binary);
      seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
  }
  if (seeds.empty()) {
    std::fprintf(stderr, "usage: %s [--runs N] [--seed S] FILE...\n", argv[0]);
    return 2;
  }
  const auto run = [&](const std::string& bytes) {
    std::ofstream("fuzz_last_input", std::ios::binary) << bytes;
    target(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  };
  for (const std::string& bytes : seeds) run(bytes);
  std::mt19937_64 random(seed);
  for (long k = 0; k < runs; ++k)
    run(mutate(seeds[random() % seeds.size()], seeds[random() % seeds.size()], random));
  std::printf("%ld runs with seed %llu\n", runs, static_cast<unsigned long long>(seed));
  return 0;
}

}  // namespace braid::test
