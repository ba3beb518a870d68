// Folders that are made for output: where nothing was written into them in the end, they go again.
#pragma once

#include <filesystem>
#include <ranges>
#include <system_error>
#include <vector>

namespace braid::codegen {

class MadeFolders {
 public:
  MadeFolders() = default;
  ~MadeFolders() {
    std::error_code ignored;  // not empty
    for (const std::filesystem::path& folder : std::views::reverse(made_))
      std::filesystem::remove(folder, ignored);
  }
  MadeFolders(const MadeFolders&) = delete;
  MadeFolders& operator=(const MadeFolders&) = delete;

  // The folder and those above it that do not exist. Throws std::filesystem::filesystem_error.
  void make(const std::filesystem::path& folder) {
    std::error_code ignored;
    std::vector<std::filesystem::path> missing;
    for (std::filesystem::path at = folder; !at.empty() && !std::filesystem::exists(at, ignored);
         at = at.parent_path())
      missing.push_back(at);
    made_.insert(made_.end(), missing.rbegin(), missing.rend());
    std::filesystem::create_directories(folder);
  }

 private:
  std::vector<std::filesystem::path> made_;  // the outermost first
};

}  // namespace braid::codegen
