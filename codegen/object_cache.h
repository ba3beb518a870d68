// Compiled objects that all programs of a user share: a private folder, $BRAID_CACHE_DIR/objects, else
// $XDG_CACHE_HOME/braid/objects, else ~/.cache/braid/objects. What is in it is linked into programs, so it
// belongs to the user, nobody else may look or write into it, and no link is followed to it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "codegen/descriptor.h"

namespace braid::codegen {

class ObjectCache {
 public:
  static constexpr std::uint64_t kLimit = std::uint64_t{64} << 20;

  // Nothing where the user has no such folder and none can be made: then everybody builds for himself.
  static std::optional<ObjectCache> of_user();
  // `limit`: bytes of all entries; those that were not used for the longest time make room.
  static std::optional<ObjectCache> open(const std::filesystem::path& dir, std::uint64_t limit = kLimit);

  // Nothing where there is no entry. One whose contents are not what was stored is removed.
  std::optional<std::string> find(const std::string& key) const;
  // Written aside and renamed: who looks meanwhile finds all of it or nothing, and of several who store the
  // same one wins. What cannot be stored is not.
  void store(const std::string& key, const std::string& contents) const;

 private:
  ObjectCache(Descriptor folder, std::uint64_t limit) : folder_(std::move(folder)), limit_(limit) {}
  void make_room(const std::string& kept) const;

  Descriptor folder_;
  std::uint64_t limit_;
};

}  // namespace braid::codegen
