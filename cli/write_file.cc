#include "cli/write_file.h"

#include <fstream>

#include "cli/errors.h"
#include "ir/error.h"

namespace braid::cli {

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  if (!file.flush())
    ir::user_error(kCannotWrite, {.file = path}, "cannot write the file", "check the path and the disk");
}

}  // namespace braid::cli
