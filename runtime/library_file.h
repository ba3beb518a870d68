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

// Loads a checked library, for good. The dynamic linker answers a path under which it has loaded a library with that one, even
// if the file is another one by now, because the model has been compiled again; `is_it` says whether a handle is the file's.
// The path must have a folder, such as "./". Throws ProgramError(kCannotOpen).
void* open_library(const std::string& path, const std::function<bool(void* handle)>& is_it);

}  // namespace braid::rt
