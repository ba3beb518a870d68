// The functions that code compiled by g++ -fsanitize=signed-integer-overflow,alignment calls when an integer
// has overflowed or an object lies at an address that its type does not allow. Only kernels are checked: an
// index that overflows wraps on a GPU too, and an access that is not aligned to its size fails there.
//
// Where our own code is built with the real sanitizer, libubsan has these names.
#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/emulated/access_counter.h"
#include "runtime/emulated/block.h"
#include "runtime/emulated/device_memory.h"
#include "runtime/emulated/finding_list.h"
#include "runtime/emulated/kernel_operation.h"

namespace braid::emulated {

void check_alignment(const void* pointer, size_t alignment) {
  BlockRunner* runner = BlockRunner::current();
  const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
  if (runner == nullptr || address % alignment == 0) return;
  std::string place;
  if (DeviceMemory::contains(address)) {
    const int index = device_memory().find(address);
    if (index < 0) return;  // the access itself is illegal
    const Allocation allocation = device_memory().at(index);
    place = "byte " + std::to_string(static_cast<int64_t>(address - allocation.begin)) + " of " +
            allocation.describe();
  } else if (address - shared_region_begin < kSharedRegionBytes) {
    place = runner->checks().shared().describe(address);
  } else {
    return;
  }
  runner->fail(FindingKind::kIllegalAccess, [&] {
    return "misaligned access at " + place + ": it must be aligned to " + std::to_string(alignment) +
           " bytes";
  });
}

void begin_pack(const void* pointer, size_t bytes, bool write) {
  check_alignment(pointer, bytes);
  if (current_counter != nullptr)
    current_counter->pack(reinterpret_cast<uintptr_t>(pointer), bytes,
                          write ? AccessKind::kWrite : AccessKind::kRead);
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
  braid::emulated::check_alignment(pointer,
                                   size_t{1} << static_cast<braid::emulated::Mismatch*>(data)->log_alignment);
}

}  // extern "C"
#endif
