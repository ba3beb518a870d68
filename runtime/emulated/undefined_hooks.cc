// The functions that code compiled by g++ -fsanitize=signed-integer-overflow,alignment calls when an integer has
// overflowed or an object lies at an address that its type does not allow. Only kernels are checked: an index that
// overflows wraps on a GPU too, and an access that is not aligned to its size fails there.
//
// Where our own code is built with the real sanitizer, libubsan has these names.
#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/emulated/block.h"
#include "runtime/emulated/device_memory.h"
#include "runtime/emulated/finding_list.h"
#include "runtime/emulated/kernel_operation.h"
#include "runtime/emulated/misaligned.h"

namespace braid::emulated {

std::string misaligned_text(uintptr_t address, size_t alignment) {
  std::string place;
  if (DeviceMemory::contains(address)) {
    const int index = device_memory().find(address);
    place = "outside any allocation";
    if (index >= 0) {
      const Allocation allocation = device_memory().at(index);
      place = "at byte " + std::to_string(static_cast<int64_t>(address - allocation.begin)) + " of " +
              allocation.describe();
    }
  } else {
    place = "at " + BlockRunner::current()->checks().shared().describe(address);
  }
  return "misaligned access " + place + ": it must be aligned to " + std::to_string(alignment) + " bytes";
}

#ifndef BRAID_REAL_UBSAN
namespace {

// As in GCC's ubsan.
struct Location {
  const char* file;
  uint32_t line, column;
};
struct Type {
  uint16_t kind;  // 0: integer
  uint16_t info;  // bit 0: signed; above: log2 of the bits
  char name[1];
};
struct Overflow {
  Location location;
  const Type* type;
};
struct Mismatch {
  Location location;
  const Type* type;
  unsigned char log_alignment, access;
};

std::string at(const Location& location) {
  std::string file = location.file;
  file.erase(0, file.rfind('/') + 1);  // npos + 1 is 0
  return " in line " + std::to_string(location.line) + " of " + file;
}

void overflow(const Overflow& data, const char* operation) {
  BlockRunner* runner = BlockRunner::current();
  if (runner == nullptr) return;
  const std::string who = runner->operation().describe(), where = at(data.location);
  // A loop gives one finding, and one without a thread: flags may decide which comes first.
  finding_list().add(FindingKind::kIntegerOverflow, who + operation + where,
                     who + ": " + operation + " of " + data.type->name + " overflows" + where);
}

void mismatch(const Mismatch& data, const void* pointer) {
  BlockRunner* runner = BlockRunner::current();
  const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
  const size_t alignment = size_t{1} << data.log_alignment;
  if (runner == nullptr || address % alignment == 0) return;
  if (!DeviceMemory::contains(address) && address - shared_region_begin >= kSharedRegionBytes) return;
  runner->fail(FindingKind::kIllegalAccess,
               [&] { return misaligned_text(address, alignment) + ", as " + data.type->name + at(data.location); });
}

}  // namespace
#endif

}  // namespace braid::emulated

#ifndef BRAID_REAL_UBSAN
extern "C" {

void __ubsan_handle_add_overflow(void* data, void*, void*) {
  braid::emulated::overflow(*static_cast<braid::emulated::Overflow*>(data), "an addition");
}
void __ubsan_handle_sub_overflow(void* data, void*, void*) {
  braid::emulated::overflow(*static_cast<braid::emulated::Overflow*>(data), "a subtraction");
}
void __ubsan_handle_mul_overflow(void* data, void*, void*) {
  braid::emulated::overflow(*static_cast<braid::emulated::Overflow*>(data), "a multiplication");
}
void __ubsan_handle_negate_overflow(void* data, void*) {
  braid::emulated::overflow(*static_cast<braid::emulated::Overflow*>(data), "a negation");
}
void __ubsan_handle_divrem_overflow(void* data, void*, void*) {
  braid::emulated::overflow(*static_cast<braid::emulated::Overflow*>(data), "a division");
}
void __ubsan_handle_type_mismatch_v1(void* data, void* pointer) {
  braid::emulated::mismatch(*static_cast<braid::emulated::Mismatch*>(data), pointer);
}

}  // extern "C"
#endif
