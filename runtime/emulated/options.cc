#include "runtime/emulated/options.h"

#include <cstdio>
#include <cstdlib>
#include <string>

#include "runtime/emulated/variables.h"

namespace braid::emulated {
namespace {

// A wrongly configured device is worse than none, so an invalid value ends the program.
int64_t number(const rt::NumberVariable& variable, int64_t otherwise) {
  int64_t value = otherwise;
  const std::string error = read_variable(variable, &value);
  if (error.empty()) return value;
  std::fprintf(stderr, "emulated device: %s\n", error.c_str());
  std::exit(EXIT_FAILURE);
}

Options from_environment() {
  Options o;
  o.devices = static_cast<int>(number(kDevices, o.devices));
  o.device_bytes = static_cast<size_t>(number(kMemoryMb, static_cast<int64_t>(o.device_bytes >> 20))) << 20;
  o.time_out = std::chrono::milliseconds(number(kTimeoutMs, o.time_out.count()));
  o.hang = std::chrono::milliseconds(number(kHangMs, o.hang.count()));
  o.max_delay = std::chrono::microseconds(number(kDelayUs, 0));
  o.seed = static_cast<uint64_t>(number(kSeed, 1));
  o.deterministic = number(kDeterministic, 0) != 0;
  o.shared_bytes = static_cast<size_t>(number(kSharedKb, static_cast<int64_t>(o.shared_bytes >> 10))) << 10;
  o.symmetric = number(kSymmetric, 1) != 0;
  o.misaligned_pointers = number(kMisalignedPointers, 1) != 0;
  o.check_accesses = number(kCheck, 1) != 0;
#ifdef __SANITIZE_THREAD__
  o.check_accesses = false;  // libtsan has the hooks, so kernels' accesses are unknown
#endif
  o.count_accesses = number(kCount, 0) != 0;
  o.print_findings = number(kPrint, 1) != 0;
  return o;
}

}  // namespace

Options& options() {
  static Options instance = from_environment();
  return instance;
}

}  // namespace braid::emulated
