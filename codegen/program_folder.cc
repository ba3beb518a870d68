#include "codegen/program_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "ir/error.h"
#include "ir/error_numbers.h"
#include "runtime/weight_file.h"

namespace braid::codegen {

namespace fs = std::filesystem;

namespace {

constexpr const char* kHint = "is the disk full, or the folder read-only?";
constexpr std::string_view kAside = ".braid-";

[[noreturn]] void cannot_write_folder(const std::string& path, const std::string& why) {
  ir::user_error(errors::kCannotWrite, {.file = path}, fmt::format("cannot be written: {}", why), kHint);
}

Descriptor open_folder(const std::string& dir) {
  return Descriptor(::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

// Locks a folder: one process at a time changes its contents. The lock ends with the process that holds it.
// On file systems without locks, the ids in the files distinguish two programs.
Descriptor lock_folder(const std::string& dir) {
  Descriptor folder = open_folder(dir);
  if (folder.get() < 0) cannot_write_folder(dir, std::strerror(errno));
  while (::flock(folder.get(), LOCK_EX) != 0 && errno == EINTR) {
  }
  return folder;
}

// Removes remains of killed compilations, which no process locks.
void remove_abandoned(const std::string& dir) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(dir, ignored)) {
    if (!entry.path().filename().string().starts_with(kAside) || !entry.is_directory(ignored) ||
        entry.is_symlink(ignored))
      continue;
    const Descriptor owner = open_folder(entry.path().string());
    if (owner.get() >= 0 && ::flock(owner.get(), LOCK_EX | LOCK_NB) == 0) fs::remove_all(entry, ignored);
  }
}

void write_text(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) cannot_write_folder(path.string(), std::strerror(errno));
}

// Whether the file is a weight file of Braid, by its header. A build tool that removes only the files it
// knows leaves such files without a manifest.
bool is_weight_file(const fs::path& path) {
  char magic[sizeof rt::kWeightMagic] = {};
  std::ifstream(path, std::ios::binary).read(magic, sizeof magic);
  return std::memcmp(magic, rt::kWeightMagic, sizeof magic) == 0;
}

}  // namespace

ProgramFolder::ProgramFolder(const std::string& dir) : dir_(dir.empty() ? "." : dir) {
  try {
    made_.make(dir_);
  } catch (const fs::filesystem_error& e) {
    cannot_write_folder(dir_, e.code().message());
  }
  const Descriptor lock = lock_folder(dir_);
  remove_abandoned(dir_);
  std::string pattern = (fs::path(dir_) / (std::string(kAside) + "XXXXXX")).string();
  if (::mkdtemp(pattern.data()) == nullptr) cannot_write_folder(dir_, std::strerror(errno));
  aside_ = pattern;
  leftover_.emplace(aside_);
  owner_ = open_folder(aside_);
  ::flock(owner_.get(), LOCK_EX);
}

ProgramFolder::~ProgramFolder() {
  std::error_code ignored;
  fs::remove_all(aside_, ignored);
}

void ProgramFolder::refuse_foreign_files() const {
  const auto refuse = [](const fs::path& path) {
    ir::user_error(errors::kForeignFile, {.file = path.string()},
                   "is in the way: it does not belong to a program compiled into this folder",
                   "choose another folder, or move that file");
  };
  const std::optional<std::vector<std::string>> old = files_of_program(dir_);
  std::error_code ignored;
  const fs::path manifest = manifest_path(dir_);
  if (!old && fs::exists(fs::symlink_status(manifest, ignored))) refuse(manifest);
  for (const std::string& file : named_) {
    const fs::path path = fs::path(dir_) / file;
    for (fs::path folder = fs::path(file).parent_path(); !folder.empty(); folder = folder.parent_path()) {
      const fs::path at = fs::path(dir_) / folder;
      const fs::file_status status = fs::symlink_status(at, ignored);
      if (fs::exists(status) && !fs::is_directory(status)) refuse(at);
    }
    const fs::file_status status = fs::symlink_status(path, ignored);
    const bool known = old && std::find(old->begin(), old->end(), file) != old->end();
    if (!fs::exists(status) || (known && !fs::is_directory(status))) continue;
    if (!fs::is_regular_file(status) || !is_weight_file(path)) refuse(path);
  }
}

void ProgramFolder::write(const std::vector<TextFile>& sources, const ir::Graph& graph,
                          const WeightLayout& weights, std::uint64_t id,
                          const nlohmann::ordered_json& manifest) {
  named_ = manifest["files"].get<std::vector<std::string>>();
  refuse_foreign_files();
  for (const TextFile& source : sources) {
    std::error_code ignored;  // then the file cannot be written
    fs::create_directories((fs::path(aside_) / source.name).parent_path(), ignored);
    write_text(fs::path(aside_) / source.name, source.text);
    written_.push_back(source.name);
  }
  write_weights(graph, weights, id, aside_, dir_);
  for (const std::string& file : weight_files(graph, weights)) written_.push_back(file);
  write_text(manifest_path(aside_), manifest_text(manifest));
  written_.emplace_back("manifest.json");
}

std::vector<std::string> ProgramFolder::publish() {
  const Descriptor lock = lock_folder(dir_);
  refuse_foreign_files();
  const fs::path dir = dir_, aside = aside_, manifest = manifest_path(dir_);
  std::vector<std::string> gone;
  std::vector<std::string> files = written_;
  for (const std::string& file : named_) {
    const bool built = fs::exists(aside / file);
    if (built && std::find(files.begin(), files.end(), file) == files.end()) files.push_back(file);
    if (!built) gone.push_back(file);
  }
  std::vector<std::string> both = named_;
  for (const std::string& file : files_of_program(dir_).value_or(std::vector<std::string>())) {
    if (std::find(both.begin(), both.end(), file) != both.end()) continue;
    both.push_back(file);
    gone.push_back(file);
  }
  write_text(aside / "unfinished.json", unfinished_manifest(both));
  try {
    fs::rename(aside / "unfinished.json", manifest);
    for (const std::string& file : files) {
      if (file == "manifest.json") continue;
      fs::create_directories((dir / file).parent_path());
      fs::rename(aside / file, dir / file);
    }
    for (const std::string& file : gone) {
      if (!fs::is_directory(fs::symlink_status(dir / file))) fs::remove(dir / file);
      std::error_code ignored;  // an error: others are in it
      for (fs::path folder = fs::path(file).parent_path(); !folder.empty(); folder = folder.parent_path())
        fs::remove(dir / folder, ignored);
    }
    fs::rename(aside / "manifest.json", manifest);
  } catch (const fs::filesystem_error& e) {
    cannot_write_folder(dir_, e.code().message());
  }
  for (std::string& file : files) file = (dir / file).string();
  return files;
}

std::string ProgramFolder::publish_library(const std::string& file, const Manifest& of) {
  const Descriptor lock = lock_folder(dir_);
  if (read_manifest(dir_).id != of.id) {
    ir::user_error(errors::kUnfinishedProgram, {.file = dir_},
                   "another program was compiled into this folder while the library of the first was built",
                   "run the command again");
  }
  const fs::path target = fs::path(dir_) / file;
  try {
    fs::rename(fs::path(aside_) / file, target);
  } catch (const fs::filesystem_error& e) {
    cannot_write_folder(target.string(), e.code().message());
  }
  return target.string();
}

}  // namespace braid::codegen
