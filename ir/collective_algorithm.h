// The algorithms that a collective can be asked to run by (CollectiveKernel::algorithm).
//
//   ""          nobody has asked for anything yet: passes may choose, and if none does, the engine
//   automatic   the engine chooses at run time; passes leave it so
//   one_shot    every member reads the inputs of all others where they lie, once
//   two_shot    every member reduces one slab of the inputs of all others, then hands it to them
//   ring        slabs go round from neighbour to neighbour
//   library     the communication library's own choice
//
// Which of them an engine has is not said here (passes/kernel_choice.h).
#pragma once

#include <span>
#include <string_view>

#include "ir/graph.h"

namespace braid::ir {

inline constexpr std::string_view kAutomaticAlgorithm = "automatic";

// What the kind can be asked for, in a fixed order, without "".
std::span<const std::string_view> algorithms_of(CollectiveKind kind);
// "" included.
bool has_algorithm(CollectiveKind kind, std::string_view algorithm);

}  // namespace braid::ir
