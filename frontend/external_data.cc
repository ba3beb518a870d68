#include "frontend/external_data.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <onnx/onnx_pb.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <system_error>

#include "ir/error_numbers.h"

namespace braid::frontend {

namespace fs = std::filesystem;
using ir::Location;
using ir::user_error;

std::shared_ptr<const MappedFile> MappedFile::open(const fs::path& path) {
  const auto fail = [&](int error) {
    user_error(errors::kFileNotReadable, {.file = path.string()},
               fmt::format("cannot read the file: {}", std::strerror(error)),
               "check the path and the permissions");
  };
  // Opening a pipe would wait for its writer.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) fail(errno);
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    const int error = S_ISDIR(info.st_mode) ? EISDIR : EINVAL;
    ::close(fd);
    fail(error);
  }
  const auto size = static_cast<std::size_t>(info.st_size);
  const void* data = nullptr;
  if (size > 0) {
    data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
      const int error = errno;
      ::close(fd);
      fail(error);
    }
  }
  ::close(fd);
  return std::shared_ptr<const MappedFile>(new MappedFile(static_cast<const std::byte*>(data), size));
}

MappedFile::~MappedFile() {
  if (size_ > 0) ::munmap(const_cast<std::byte*>(data_), size_);
}

FileMap::FileMap(const fs::path& model_path)
    : folder_(model_path.has_parent_path() ? model_path.parent_path() : fs::path(".")) {}

namespace {

struct Entries {
  std::string location;
  std::int64_t offset = 0;
  std::int64_t length = -1;  // to what dtype and sizes ask for
};

Entries read_entries(const onnx::TensorProto& proto, const Location& at) {
  const auto number = [&](const std::string& key, const std::string& text) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < 0) {
      user_error(errors::kExternalDataEntry, at,
                 fmt::format("external data of '{}': {} is '{}', expected a number of bytes", proto.name(),
                             key, text),
                 "export the model again");
    }
    return value;
  };
  Entries entries;
  for (const onnx::StringStringEntryProto& entry : proto.external_data()) {
    if (entry.key() == "location") entries.location = entry.value();
    if (entry.key() == "offset") entries.offset = number("offset", entry.value());
    if (entry.key() == "length") entries.length = number("length", entry.value());
  }
  if (entries.location.empty()) {
    user_error(errors::kExternalDataEntry, at,
               fmt::format("external data of '{}' has no location", proto.name()), "export the model again");
  }
  return entries;
}

fs::path checked_path(const fs::path& folder, const std::string& location, const std::string& tensor,
                      const Location& at) {
  const auto refuse = [&](const char* why) {
    user_error(errors::kExternalDataPath, at,
               fmt::format("external data of '{}': location '{}' {}", tensor, location, why),
               "use a regular file in the model's folder");
  };
  const fs::path relative(location);
  if (location.find('\0') != std::string::npos) refuse("holds a zero byte");
  if (relative.is_absolute()) refuse("is an absolute path");
  for (const fs::path& part : relative) {
    if (part == "..") refuse("leaves the model's folder");
  }
  std::error_code error;
  const fs::path path = folder / relative;
  const fs::path real_folder = fs::weakly_canonical(folder, error);
  const fs::path real = fs::canonical(path, error);
  if (error) {
    user_error(errors::kExternalDataMissing, at,
               fmt::format("external data of '{}': no file '{}' in the model's folder", tensor, location),
               "copy the data file next to the model, with the name that the model gives");
  }
  const auto [end, rest] = std::mismatch(real_folder.begin(), real_folder.end(), real.begin(), real.end());
  if (end != real_folder.end()) refuse("leads out of the model's folder through a symbolic link");
  if (!fs::is_regular_file(real, error)) refuse("is not a regular file");
  return path;
}

}  // namespace

ExternalBytes FileMap::find(const onnx::TensorProto& proto, std::int64_t expected, const Location& at) {
  const Entries entries = read_entries(proto, at);
  auto known = files_.find(entries.location);
  if (known == files_.end()) {
    const fs::path path = checked_path(folder_, entries.location, proto.name(), at);
    known = files_.emplace(entries.location, std::pair(path, MappedFile::open(path))).first;
  }
  const auto& [path, file] = known->second;
  const std::int64_t length = entries.length < 0 ? expected : entries.length;
  const auto size = static_cast<std::int64_t>(file->bytes().size());
  if (entries.offset > size || length > size - entries.offset) {
    user_error(errors::kExternalDataShort, at,
               fmt::format("external data of '{}' is {} bytes at offset {} of '{}', which has only {} bytes",
                           proto.name(), length, entries.offset, entries.location, size),
               "the data file is truncated or belongs to another model");
  }
  if (length != expected) {
    user_error(errors::kInitializerSize, at,
               fmt::format("external data of '{}' has {} bytes, but its type and sizes require {}",
                           proto.name(), length, expected),
               "export the model again");
  }
  return {file->bytes().subspan(static_cast<std::size_t>(entries.offset), static_cast<std::size_t>(length)),
          file, path.string(), entries.offset};
}

}  // namespace braid::frontend
