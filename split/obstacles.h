// The reasons why a model cannot be split over a number of ranks: heads of attention that the number does not
// divide, or weights without a dimension that it divides. Found by structure and sizes, not by names.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "split/graph.h"

namespace braid::split {

class Obstacles {
 public:
  explicit Obstacles(const Graph& graph);

  // "the 12 heads of '/attn/MatMul' are not divisible by 8"; nullopt if so many ranks can split the model.
  std::optional<std::string> of(int ranks) const;
  // The numbers of ranks from 2 on that have no obstacle, up to 64, ascending.
  std::vector<int> possible() const;

 private:
  struct Size {
    std::int64_t size = 0, more_ranks_than = 0;  // as of a letter (rules.h)
  };
  // Sizes one of which a number of ranks must divide.
  struct Need {
    std::string name;    // of the node, as plans know it
    std::string what;    // "12 heads"
    std::string weight;  // of a product with weights: its name and sizes
    std::vector<Size> sizes;
  };
  static bool met(const Need& need, int ranks);

  std::vector<Need> heads_;  // each must be met
  // One must be met; in models without weights, every node that a rule can split.
  std::vector<Need> products_;
};

// Throws UserError BR0487 if the model cannot be split over that many ranks, with the numbers that can.
void require_divisible(const Graph& graph, int ranks);

}  // namespace braid::split
