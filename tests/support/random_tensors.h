// Tensors with random contents.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/tensor.h"

namespace braid::test {

// Small whole numbers (exact in every type), or real ones.
ir::Tensor random_tensor(ir::DType dtype, std::vector<std::int64_t> sizes, std::uint64_t seed,
                         bool whole = false);
std::vector<ir::Tensor> random_inputs(const ir::Graph& graph, const std::map<std::string, std::int64_t>& dims,
                                      std::uint64_t seed, bool whole = false);

}  // namespace braid::test
