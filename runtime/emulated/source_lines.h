// Lines of a program's source.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace braid::emulated {

// Returns "line 12 of model.cu", or "model.so+0x1234" where there are no lines, for the addresses of
// instructions. Asks binutils' addr2line, once for each object.
std::map<uintptr_t, std::string> source_lines(const std::vector<uintptr_t>& code);

}  // namespace braid::emulated
