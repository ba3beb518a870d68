// Schemas as rows of text, for operators that ONNX's library lacks:
//
//   MatMulNBits: T A, B B, T scales, Z? zero_points -> T Y
//     with K int, bits = 4, g_idx ints?
//     where T = narrow; B = uint8; Z = uint8 float
//
// Inputs and outputs have a type and a name; `?` may be left out, `*` any number of any of the types. An
// attribute has a default or a type, with `?` if it may be left out. Types are those of tensors, and these
// sets of them: values, floats, narrow (all of at most 32 bits), bytes and stored (integers of at most 16).
#pragma once

#include <string_view>

namespace braid::frontend {

// Registers the operators of a text in a domain, from this version on. The text must be right.
void register_schemas(const char* domain, std::string_view text, int version = 1);

}  // namespace braid::frontend
