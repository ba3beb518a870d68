// A folder that is removed with the object, when a signal ends the process, or by a later process if this one
// is killed.
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

// Removes the folders that TempDirs of killed processes have left next to a new one: folders of this user
// whose process, on this machine and in this container, is gone. The first TempDir of a process calls this.
void remove_abandoned_folders();

}  // namespace braid::codegen
