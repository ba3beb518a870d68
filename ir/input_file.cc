#include "ir/input_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid::ir {
namespace {

constexpr int kWriterMs = 500;               // in which a pipe gets its writer
constexpr std::size_t kPiece = 1 << 20;      // of one system call
constexpr const char* kStandardInput = "-";  // in messages

}  // namespace

InputFile::InputFile(const std::string& path) : path_(path) {
  // Without O_NONBLOCK, opening a pipe would wait for its writer.
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) fail(std::strerror(errno));
  struct stat info {};
  const bool known = ::fstat(descriptor_, &info) == 0;
  pipe_ = known && S_ISFIFO(info.st_mode);
  if (pipe_ || (known && S_ISREG(info.st_mode))) return;
  ::close(descriptor_);
  descriptor_ = -1;
  fail(known && S_ISDIR(info.st_mode) ? std::strerror(EISDIR) : "it is neither a file nor a pipe");
}

InputFile::InputFile() : path_(kStandardInput), descriptor_(STDIN_FILENO), begun_(true) {}

InputFile::~InputFile() {
  if (descriptor_ > STDIN_FILENO || (descriptor_ == STDIN_FILENO && path_ != kStandardInput))
    ::close(descriptor_);
}

std::string InputFile::read(std::size_t bytes) {
  std::string text;
  while (text.size() < bytes && may_be_read()) {
    const std::size_t before = text.size(), want = std::min(kPiece, bytes - before);
    text.resize(before + want);
    const ssize_t got = ::read(descriptor_, text.data() + before, want);
    text.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && errno != EINTR && errno != EAGAIN) fail(std::strerror(errno));
    if (got == 0) break;
    begun_ = begun_ || got > 0;
  }
  return text;
}

std::string InputFile::rest(std::size_t most) {
  std::string text = read(most);
  if (text.size() == most && !read(1).empty()) fail(fmt::format("more than {} bytes of text", most));
  return text;
}

bool InputFile::may_be_read() {
  if (!pipe_) return true;
  pollfd wait{.fd = descriptor_, .events = POLLIN, .revents = 0};
  const int ready = ::poll(&wait, 1, begun_ ? -1 : kWriterMs);
  if (ready == 0) fail("it is a pipe without a writer");
  return true;
}

void InputFile::fail(const std::string& why) const {
  user_error(errors::kFileNotReadable, {.file = path_}, fmt::format("cannot read the file: {}", why),
             "check the path");
}

}  // namespace braid::ir
