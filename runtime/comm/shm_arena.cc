#include "runtime/comm/shm_arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>

#include "runtime/comm/futex.h"
#include "runtime/comm/process_identity.h"
#include "runtime/comm/settings.h"

namespace braid::rt::shm {
namespace {

size_t entries_offset(int size) { return round_up(sizeof(WorldHeader), 128) + sizeof(RankLine) * size; }
size_t segments_offset(int size) {
  return round_up(entries_offset(size) + sizeof(GroupEntry) * kMaxGroups, kPage);
}
size_t segment_stride(size_t segment_bytes) { return round_up(segment_bytes, kPage); }

Status system_error(const std::string& what) {
  const int error = errno;
  const bool full = error == ENOSPC || error == ENOMEM || error == EFBIG;
  return Status::error(full ? StatusCode::out_of_memory : StatusCode::system,
                       what + ": " + std::strerror(error) +
                           (full ? " (shared memory is exhausted: use smaller segments or staging)" : ""));
}

// The memory that the kernel reports as available; 0 if unknown.
size_t available_memory() {
  std::FILE* file = std::fopen("/proc/meminfo", "re");
  if (file == nullptr) return 0;
  char line[256];
  unsigned long long kib = 0;
  while (std::fgets(line, sizeof line, file) != nullptr) {
    if (std::sscanf(line, "MemAvailable: %llu kB", &kib) == 1) break;
  }
  std::fclose(file);
  return static_cast<size_t>(kib) * 1024;
}

// Reserves the memory now: a file that only promises it would cause a SIGBUS at the first touch. The file
// itself has no limit, so reserving more than is available would make the kernel kill a process; hence the
// check first.
Status reserve(int fd, size_t offset, size_t bytes) {
  const size_t available = available_memory();
  if (available > 0 && bytes > available) {
    return Status::error(StatusCode::out_of_memory,
                         "shared memory of " + std::to_string(bytes) + " bytes is requested, but only " +
                             std::to_string(available) + " bytes of memory are available");
  }
  int error = 0;
  do {
    error = posix_fallocate(fd, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  } while (error == EINTR);
  if (error == 0) return {};
  errno = error;
  return system_error("cannot reserve " + std::to_string(bytes) + " bytes of shared memory");
}

}  // namespace

Arena::Arena(int fd, std::byte* base, size_t bytes, int64_t timeout_ms)
    : fd_(fd), base_(base), base_bytes_(bytes), timeout_ms_(timeout_ms) {}

Arena::~Arena() {
  for (const Mapping& mapping : mappings_) munmap(mapping.address, mapping.bytes);
  munmap(base_, base_bytes_);
  close(fd_);
}

RankLine& Arena::rank_line(int rank) const {
  return reinterpret_cast<RankLine*>(base_ + round_up(sizeof(WorldHeader), 128))[rank];
}

GroupEntry* Arena::entries() const {
  return reinterpret_cast<GroupEntry*>(base_ + entries_offset(static_cast<int>(header().size)));
}

std::byte* Arena::segment(int rank) const {
  return base_ + segments_offset(static_cast<int>(header().size)) +
         segment_stride(header().segment_bytes) * rank;
}

Status Arena::initialise_file(int fd, int size, const WorldOptions& options, std::shared_ptr<Arena>* out) {
  int64_t timeout_ms = 0;
  if (Status known = timeout_in_force(options, &timeout_ms); !known.ok()) return known;
  const size_t bytes = segments_offset(size) + segment_stride(options.segment_bytes) * size;
  if (Status reserved = reserve(fd, 0, bytes); !reserved.ok()) return reserved;
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED)
    return system_error("cannot map " + std::to_string(bytes) + " bytes of shared memory");
  auto* header = new (base) WorldHeader{};
  header->size = static_cast<uint32_t>(size);
  header->segment_bytes = options.segment_bytes;
  header->staging_bytes = options.staging_bytes;
  header->peer_reads = options.peer_reads ? 1 : 0;
  header->worker = static_cast<uint32_t>(options.worker);
  header->compute_threads = options.compute_threads;
  header->file_bytes = bytes;
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&header->groups_mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
  header->magic.store(kMagic, std::memory_order_release);
  out->reset(new Arena(fd, static_cast<std::byte*>(base), bytes, timeout_ms));
  return {};
}

Status Arena::create_anonymous(int size, const WorldOptions& options, std::shared_ptr<Arena>* out) {
  if (size < 1) return Status::error(StatusCode::invalid_argument, "a World needs at least one rank");
  const int fd = memfd_create("braid", MFD_CLOEXEC);
  if (fd < 0) return system_error("memfd_create");
  Status status = initialise_file(fd, size, options, out);
  if (!status.ok()) close(fd);
  return status;
}

Status Arena::map_file(int fd, int size, int64_t timeout_ms, std::shared_ptr<Arena>* out) {
  struct stat info;
  void* base = MAP_FAILED;
  if (fstat(fd, &info) == 0 && static_cast<size_t>(info.st_size) >= segments_offset(size)) {
    base = mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  if (base == MAP_FAILED) {
    Status error = system_error("cannot map the shared memory of rank 0");
    close(fd);
    return error;
  }
  out->reset(new Arena(fd, static_cast<std::byte*>(base), static_cast<size_t>(info.st_size), timeout_ms));
  return {};
}

Status Arena::lock_groups() {
  pthread_mutex_t* mutex = &header().groups_mutex;
  const int error = pthread_mutex_lock(mutex);
  // The dead owner can have left at most an appended block without an entry, or an entry not yet counted:
  // both are as if it had not begun.
  if (error == EOWNERDEAD) pthread_mutex_consistent(mutex);
  if (error == 0 || error == EOWNERDEAD) return {};
  return Status::error(StatusCode::system, std::string("lock of the group table: ") + std::strerror(error));
}

Status Arena::grow(size_t bytes, size_t* offset) {
  WorldHeader& world = header();
  const size_t length = round_up(bytes, kPage);
  if (Status reserved = reserve(fd_, world.file_bytes, length); !reserved.ok()) return reserved;
  *offset = world.file_bytes;
  world.file_bytes += length;
  return {};
}

Status Arena::map_block(size_t offset, size_t bytes, std::byte** out) {
  const std::lock_guard lock(mappings_mutex_);
  for (const Mapping& mapping : mappings_) {
    if (mapping.offset == offset) {
      *out = mapping.address;
      return {};
    }
  }
  const size_t length = round_up(bytes, kPage);
  void* address = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, static_cast<off_t>(offset));
  if (address == MAP_FAILED)
    return system_error("cannot map a group of " + std::to_string(length) + " bytes");
  *out = static_cast<std::byte*>(address);
  mappings_.push_back({offset, length, *out});
  return {};
}

}  // namespace braid::rt::shm
