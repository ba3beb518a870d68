// Finds and runs what turns generated source into a library. Shared by all targets.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace braid::codegen {

std::string environment(const char* name, const std::string& otherwise);
// Quotes `text` as one argument of a shell command.
std::string shell_word(const std::string& text);

// The headers and the library for generated source.
struct RuntimeFiles {
  std::filesystem::path headers;  // holds runtime/
  std::filesystem::path library;  // empty if no file was requested
  std::string link;  // what the library itself is linked with, from LIBRARY.link beside it, where
                     // $LIBRARY_FOLDER stands for that folder
};
// Looks for `library_file` (may be empty) in `given`, else in BRAID_RUNTIME_DIR, else beside the compiler's
// own library, else in the build tree. User error BR0604.
RuntimeFiles find_runtime(const std::string& given, const std::string& library_file);

struct CommandResult {
  int status = 0;
  std::string output;  // stdout, and stderr if the command redirects it
};
CommandResult run_command(const std::string& command);

// Runs a compiler that writes `partial`, renames that file to `target` when it is complete, and returns the
// path of `target`. If the compiler fails, `partial` is removed and `fail`, which must throw, gets the first
// lines of its output. Prints the command first if `verbose`.
std::string run_compiler(const std::string& command, const std::filesystem::path& partial,
                         const std::filesystem::path& target, bool verbose,
                         const std::function<void(const std::string& lines)>& fail);

// Appends the seal (runtime/sealed_file.h) that identifies a library before it is loaded. User error BR0010.
void seal_library(const std::string& library, std::uint64_t compilation_id);

}  // namespace braid::codegen
