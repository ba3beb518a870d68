#include "harness/npz.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "codegen/leftovers.h"
#include "harness/npy.h"
#include "ir/error.h"
#include "ir/error_numbers.h"

#ifdef BRAID_HAS_LIBZIP
#include <zip.h>
#endif

namespace braid::harness {

#ifdef BRAID_HAS_LIBZIP

namespace {

// An archive that is not closed is not written.
using Archive = std::unique_ptr<zip_t, decltype([](zip_t* archive) { zip_discard(archive); })>;

[[noreturn]] void bad(const std::string& path, const std::string& why) {
  ir::user_error(errors::kBadNpy, {.file = path}, "this is not a readable .npz file: " + why,
                 "save it with numpy.savez");
}

[[noreturn]] void not_written(const std::string& path, const std::string& why) {
  ir::user_error(errors::kCannotWrite, {.file = path}, "cannot be written: " + why,
                 "is the disk full, or the folder read-only?");
}

std::string text_of(int code) {
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  std::string text = zip_error_strerror(&error);
  zip_error_fini(&error);
  return text;
}

std::string content_of(zip_t* archive, zip_uint64_t index, const std::string& path, const zip_stat_t& entry) {
  const std::unique_ptr<zip_file_t, decltype([](zip_file_t* f) { zip_fclose(f); })> file(
      zip_fopen_index(archive, index, 0));
  if (!file) bad(path, zip_strerror(archive));
  std::string content(entry.size, '\0');
  if (zip_fread(file.get(), content.data(), content.size()) != static_cast<zip_int64_t>(content.size()))
    bad(path, fmt::format("'{}' is damaged", entry.name));
  return content;
}

}  // namespace

NamedTensors read_npz(const std::string& path) {
  int code = 0;
  const Archive archive(zip_open(path.c_str(), ZIP_RDONLY, &code));
  if (!archive && (code == ZIP_ER_NOENT || code == ZIP_ER_OPEN)) {
    ir::user_error(errors::kFileNotReadable, {.file = path}, "cannot read the file: " + text_of(code),
                   "check the path");
  }
  if (!archive) bad(path, text_of(code));
  NamedTensors tensors;
  for (zip_uint64_t k = 0; k < static_cast<zip_uint64_t>(zip_get_num_entries(archive.get(), 0)); ++k) {
    zip_stat_t entry;
    if (zip_stat_index(archive.get(), k, 0, &entry) != 0) bad(path, zip_strerror(archive.get()));
    std::string name = entry.name;
    if (!name.ends_with(".npy")) bad(path, fmt::format("'{}' is no array", name));
    ir::Tensor tensor = parse_npy(path + ":" + name, content_of(archive.get(), k, path, entry));
    name.resize(name.size() - 4);
    tensors.emplace_back(std::move(name), std::move(tensor));
  }
  return tensors;
}

void write_npz(const std::string& path, const NamedTensors& tensors) {
  const codegen::Leftover half_written(path);
  int code = 0;
  Archive archive(zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code));
  if (!archive) not_written(path, text_of(code));
  std::vector<std::string> contents;  // read when the archive is closed
  for (const auto& [name, tensor] : tensors) contents.push_back(npy_content(tensor));
  for (std::size_t k = 0; k < tensors.size(); ++k) {
    zip_source_t* source = zip_source_buffer(archive.get(), contents[k].data(), contents[k].size(), 0);
    const zip_int64_t entry =
        zip_file_add(archive.get(), (tensors[k].first + ".npy").c_str(), source, ZIP_FL_ENC_UTF_8);
    if (entry < 0) {
      zip_source_free(source);
      not_written(path, zip_strerror(archive.get()));
    }
    // The same file each time: no clock in it (1980-01-01 is the format's first day).
    zip_file_set_dostime(archive.get(), static_cast<zip_uint64_t>(entry), 0, (1 << 5) | 1, 0);
    zip_set_file_compression(archive.get(), static_cast<zip_uint64_t>(entry), ZIP_CM_STORE, 0);
  }
  if (zip_close(archive.get()) != 0) not_written(path, zip_strerror(archive.get()));
  (void)archive.release();  // closed
}

#else

namespace {

[[noreturn]] void no_library(const std::string& path) {
  ir::user_error(errors::kNoArchives, {.file = path},
                 "this braid was built without libzip, which .npz files need",
                 "install libzip-dev and build again, or use .npy files");
}

}  // namespace

NamedTensors read_npz(const std::string& path) { no_library(path); }
void write_npz(const std::string& path, const NamedTensors&) { no_library(path); }

#endif

}  // namespace braid::harness
