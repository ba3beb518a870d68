#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace braid::emulated {

// Why an access at an address of device or shared memory is illegal that is no multiple of `alignment`. Call within a
// kernel.
std::string misaligned_text(uintptr_t address, size_t alignment);

}  // namespace braid::emulated
