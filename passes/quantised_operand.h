// Recognises operands of products that are quantised: (x - zero) * scale for x of 8 bits.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"

namespace braid::passes {

constexpr bool is_byte(ir::DType type) { return type == ir::DType::i8 || type == ir::DType::u8; }

// The value of a loop at each point: value `bytes` of its body, which is i8 or u8, minus the zero point,
// times the scale.
struct QuantisedBody {
  ir::ValueId bytes;
  std::optional<ir::ValueId> zero;   // an integer
  std::optional<ir::ValueId> scale;  // f32
};
// nullopt if the body is of another form. An f32 body may have a scale, an i32 body has none.
std::optional<QuantisedBody> find_quantised(const ir::LoopBody& body);

// Returns the largest absolute value of (x - zero) for all bytes and zero points of their type; nullopt if
// the zero point may be any integer.
std::optional<std::int64_t> largest_difference(const ir::LoopBody& body, const QuantisedBody& parts);

// Returns the indices of a loop that writes a row-major buffer of its sizes, as expressions over the indices
// of a view of the buffer. Returns nullopt if a dimension of the view is not a dimension of the loop.
std::optional<std::vector<ir::Expr>> loop_indices(const ir::Graph& graph, const ir::Loops& loops,
                                                  const ir::TensorRef& view);

// The value as a body of its own.
ir::LoopBody slice_of(const ir::LoopBody& body, ir::ValueId value, ir::ExprPool& pool);

// Whether every element is known to be this number: a literal, or a load of constants.
bool is_always(const ir::Graph& graph, const ir::LoopBody& body, ir::ValueId value, std::int64_t number);

}  // namespace braid::passes
