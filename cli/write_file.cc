#include "cli/write_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "cli/errors.h"
#include "codegen/leftovers.h"
#include "ir/error.h"

namespace braid::cli {

void write_file(const std::string& path, std::span<const std::string_view> parts) {
  const codegen::Leftover half_written(path);
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  const bool opened = file.is_open();
  for (std::string_view part : parts) file << part;
  file.close();
  if (file) return;
  const std::string why = std::strerror(errno);
  std::error_code ignored;
  if (opened && std::filesystem::is_regular_file(path, ignored)) std::filesystem::remove(path, ignored);
  ir::user_error(kCannotWrite, {.file = path}, fmt::format("cannot be written: {}", why),
                 "is the disk full, or the folder read-only?");
}

}  // namespace braid::cli
