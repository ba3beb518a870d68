// The library of a program, looked at before it is opened: opening runs code, and reading what is missing of
// a truncated one ends the process.
#pragma once

#include <cstdint>
#include <string>

namespace braid::rt {

enum class SealNeed { required, if_present };

// Throws ProgramError(kCannotOpen) where the file is no whole ELF library, has been changed since `braid
// compile` sealed it, is of another compilation than `id` (0: any), or has no seal where one is required:
// applications build libraries of their own from generated source.
void check_library(const std::string& path, SealNeed need, uint64_t id = 0);

}  // namespace braid::rt
