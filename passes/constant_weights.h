// Constant f32 weights of products and convolutions at compile time, converted to narrower types.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"

namespace braid::passes {

// A view of an f32 constant whose sizes, strides and contents are known: [k, n] for a product, [groups,
// taps..., c, m] for a convolution. A column holds the factors of one sum: there are n columns, or groups *
// m.
struct ConstantWeights {
  std::vector<std::int64_t> sizes, strides;  // at least 1 each; of the elements, in bytes
  std::vector<std::int64_t> column;          // what a step along each dimension adds to the column's number
  std::int64_t offset = 0;                   // in bytes from the storage's first
  const ir::ConstantData* data = nullptr;    // of the storage, which must stay in the graph

  std::int64_t elements() const;
  std::int64_t columns() const;
  std::int64_t terms() const { return elements() / columns(); }  // of a sum
};
// nullopt for other views, and for products whose batch dimensions have more than one matrix.
std::optional<ConstantWeights> constant_weights(const ir::Graph& graph, const ir::Product& product);

// Row-major, rounded to f16 or bf16, nearest even. nullopt if a finite number would become infinite.
std::optional<ir::ConstantData> rounded(const ConstantWeights& weights, ir::DType type);

// Row-major i8 weights with one f32 scale per column: the largest absolute value of the column is 127 steps.
// Columns of zeros have the scale 0. quantised_columns() returns nullopt if a number is not finite.
struct QuantisedColumns {
  ir::ConstantData bytes, scales;
};
std::optional<QuantisedColumns> quantised_columns(const ConstantWeights& weights);

}  // namespace braid::passes
