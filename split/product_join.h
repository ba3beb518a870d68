#pragma once

#include <string>
#include <vector>

namespace braid::split {

// A loop that makes one element from several elements of a product's result and otherwise reads nothing that
// is multiplied, so neither this product nor another one can do it. Named by the nodes that it and the
// product were made of.
struct ProductJoin {
  std::string product;
  std::vector<std::string> nodes;
};

}  // namespace braid::split
