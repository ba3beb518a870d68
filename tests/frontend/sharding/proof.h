// Proves rules by brute force: the local program of every claimed combination of states, run on all ranks
// with inputs that are cut accordingly, must give parts that make the whole result.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "frontend/sharding/split.h"
#include "ir/tensor.h"

namespace braid::frontend::sharding {

struct ProofCase {
  std::string op;     // the operator that is proved
  std::string graph;  // ONNX text
  int opset = 18;
  double tolerance = 0;  // relative to the largest element; 0: bitwise
  double low = -4, high = 4;
  std::map<std::string, std::pair<double, double>> ranges;  // of single inputs
  bool fractions = false;                                   // inputs are not only whole numbers
};

struct Proof {
  int combinations = 0;            // beside all-replicated
  std::vector<std::string> wrong;  // the combinations that fail, and how
};

// Proves all combinations that the rule of the case's operator claims, on that many ranks.
Proof prove(const ProofCase& c, int ranks, unsigned seed);

// ---- parts of tensors

// Returns each rank's part of a tensor in that state. Pending parts are drawn unevenly; padding is NaN, or a
// large number.
std::vector<ir::Tensor> cut(const ir::Tensor& whole, const Spec& spec, int ranks, unsigned seed);
// Returns the whole tensor, whose split dimension has `size` elements (-1: there is no padding). Throws
// std::runtime_error if replicated parts differ.
ir::Tensor joined(const std::vector<ir::Tensor>& parts, const Spec& spec, std::int64_t size = -1);
// Empty if both are equal within the tolerance.
std::string difference(const ir::Tensor& a, const ir::Tensor& b, double tolerance);
// Whole numbers within the range, or such with a fraction.
ir::Tensor random_tensor(ir::DType dtype, const std::vector<std::int64_t>& sizes, double low, double high,
                         bool fractions, unsigned seed);

}  // namespace braid::frontend::sharding
