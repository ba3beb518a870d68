#include "cli/bytes_text.h"

#include <fmt/format.h>

namespace braid::cli {

std::string bytes_text(std::int64_t bytes) {
  if (bytes < 10 * 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  const char* const units[] = {"KiB", "MiB", "GiB"};
  int unit = 0;
  for (; unit < 2 && value >= 10 * 1024; ++unit) value /= 1024;
  return fmt::format("{:.1f} {}", value, units[unit]);
}

}  // namespace braid::cli
