// Reads files that users give, without waiting or reading forever. A pipe without a writer is an error, as is
// a device; an endless stream exceeds the limit on the length.
#pragma once

#include <cstddef>
#include <string>

namespace braid::ir {

// The limit of a text that is read as a whole.
inline constexpr std::size_t kMostTextBytes = std::size_t{256} << 20;

class InputFile {
 public:
  // A regular file or a pipe. User error BR0001.
  explicit InputFile(const std::string& path);
  // Standard input.
  InputFile();
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  // The next bytes: `bytes` of them, fewer at the end of the file. User error BR0001.
  std::string read(std::size_t bytes);
  // All that is left. User error BR0001, also if it is more than `most`.
  std::string rest(std::size_t most = kMostTextBytes);

 private:
  [[noreturn]] void fail(const std::string& why) const;
  bool may_be_read();

  std::string path_;
  int descriptor_ = -1;
  bool pipe_ = false;
  bool begun_ = false;  // something has been read
};

inline std::string read_text_file(const std::string& path) { return InputFile(path).rest(); }

}  // namespace braid::ir
