#include "runtime/amx.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/processor.h"
#endif

namespace braid::rt {
namespace {

struct Units {
  bool int8 = false, bf16 = false;
};

Units detect() {
  Units units;
#if defined(__x86_64__) && defined(__linux__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (instruction_set() != InstructionSet::avx512 || __get_cpuid_count(7, 0, &a, &b, &c, &d) == 0)
    return units;
  constexpr unsigned kBf16 = 1u << 22, kTile = 1u << 24, kInt8 = 1u << 25;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // arch_prctl(2), from Linux 5.16 on
  if ((d & kTile) == 0 || syscall(SYS_arch_prctl, kRequestPermission, kTileData) != 0) return units;
  units.int8 = (d & kInt8) != 0 && missing_feature(kFeatureAvx512vnni) == nullptr;
  units.bf16 = (d & kBf16) != 0 && missing_feature(kFeatureAvx512bf16) == nullptr;
#endif
  return units;
}

const Units& units() {
  static const Units found = detect();
  return found;
}

}  // namespace

bool has_amx_int8() { return units().int8; }
bool has_amx_bf16() { return units().bf16; }

}  // namespace braid::rt
