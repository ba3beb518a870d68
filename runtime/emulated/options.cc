#include "runtime/emulated/options.h"

#include <cstdlib>

namespace braid::emulated {
namespace {

int64_t number(const char* name, int64_t fallback) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return fallback;
  char* end = nullptr;
  const int64_t value = std::strtoll(text, &end, 10);
  return *end == '\0' ? value : fallback;
}

Options from_environment() {
  Options o;
  o.devices = static_cast<int>(number("BRAID_EMULATED_DEVICES", o.devices));
  o.device_bytes = static_cast<size_t>(number("BRAID_EMULATED_MEMORY_MB", o.device_bytes >> 20)) << 20;
  o.time_out = std::chrono::milliseconds(number("BRAID_EMULATED_TIMEOUT_MS", o.time_out.count()));
  o.max_delay = std::chrono::microseconds(number("BRAID_EMULATED_DELAY_US", 0));
  o.seed = static_cast<uint64_t>(number("BRAID_EMULATED_SEED", 1));
  o.deterministic = number("BRAID_EMULATED_DETERMINISTIC", 0) != 0;
  o.check_accesses = number("BRAID_EMULATED_CHECK", 1) != 0;
#ifdef __SANITIZE_THREAD__
  o.check_accesses = false;  // libtsan has the hooks: what kernels write is not known
#endif
  o.print_findings = number("BRAID_EMULATED_PRINT", 1) != 0;
  return o;
}

}  // namespace

Options& options() {
  static Options instance = from_environment();
  return instance;
}

}  // namespace braid::emulated
