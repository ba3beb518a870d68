// Defaults that the text format omits; printer and parser must agree on each of them.
#pragma once

#include <optional>
#include <string>

#include "ir/graph.h"

namespace braid::ir {

// Larger constants of one value are written as lists.
inline constexpr std::size_t kMaxSplatBytes = std::size_t{1} << 20;

// Layouts that own their storage.
bool owns(const Buffer& buffer);
// The bytes that a buffer needs if it owns its storage.
Expr default_bytes(const Buffer& buffer);
// The index i0*s0 + i1*s1 + ... with the strides of the buffer, if `sizes` are the buffer's sizes (indices of
// dimensions of size 1 left out).
std::optional<Expr> default_index(const Graph& graph, BufferId buffer, std::span<const Expr> sizes);
// The view with its last two dimensions exchanged.
std::optional<TensorRef> transposed(TensorRef ref);
// The name of an operation's first output; without outputs, "START.wait" and "START.release", else "".
std::string default_op_name(const Graph& graph, const Operation& op);

}  // namespace braid::ir
