// A folder that goes when the object goes.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "cli/errors.h"
#include "ir/error.h"

namespace braid::cli {

class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "braid-XXXXXX").string();
    if (!mkdtemp(pattern.data()))
      ir::user_error(kCannotWrite, {.file = pattern}, "cannot make a temporary folder",
                     "set TMPDIR to a folder that can be written");
    path_ = pattern;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace braid::cli
