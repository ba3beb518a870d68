// Finding and running what turns generated source into a library. Shared by all targets.
#pragma once

#include <filesystem>
#include <string>

namespace braid::codegen {

std::string environment(const char* name, const std::string& otherwise);
// One argument of a shell command.
std::string shell_word(const std::string& text);

// Where generated source finds headers and the library that it links with.
struct RuntimeFiles {
  std::filesystem::path headers;  // holds runtime/
  std::filesystem::path library;  // empty where the file was not asked for
};
// Looks for `library_file` (may be empty) in `given`, else in BRAID_RUNTIME_DIR, else beside the compiler's
// own library, else in the build tree. User error BR0604.
RuntimeFiles find_runtime(const std::string& given, const std::string& library_file);

struct CommandResult {
  int status = 0;
  std::string output;  // stdout and stderr, as far as the command's redirections leave any
};
CommandResult run_command(const std::string& command);
// The first `count` lines, indented.
std::string first_lines(const std::string& text, int count);

}  // namespace braid::codegen
