// How many words the nodes and trees of the extern kernel `tree_ensemble` have. Lowering writes them, and
// runtime/tree_ensemble.h, which knows no IR, has the meaning of each word.
#pragma once

#include <cstdint>

namespace braid::ir {

// `wide`: keys have 64 bits instead of 32.
constexpr std::int64_t tree_cut_words(bool wide) { return wide ? 2 : 1; }
constexpr std::int64_t tree_node_words(bool wide) { return wide ? 6 : 4; }
inline constexpr std::int64_t kTreeWords = 4;

}  // namespace braid::ir
