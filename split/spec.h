// The state of one tensor on one mesh axis of N ranks: the part that each rank holds.
//
//   R           every rank has the whole tensor
//   S(d)        dimension d is cut into N equal parts, rank r has part r. If N does not divide the size,
//               parts have ceil(size / N) elements, and the last one ends with elements of no meaning
//               (padding)
//   S(d:a+b+c)  blocked: dimension d is a sequence of blocks of sizes a, b, c; each is cut into N equal
//               parts, and rank r has part r of each, one after another. So a fused projection of query, key
//               and value is cut by heads
//   P(sum)      every rank has a tensor of the whole size, and the tensor is their sum; also P(max), P(min),
//               P(prod)
//
// The states are those of GSPMD (Xu et al., 2021) and of PyTorch's DTensor (Replicate, Shard, Partial), and
// so is the method that a rule lists legal combinations of them. A blocked split is an even split after a
// permutation of the dimension.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace braid::split {

// Sizes of the blocks of a dimension, in order; empty: the dimension is one block.
using Blocks = std::vector<std::int64_t>;

struct Spec {
  enum class Kind : std::uint8_t { replicated, split, pending };
  Kind kind = Kind::replicated;
  int dim = 0;                                  // split only; not negative
  Blocks blocks;                                // split only; empty, or at least two
  ir::ReduceKind reduce = ir::ReduceKind::sum;  // pending only; never avg

  static Spec replicated() { return {}; }
  // One block counts as none.
  static Spec split(int dim, Blocks blocks = {});
  static Spec pending(ir::ReduceKind reduce) { return {Kind::pending, 0, {}, reduce}; }

  bool is_replicated() const { return kind == Kind::replicated; }
  bool is_split() const { return kind == Kind::split; }
  bool is_pending() const { return kind == Kind::pending; }
  friend bool operator==(const Spec&, const Spec&) = default;
  friend auto operator<=>(const Spec&, const Spec&) = default;
};

// "R", "S(2)", "S(2:768+768+768)", "P(sum)".
std::string to_string(const Spec& spec);
// Returns nullopt if the text is none of these.
std::optional<Spec> parse_spec(std::string_view text);

// Returns the size of a part.
std::int64_t part_of(std::int64_t size, int ranks);
// Whether a dimension can be cut into padded parts none of which is empty.
bool can_pad(std::int64_t size, int ranks);
// Returns for each position of the dimension, in the order in which the ranks' parts follow each other, its
// index in the whole dimension; for padding, that of the last element. Requires blocks that N divides and
// that add up to `size`, or one block.
std::vector<std::int64_t> order_of(const Blocks& blocks, std::int64_t size, int ranks);

}  // namespace braid::split
