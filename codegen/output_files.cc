#include "codegen/output_files.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <system_error>

#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid::codegen {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void cannot_write(const std::string& path, const std::string& why) {
  ir::user_error(errors::kCannotWrite, {.file = path}, fmt::format("cannot be written: {}", why),
                 "is the disk full, or the folder read-only?");
}

// Writes over what is there. `shown`: the path of messages.
void write_in_place(const fs::path& path, std::span<const std::string_view> parts, const std::string& shown) {
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  for (const std::string_view part : parts) file << part;
  file.close();
  if (!file) cannot_write(shown, std::strerror(errno));
}

}  // namespace

OutputFiles::OutputFiles(const fs::path& folder) : folder_(folder.empty() ? fs::path(".") : folder) {
  try {
    made_.make(folder_);
  } catch (const fs::filesystem_error& error) {
    cannot_write(folder_.string(), error.code().message());
  }
}

OutputFiles::~OutputFiles() {
  std::error_code ignored;
  if (!aside_.empty()) fs::remove_all(aside_, ignored);
}

void OutputFiles::write(const std::string& name, std::span<const std::string_view> parts) {
  const std::string shown = (folder_ / name).string();
  std::error_code error;
  if (fs::is_directory(folder_ / name, error)) cannot_write(shown, "there is a folder of that name");
  if (aside_.empty()) {
    std::string pattern = (folder_ / ".braid-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) cannot_write(shown, std::strerror(errno));
    aside_ = pattern;
    leftover_.emplace(pattern);
  }
  const fs::path path = aside_ / name;
  fs::create_directories(path.parent_path(), error);  // an error: then the file cannot be written
  write_in_place(path, parts, shown);
  struct stat before {};  // the new file keeps the permissions of the old one
  if (::stat((folder_ / name).c_str(), &before) == 0) (void)::chmod(path.c_str(), before.st_mode & 0777);
  names_.push_back(name);
}

std::vector<std::string> OutputFiles::publish() {
  std::vector<std::string> paths;
  for (const std::string& name : names_) {
    const fs::path path = folder_ / name;
    try {
      made_.make(path.parent_path());
      fs::rename(aside_ / name, path);
    } catch (const fs::filesystem_error& error) {
      cannot_write(path.string(), error.code().message());
    }
    paths.push_back(path.string());
  }
  names_.clear();
  return paths;
}

void write_file(const std::string& path, std::span<const std::string_view> parts) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  const bool exists = fs::exists(status);
  if ((exists && !fs::is_regular_file(status) && !fs::is_directory(status)) ||
      (!exists && fs::is_symlink(fs::symlink_status(path, error))))
    return write_in_place(path, parts, path);
  const fs::path target = exists ? fs::canonical(path) : fs::path(path);
  // A file may be writable though its folder is not.
  if (exists && ::access(target.parent_path().c_str(), W_OK) != 0 && ::access(target.c_str(), W_OK) == 0)
    return write_in_place(path, parts, path);
  if (!target.has_filename()) cannot_write(path, std::strerror(EISDIR));
  const fs::path folder = target.parent_path();
  if (!folder.empty() && !fs::is_directory(folder, error)) cannot_write(path, std::strerror(ENOENT));
  OutputFiles files(folder);
  files.write(target.filename().string(), parts);
  files.publish();
}

}  // namespace braid::codegen
