#include "cli/colour.h"

#include <unistd.h>

#include <regex>

#include "runtime/environment.h"

namespace braid::cli {
bool terminal_has_escapes() {
  const char* terminal = rt::environment_value("TERM");
  return ::isatty(STDERR_FILENO) == 1 && terminal != nullptr && std::string(terminal) != "dumb";
}

std::string coloured_error(const std::string& text) {
  if (!terminal_has_escapes() || rt::environment_value("NO_COLOR") != nullptr) return text;
  static const std::regex error("(^|\n)((?:internal )?error(?: BR[0-9]{4})?:)"), hint("(\n *)(hint:)");
  return std::regex_replace(std::regex_replace(text, error, "$1\033[1;31m$2\033[0m"), hint,
                            "$1\033[36m$2\033[0m");
}

}  // namespace braid::cli
