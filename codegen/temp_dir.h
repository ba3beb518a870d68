// A folder that is removed with the object, or when a signal ends the process.
#pragma once

#include <string>

#include "codegen/leftovers.h"

namespace braid::codegen {

class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  Leftover leftover_;
};

}  // namespace braid::codegen
