// Objects and libraries that a compiler made, shared by all programs of a user, in a private folder:
// $BRAID_CACHE_DIR/objects, else $XDG_CACHE_HOME/braid/objects, else ~/.cache/braid/objects. Its contents are
// linked into programs. Therefore the user must own the folder, other users may neither read nor write it,
// and links to it are not followed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "codegen/descriptor.h"

namespace braid::codegen {

class ObjectCache {
 public:
  static constexpr std::uint64_t kLimit = std::uint64_t{256} << 20;

  // nullopt if the folder does not exist and cannot be made; then every program builds its own object.
  static std::optional<ObjectCache> of_user();
  // `limit` bounds the bytes of all entries; the least recently used ones are evicted.
  static std::optional<ObjectCache> open(const std::filesystem::path& dir, std::uint64_t limit = kLimit);

  // nullopt if there is no entry. A corrupt entry is removed.
  std::optional<std::string> find(const std::string& key) const;
  // Writes to a temporary file and renames it: a concurrent reader sees the whole entry or none, and of
  // concurrent writers one wins. Failures are ignored.
  void store(const std::string& key, const std::string& contents) const;

 private:
  ObjectCache(Descriptor folder, std::uint64_t limit) : folder_(std::move(folder)), limit_(limit) {}
  void make_room(const std::string& kept) const;

  Descriptor folder_;
  std::uint64_t limit_;
};

}  // namespace braid::codegen
