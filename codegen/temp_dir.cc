#include "codegen/temp_dir.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <string_view>

#include "codegen/toolchain.h"
#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid::codegen {

namespace fs = std::filesystem;

namespace {

constexpr mode_t kMode = 0700;

// Identifies the PID namespace of the process ids in names: this boot of this machine, in this container.
// Empty if that is unknown.
std::string numbering() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat facts {};
  if (boot.empty() || ::stat("/proc/self/ns/pid", &facts) != 0) return "";
  return fmt::format("{}.{}", boot, facts.st_ino);
}

// Returns the folder for temporary folders; *why says why $TMPDIR cannot be used.
fs::path parent_folder(std::string* why) {
  const std::string given = environment("TMPDIR", "/tmp");
  std::error_code error;
  if (!fs::is_directory(given, error))
    *why = fmt::format("TMPDIR='{}' is not a folder{}", given, error ? ": " + error.message() : "");
  return given;
}

// "braid-PROCESS-NUMBERING-RANDOM"
std::string new_name() {
  std::string why;
  const fs::path parent = parent_folder(&why);
  if (!why.empty())
    ir::user_error(errors::kBadVariable, {}, why, "set TMPDIR to a writable folder, or unset it for /tmp");
  std::random_device random;
  return (parent / fmt::format("braid-{}-{}-{:08x}{:08x}", ::getpid(), numbering(), random(), random()))
      .string();
}

// The process that has made the folder of that name, if its number says anything here.
std::optional<pid_t> maker(std::string_view name, const std::string& numbering) {
  constexpr std::string_view kPrefix = "braid-";
  constexpr std::size_t kRandomDigits = 16;
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  pid_t process = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), process);
  if (error != std::errc{} || process <= 0) return std::nullopt;
  name.remove_prefix(static_cast<std::size_t>(end - name.data()));
  const std::string middle = "-" + numbering + "-";
  if (!name.starts_with(middle)) return std::nullopt;
  name.remove_prefix(middle.size());
  const bool ours =
      name.size() == kRandomDigits && name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
  return ours ? std::optional(process) : std::nullopt;
}

}  // namespace

void remove_abandoned_folders() {
  const std::string here = numbering();
  if (here.empty()) return;
  std::string why;
  const fs::path parent = parent_folder(&why);
  std::error_code error;
  struct stat folder {};
  // If others may rename our folders, a folder of that name need not be a temporary one.
  if (!why.empty() || ::stat(parent.c_str(), &folder) != 0 ||
      ((folder.st_mode & (S_IWGRP | S_IWOTH)) != 0 && (folder.st_mode & S_ISVTX) == 0))
    return;
  fs::directory_iterator entry(parent, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::optional<pid_t> process = maker(entry->path().filename().string(), here);
    if (!process || ::kill(*process, 0) == 0 || errno != ESRCH) continue;
    struct stat facts {};
    std::error_code ignored;
    if (::lstat(entry->path().c_str(), &facts) == 0 && S_ISDIR(facts.st_mode) &&
        facts.st_uid == ::geteuid() && (facts.st_mode & 0777) == kMode)
      fs::remove_all(entry->path(), ignored);
  }
}

TempDir::TempDir() : path_(new_name()), leftover_(path_) {
  [[maybe_unused]] static const bool once = (remove_abandoned_folders(), true);
  if (::mkdir(path_.c_str(), kMode) != 0)
    ir::user_error(errors::kCannotWrite, {.file = path_},
                   fmt::format("cannot create a temporary folder: {}", std::strerror(errno)),
                   "set TMPDIR to a writable folder");
}

TempDir::~TempDir() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace braid::codegen
