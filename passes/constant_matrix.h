// Constant f32 matrices at compile time, converted to narrower types.
#pragma once

#include <optional>

#include "ir/graph.h"

namespace braid::passes {

// A view [batch..., k, n] of an f32 constant whose batch dimensions all repeat one matrix, and whose sizes, strides and contents are
// known. nullopt for other views.
struct ConstantMatrix {
  std::int64_t k = 0, n = 0;                     // at least 1 each
  std::int64_t offset = 0, row = 0, column = 0;  // of the elements, in bytes from the storage's first
  const ir::ConstantData* data = nullptr;        // of the storage, which must stay in the graph

  float at(std::span<const std::byte> bytes, std::int64_t k, std::int64_t n) const;
};
std::optional<ConstantMatrix> constant_matrix(const ir::Graph& graph, const ir::TensorRef& ref);

// Row-major, rounded to f16 or bf16, nearest even. nullopt if a finite number would become infinite.
std::optional<ir::ConstantData> rounded(const ConstantMatrix& matrix, ir::DType type);

// Row-major i8 and one f32 scale per column: the largest absolute value of the column is 127 steps. Columns of zeros have the
// scale 0. nullopt if a number is not finite.
struct QuantisedColumns {
  ir::ConstantData bytes, scales;
};
std::optional<QuantisedColumns> quantised_columns(const ConstantMatrix& matrix);

}  // namespace braid::passes
