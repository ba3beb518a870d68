#include "cli/colour.h"

#include <unistd.h>

#include <cstdlib>
#include <regex>

namespace braid::cli {
namespace {

bool set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

}  // namespace

bool terminal_has_escapes() {
  const char* terminal = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) == 1 && terminal != nullptr && std::string(terminal) != "dumb";
}

std::string coloured_error(const std::string& text) {
  if (!terminal_has_escapes() || set("NO_COLOR")) return text;
  static const std::regex error("(^|\n)((?:internal )?error(?: BR[0-9]{4})?:)"), hint("(\n *)(hint:)");
  return std::regex_replace(std::regex_replace(text, error, "$1\033[1;31m$2\033[0m"), hint,
                            "$1\033[36m$2\033[0m");
}

}  // namespace braid::cli
