#include "codegen/object_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <span>
#include <vector>

#include "codegen/toolchain.h"
#include "runtime/hash.h"
#include "runtime/sealed_file.h"

namespace braid::codegen {

namespace fs = std::filesystem;

namespace {

constexpr const char* kEntry = ".o";
constexpr const char* kPartial = ".partial";
constexpr std::time_t kAbandonedAfter = 3600;  // seconds: no write takes so long

std::string entry_name(const std::string& key) { return key + kEntry; }
std::uint64_t seal_id(const std::string& key) { return rt::fnv1a(key); }

bool write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return true;
}

std::optional<std::string> read_all(int fd, std::size_t bytes) {
  std::string contents(bytes, '\0');
  for (std::size_t at = 0; at < bytes;) {
    const ssize_t n = ::read(fd, contents.data() + at, bytes - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return std::nullopt;
    at += static_cast<std::size_t>(n);
  }
  return contents;
}

}  // namespace

std::optional<ObjectCache> ObjectCache::of_user() {
  const fs::path given = environment("BRAID_CACHE_DIR", ""), caches = environment("XDG_CACHE_HOME", ""),
                 home = environment("HOME", "");
  if (!given.empty()) return open(given / "objects");
  if (caches.is_absolute()) return open(caches / "braid" / "objects");
  if (home.is_absolute()) return open(home / ".cache" / "braid" / "objects");
  return std::nullopt;
}

std::optional<ObjectCache> ObjectCache::open(const fs::path& dir, std::uint64_t limit) {
  std::error_code ignored;
  fs::create_directories(dir.parent_path(), ignored);
  ::mkdir(dir.c_str(), 0700);
  Descriptor folder(::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info = {};
  if (!folder.valid() || ::fstat(folder.get(), &info) != 0) return std::nullopt;
  if (info.st_uid != ::geteuid() || (info.st_mode & 077) != 0) return std::nullopt;
  return ObjectCache(std::move(folder), limit);
}

std::optional<std::string> ObjectCache::find(const std::string& key) const {
  const std::string name = entry_name(key);
  const Descriptor file(
      ::openat(folder_.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info = {};
  if (!file.valid() || ::fstat(file.get(), &info) != 0) return std::nullopt;
  if (S_ISREG(info.st_mode) && info.st_uid == ::geteuid() &&
      static_cast<std::uint64_t>(info.st_size) <= limit_) {
    std::optional<std::string> contents = read_all(file.get(), static_cast<std::size_t>(info.st_size));
    const auto bytes = std::as_bytes(std::span(contents ? *contents : std::string_view()));
    const std::optional<rt::Seal> seal = rt::seal_of(bytes);
    if (seal && seal->id == seal_id(key) && rt::seal_intact(bytes, *seal)) {
      ::futimens(file.get(), nullptr);  // used just now
      contents->resize(contents->size() - sizeof *seal);
      return contents;
    }
  }
  ::unlinkat(folder_.get(), name.c_str(), 0);
  return std::nullopt;
}

void ObjectCache::store(const std::string& key, const std::string& contents) const {
  const rt::Seal seal = rt::make_seal(std::as_bytes(std::span(contents)), seal_id(key));
  if (contents.size() + sizeof seal > limit_) return;
  const std::string partial = fmt::format("{}.{}{}", key, ::getpid(), kPartial);
  bool good = false;
  {
    const Descriptor file(::openat(folder_.get(), partial.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
    good = file.valid() && write_all(file.get(), std::as_bytes(std::span(contents))) &&
           write_all(file.get(), std::as_bytes(std::span(&seal, 1)));
  }
  good = good && ::renameat(folder_.get(), partial.c_str(), folder_.get(), entry_name(key).c_str()) == 0;
  if (!good) ::unlinkat(folder_.get(), partial.c_str(), 0);
  make_room(entry_name(key));
}

void ObjectCache::make_room(const std::string& kept) const {
  struct Entry {
    timespec used;
    std::uint64_t bytes;
    std::string name;
  };
  std::vector<Entry> entries;
  std::uint64_t total = 0;
  // fdopendir takes ownership of the descriptor.
  DIR* listing = ::fdopendir(::openat(folder_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (listing == nullptr) return;
  while (const dirent* e = ::readdir(listing)) {
    const std::string name = e->d_name;
    struct stat info = {};
    if (::fstatat(folder_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode))
      continue;
    if (name.ends_with(kPartial) && info.st_mtime + kAbandonedAfter < std::time(nullptr))
      ::unlinkat(folder_.get(), name.c_str(), 0);
    if (!name.ends_with(kEntry)) continue;
    total += static_cast<std::uint64_t>(info.st_size);
    if (name != kept) entries.push_back({info.st_mtim, static_cast<std::uint64_t>(info.st_size), name});
  }
  ::closedir(listing);
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.used.tv_sec, a.used.tv_nsec) < std::pair(b.used.tv_sec, b.used.tv_nsec);
  });
  for (const Entry& e : entries) {
    if (total <= limit_) return;
    if (::unlinkat(folder_.get(), e.name.c_str(), 0) == 0) total -= e.bytes;
  }
}

}  // namespace braid::codegen
