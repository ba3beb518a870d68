#include "cli/time_text.h"

#include <fmt/format.h>

namespace braid::cli {

std::string time_text(std::int64_t ns) {
  if (ns < 1000) return fmt::format("{} ns", ns);
  double value = static_cast<double>(ns) / 1e3;
  const char* const units[] = {"us", "ms", "s"};
  int unit = 0;
  for (; unit < 2 && value >= 999.5; ++unit) value /= 1e3;
  return fmt::format("{:.{}f} {}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0, units[unit]);
}

}  // namespace braid::cli
