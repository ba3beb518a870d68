// Names of the IR as C identifiers, strings and comments; tables of the ABI as C text. Shared by all targets.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "ir/comm_group.h"
#include "ir/dtype.h"
#include "ir/expr.h"

namespace braid::codegen {

// "/layers.0/mlp/Gelu" -> "layers_0_mlp_Gelu"; never empty, never starting with a digit.
std::string c_identifier(std::string_view name);
// Returns "dim_batch", or "coordinate_tp" for a coordinate. If the name is not an identifier: "dimension_" or
// "coordinates_", its identifier characters and a hash, so that "a b", "a-b" and "a_b" stay different.
std::string dim_identifier(ir::Expr dim);
// "rank / 4 % 2": the value of a coordinate on the rank that `rank` is the text of.
std::string coordinate_text(const ir::Mesh& mesh, ir::Expr coordinate, std::string_view rank);
// A string literal, quotes included; plain ASCII.
std::string c_string(std::string_view text);
// Text that is safe in a one-line comment: control characters and a trailing backslash would break out of it.
std::string c_comment(std::string_view text);

std::string abi_dtype(ir::DType dtype);             // BRAID_F32
std::string abi_ranks(const ir::CommGroup& group);  // "0, 1, 2, 3": part after part

// Returns a statement as lines of at most 110 columns with this indentation. Lines are broken after commas
// outside of string literals and continue four columns further in. Comments, and text without such a comma,
// stay as they are.
std::string wrapped(std::string_view statement, std::size_t indent);

// The identifiers of one scope.
class CNames {
 public:
  // Returns `wanted`, with _2, _3, ... appended if it is taken.
  std::string unique(std::string_view wanted);

 private:
  std::set<std::string> taken_;
};

}  // namespace braid::codegen
