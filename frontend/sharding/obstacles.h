// What keeps a model from being split over a number of ranks: heads of attention that the number does not divide, or weights
// without a dimension that it divides. Found by structure and sizes, not by names.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "frontend/sharding/graph.h"

namespace braid::frontend::sharding {

class Obstacles {
 public:
  explicit Obstacles(const Graph& graph);

  // "the 12 heads of '/attn/MatMul' are not divisible by 8"; nullopt if so many ranks can split the model.
  std::optional<std::string> of(int ranks) const;
  // The numbers of ranks from 2 on that have no obstacle, up to 64, ascending.
  std::vector<int> possible() const;

 private:
  // Sizes of which a number of ranks must divide one, or share key heads.
  struct Need {
    std::string name;    // of the node, as plans know it
    std::string what;    // "12 heads"
    std::string weight;  // of a product with weights: its name and sizes
    std::vector<std::int64_t> sizes;
    // Query heads that ranks may split which are a multiple of the key heads, `shared_by`; 0: none.
    std::int64_t shared = 0, shared_by = 0;
  };
  static bool met(const Need& need, int ranks);

  std::vector<Need> heads_;  // each must be met
  std::vector<Need>
      products_;  // one must be met; of models without products, every node that a rule can split
};

// UserError BR0487 if the model cannot be split over so many ranks, with the numbers that would do.
void require_divisible(const Graph& graph, int ranks);

}  // namespace braid::frontend::sharding
