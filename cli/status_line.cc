#include "cli/status_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include "cli/colour.h"

namespace braid::cli {
namespace {

constexpr const char* kEraseLine = "\r\033[K";

// A terminal that has gone away is no reason to stop.
void put(std::string_view text) { (void)!::write(STDERR_FILENO, text.data(), text.size()); }

}  // namespace

StatusLine::StatusLine() : terminal_(terminal_has_escapes()) {}

void StatusLine::show(std::string_view text) {
  if (!terminal_) return;
  put(fmt::format("{}{}", kEraseLine, text));
  shown_ = true;
}

void StatusLine::clear() {
  if (shown_) put(kEraseLine);
  shown_ = false;
}

}  // namespace braid::cli
