// Products followed by random loops: activations in the spellings of exporters, and others that are like them
// for small values only, or nearly.
#pragma once

#include <cstdint>
#include <string>

namespace braid::test {

// A program in IR text of input %x: [n, 48], n in [1, 40], and an output per product; whole inputs give sums
// beyond what any of the activations bends at. `type` (f32, f16, bf16) is that of all tensors.
std::string random_epilogues(std::uint64_t seed, const std::string& type);

inline constexpr int kEpiloguesPerProgram = 20;

}  // namespace braid::test
