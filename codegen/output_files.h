// The files of one result: they appear together, or not at all. Earlier files stay until then.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/leftovers.h"
#include "codegen/made_folders.h"

namespace braid::codegen {

class OutputFiles {
 public:
  // Makes the folder if there is none. All files lie in it, or below.
  explicit OutputFiles(const std::filesystem::path& folder);
  // Removes what has not been published, and folders that are still empty.
  ~OutputFiles();
  OutputFiles(const OutputFiles&) = delete;
  OutputFiles& operator=(const OutputFiles&) = delete;

  // Writes a file aside, into a hidden folder. `name` may have folders in it. UserError BR0010.
  void write(const std::string& name, std::span<const std::string_view> parts);
  void write(const std::string& name, std::string_view text) { write(name, std::span(&text, 1)); }
  // Gives all files their names, and returns these with the folder. UserError BR0010.
  std::vector<std::string> publish();

 private:
  std::filesystem::path folder_;
  codegen::MadeFolders made_;
  std::filesystem::path aside_;  // empty until it is made
  std::optional<codegen::Leftover> leftover_;
  std::vector<std::string> names_;
};

// Writes one file, the parts one after another. UserError BR0010 if it cannot be written; then an existing
// file stays. A device, a pipe or a dangling link is written directly.
void write_file(const std::string& path, std::span<const std::string_view> parts);
inline void write_file(const std::string& path, std::string_view text) {
  write_file(path, std::span(&text, 1));
}

}  // namespace braid::codegen
