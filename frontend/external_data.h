// Files mapped into memory: models and their external data.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "ir/error.h"

namespace onnx {
class TensorProto;
}

namespace braid::frontend {

// A whole file, mapped read-only; unmapped by the last owner.
class MappedFile {
 public:
  // Throws UserError kFileNotReadable.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  MappedFile(const std::byte* data, std::size_t size) : data_(data), size_(size) {}
  const std::byte* data_;
  std::size_t size_;
};

// The part of a file that holds one tensor.
struct ExternalBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
  std::string file;
  std::int64_t offset = 0;
};

// The external data of one model. Every file is mapped once. A location is relative to the model's folder and
// must stay inside it: no absolute path, no "..", no symbolic link that leads out.
class FileMap {
 public:
  explicit FileMap(const std::filesystem::path& model_path);

  // The bytes named by the entries location, offset and length of `proto`. `expected` is the number that
  // dtype and sizes imply.
  ExternalBytes find(const onnx::TensorProto& proto, std::int64_t expected, const ir::Location& at);

 private:
  std::filesystem::path folder_;
  std::map<std::string, std::pair<std::filesystem::path, std::shared_ptr<const MappedFile>>> files_;
};

}  // namespace braid::frontend
