// The shared memory of the block that runs on a host thread. Each array has its own addresses, far from those
// of the others, so that every access beside an array is found and reported with the array's name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/emulated/access_set.h"

namespace braid::emulated {

constexpr size_t kDefaultSharedBytes = 48 * 1024;

// All shared memory of the process lies from here; before there is any, a value far from every address.
extern uintptr_t shared_region_begin;

class SharedMemory {
 public:
  SharedMemory();
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;

  // `limit`: of static and dynamic bytes together.
  void begin_launch(size_t dynamic_bytes, size_t limit);
  void begin_block();  // all contents become undefined

  // Null and why in `fault` if the block has no memory left for it.
  void* array(const void* site, const char* name, size_t size, size_t alignment, std::string* fault);
  void* dynamic() { return reinterpret_cast<void*>(arrays_[0].begin); }

  // Returns null, or why the access is illegal. Sets `uninitialized` to the array's name if it reads bytes
  // that have not been written.
  const std::string* access(uintptr_t address, size_t size, AccessKind kind,
                            const std::string** uninitialized);

  // "byte 4 of shared memory 'partial' (128 bytes)"; the address lies within an array.
  std::string describe(uintptr_t address) const;
  uintptr_t begin_of_array(uintptr_t address) const { return array_at(address).begin; }
  const std::string& name_at(uintptr_t address) const { return array_at(address).name; }

 private:
  struct Array {
    const void* site;
    std::string name;
    uintptr_t begin;
    size_t size;
    std::vector<unsigned char> written;  // 1: the byte is
  };
  const Array& array_at(uintptr_t address) const;
  void add(const void* site, std::string name, size_t size, size_t alignment);
  void clear(Array& array);

  uintptr_t window_ = 0;
  std::vector<Array> arrays_;  // the first is the dynamic one
  size_t limit_ = 0;
  std::string fault_;
};

// The memory of the block that runs on this host thread; null outside kernels.
extern __thread SharedMemory* current_shared __attribute__((tls_model("initial-exec")));

}  // namespace braid::emulated
