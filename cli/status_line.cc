#include "cli/status_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace braid::cli {
namespace {

constexpr const char* kEraseLine = "\r\033[K";

bool erases_lines() {
  const char* terminal = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) == 1 && terminal != nullptr && std::string(terminal) != "dumb";
}

}  // namespace

StatusLine::StatusLine() : terminal_(erases_lines()) {}

void StatusLine::show(std::string_view text) {
  if (!terminal_) return;
  fmt::print(stderr, "{}{}", kEraseLine, text);
  std::fflush(stderr);
  shown_ = true;
}

void StatusLine::clear() {
  if (shown_) fmt::print(stderr, "{}", kEraseLine);
  shown_ = false;
}

}  // namespace braid::cli
