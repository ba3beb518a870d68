// Checks the library of a program before it is opened: opening runs code, and reading past the end of a
// truncated one ends the process.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace braid::rt {

enum class SealNeed { required, if_present };

// Throws ProgramError(kCannotOpen) if the file is not a complete ELF library, has changed since `braid
// compile` sealed it, is not of compilation `id` (0: any), or lacks a required seal. Applications that build
// their own libraries from generated source have no seal.
void check_library(const std::string& path, SealNeed need, uint64_t id = 0);

// Loads a checked library, for good. For a path that it has loaded before, the dynamic linker returns the old
// library, even if the file has been replaced because the model was compiled again; `is_it` says whether a
// handle belongs to the file. The path must have a folder, such as "./". Throws ProgramError(kCannotOpen).
void* open_library(const std::string& path, const std::function<bool(void* handle)>& is_it);

}  // namespace braid::rt
