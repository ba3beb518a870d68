#include "runtime/emulated/program_image.h"

#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

namespace braid::emulated {
namespace {

enum class Part { kCode, kConstants, kVariables };

// The part of a loadable segment that is made read-only after relocation; empty if it has none.
AddressRange relocated_constants(const dl_phdr_info& object, const AddressRange& segment) {
  for (int k = 0; k < object.dlpi_phnum; ++k) {
    const auto& header = object.dlpi_phdr[k];
    const AddressRange range{object.dlpi_addr + header.p_vaddr, header.p_memsz};
    if (header.p_type == PT_GNU_RELRO && segment.holds(range.begin, 1)) return range;
  }
  return {};
}

AddressRange part_at(const dl_phdr_info& object, uintptr_t address, Part part) {
  for (int k = 0; k < object.dlpi_phnum; ++k) {
    const auto& header = object.dlpi_phdr[k];
    const AddressRange segment{object.dlpi_addr + header.p_vaddr, header.p_memsz};
    if (header.p_type != PT_LOAD || !segment.holds(address, 1)) continue;
    if (part == Part::kCode) return (header.p_flags & PF_X) != 0 ? segment : AddressRange{};
    if ((header.p_flags & PF_W) == 0) return part == Part::kConstants ? segment : AddressRange{};
    const AddressRange constants = relocated_constants(object, segment);
    if (constants.holds(address, 1)) return part == Part::kConstants ? constants : AddressRange{};
    if (part == Part::kConstants) return {};
    // The loader puts what it makes read-only at the beginning.
    const uintptr_t begin = constants.empty() ? segment.begin : constants.begin + constants.bytes;
    return {begin, segment.begin + segment.bytes - begin};
  }
  return {};
}

AddressRange find(uintptr_t address, Part part) {
  struct Search {
    uintptr_t address;
    Part part;
    AddressRange found;
  } search{address, part, {}};
  dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void* data) {
        Search& s = *static_cast<Search*>(data);
        s.found = part_at(*object, s.address, s.part);
        return s.found.empty() ? 0 : 1;
      },
      &search);
  return search.found;
}

}  // namespace

AddressRange code_at(uintptr_t address) { return find(address, Part::kCode); }
AddressRange constants_at(uintptr_t address) { return find(address, Part::kConstants); }
AddressRange variables_at(uintptr_t address) { return find(address, Part::kVariables); }

bool is_mapped(uintptr_t address) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  unsigned char resident = 0;
  return mincore(reinterpret_cast<void*>(address / page * page), page, &resident) == 0;
}

}  // namespace braid::emulated
