// Checks the library of a program before it is opened: opening runs code, and reading past the end of a
// truncated one ends the process.
#pragma once

#include <cstdint>
#include <string>

namespace braid::rt {

enum class SealNeed { required, if_present };

// Throws ProgramError(kCannotOpen) if the file is not a complete ELF library, has changed since `braid
// compile` sealed it, is not of compilation `id` (0: any), or lacks a required seal. Applications that build
// their own libraries from generated source have no seal.
void check_library(const std::string& path, SealNeed need, uint64_t id = 0);

}  // namespace braid::rt
