// A file mapped for reading.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>

namespace braid::rt {

class MappedFile {
 public:
  MappedFile() = default;
  // Throws ProgramError(kCannotOpen) if it is not a regular file, is empty or is not readable.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& o) noexcept { *this = std::move(o); }
  MappedFile& operator=(MappedFile&& o) noexcept {
    std::swap(bytes_, o.bytes_);
    return *this;
  }

  std::span<const std::byte> bytes() const { return bytes_; }
  // Gives the pages back to the page cache; those needed again are mapped in again.
  void drop() const;

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace braid::rt
