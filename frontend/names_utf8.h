// ONNX's strings are UTF-8, but protobuf does not enforce that for files. Names go into JSON, source and
// Python, which do.
#pragma once

#include <onnx/onnx_pb.h>

#include <string>
#include <string_view>

namespace braid::frontend {

// Whether the bytes are UTF-8 as of RFC 3629: shortest forms, no surrogates, up to U+10FFFF.
bool is_utf8(std::string_view text);

// Throws BR0101 if a name, or another string except comments, notes and paths, is not UTF-8. Linear in the
// number of messages.
void check_names(const std::string& path, const onnx::ModelProto& model);

}  // namespace braid::frontend
