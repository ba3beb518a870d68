// Where the loaded objects (the program, its libraries) have their code, constants and variables.
#pragma once

#include <cstddef>
#include <cstdint>

namespace braid::emulated {

struct AddressRange {
  uintptr_t begin = 0;
  size_t bytes = 0;

  bool empty() const { return bytes == 0; }
  bool holds(uintptr_t address, size_t size) const {
    const size_t offset = address - begin;
    return offset < bytes && size <= bytes - offset;
  }
};

// Return the segment of an object that holds the address; empty if there is none of that kind. They take the
// loader's lock.
AddressRange code_at(uintptr_t address);
AddressRange constants_at(uintptr_t address);  // not writable once the object is loaded
AddressRange variables_at(uintptr_t address);

// Returns whether an access to the address would find memory of any kind.
bool is_mapped(uintptr_t address);

}  // namespace braid::emulated
