#include "runtime/library_file.h"

#include <dlfcn.h>
#include <elf.h>

#include <cerrno>
#include <cstring>
#include <span>

#include "runtime/mapped_file.h"
#include "runtime/program.h"
#include "runtime/sealed_file.h"

namespace braid::rt {
namespace {

// Checks that the tables used by the loader lie inside the file. The linker writes the section table last, so
// no truncated library passes.
bool whole_elf(std::span<const std::byte> file) {
  Elf64_Ehdr head;
  if (file.size() < sizeof head) return false;
  std::memcpy(&head, file.data(), sizeof head);
  if (std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
      head.e_type != ET_DYN)
    return false;
  const auto inside = [&](uint64_t offset, uint64_t bytes) {
    return offset <= file.size() && bytes <= file.size() - offset;
  };
  if (head.e_phentsize != sizeof(Elf64_Phdr) ||
      !inside(head.e_phoff, uint64_t{head.e_phnum} * sizeof(Elf64_Phdr)) ||
      !inside(head.e_shoff, uint64_t{head.e_shnum} * head.e_shentsize))
    return false;
  for (uint64_t k = 0; k < head.e_phnum; ++k) {
    Elf64_Phdr part;
    std::memcpy(&part, file.data() + head.e_phoff + k * sizeof part, sizeof part);
    if (!inside(part.p_offset, part.p_filesz)) return false;
  }
  return true;
}

}  // namespace

void check_library(const std::string& path, SealNeed need, uint64_t id) {
  const MappedFile file(path);
  const std::span<const std::byte> bytes = file.bytes();
  const auto refuse = [&](const char* why) {
    throw ProgramError(kCannotOpen, path + ": " + why + "; compile the model again");
  };
  if (!whole_elf(bytes)) refuse("is not a library, or is truncated");
  const auto seal = seal_of(bytes);
  if (!seal && need == SealNeed::required) refuse("was not built by Braid");
  if (!seal) return;
  if (!seal_intact(bytes, *seal)) refuse("has been changed since it was built");
  if (id != 0 && seal->id != id) refuse("belongs to another compilation than its manifest");
}

void* open_library(const std::string& path, const std::function<bool(void* handle)>& is_it) {
  const size_t folder = path.rfind('/') + 1;
  void* before = nullptr;
  // Written in another way, the linker looks at the file.
  for (std::string spelling = path;;
       spelling = spelling.substr(0, spelling.rfind('/') + 1) + "./" + path.substr(folder)) {
    void* handle = ::dlopen(spelling.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) throw ProgramError(kCannotOpen, ::dlerror());
    if (is_it(handle)) return handle;
    if (handle == before)
      throw ProgramError(kCannotOpen, path + " contains another program than its manifest says");
    before = handle;
  }
}

}  // namespace braid::rt
