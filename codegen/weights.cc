#include "codegen/weights.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <span>
#include <system_error>
#include <thread>

#include "codegen/descriptor.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "ir/parallel.h"
#include "runtime/hash.h"
#include "runtime/weight_file.h"

namespace braid::codegen {

using namespace ir;
namespace fs = std::filesystem;

namespace {

std::int64_t aligned(std::int64_t offset) {
  return (offset + rt::kWeightAlignment - 1) / rt::kWeightAlignment * rt::kWeightAlignment;
}

// Each piece is summed and written at once: handled page by page, the page faults of a mapped file would take
// longer than the work on its bytes. Larger writes request larger blocks of memory from the kernel, which a
// virtual machine may first have to get from its host.
constexpr std::uint64_t kPiece = std::uint64_t{1} << 18;
static_assert(kPiece % rt::kWeightBlock == 0);
constexpr std::uint64_t kPiecesPerThread = 16;  // with fewer, a thread is not worth its start
constexpr std::uint64_t kMostThreads = 8;       // more do not read memory faster

// Maps these bytes at once, if they are those of a file.
void map_in(std::span<const std::byte> bytes) {
#ifdef MADV_POPULATE_READ
  const auto page = static_cast<std::uintptr_t>(::getpagesize());
  const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(bytes.data()) / page * page;
  ::madvise(reinterpret_cast<void*>(begin),
            reinterpret_cast<std::uintptr_t>(bytes.data() + bytes.size()) - begin,
            MADV_POPULATE_READ);  // a hint
#endif
}

// The bytes between a file's header and its checksums: constants, and zeros between them.
class Contents {
 public:
  Contents(const Graph& graph, const WeightLayout& layout, int rank) {
    for (const StorageId storage : layout.order) {
      const WeightPlace& place = layout.places.at(storage);
      if (place.per_rank != (rank >= 0) || place.bytes == 0) continue;
      const auto bytes = graph[storage].data.of_rank(std::max(rank, 0));
      parts_[static_cast<std::uint64_t>(place.offset)] = bytes.first(static_cast<std::size_t>(place.bytes));
    }
  }
  // Returns `count` bytes of the file, at most kPiece: in place if they are contiguous in memory, else in
  // `buffer`.
  const std::byte* read(std::uint64_t begin, std::uint64_t count, std::byte* buffer) const {
    auto part = parts_.upper_bound(begin);
    if (part != parts_.begin() && std::prev(part)->first + std::prev(part)->second.size() > begin) --part;
    if (part != parts_.end() && part->first <= begin && part->first + part->second.size() >= begin + count) {
      const auto bytes = part->second.subspan(begin - part->first, count);
      if (count == kPiece) map_in(bytes);
      return bytes.data();
    }
    std::memset(buffer, 0, count);
    for (; part != parts_.end() && part->first < begin + count; ++part) {
      const std::uint64_t from = std::max(begin, part->first);
      const std::uint64_t to = std::min(begin + count, part->first + part->second.size());
      std::memcpy(buffer + (from - begin), part->second.data() + (from - part->first), to - from);
    }
    return buffer;
  }

 private:
  std::map<std::uint64_t, std::span<const std::byte>> parts_;
};

std::uint64_t pieces_of(std::uint64_t tensors_end) {
  return (tensors_end - sizeof(rt::WeightFileHeader) + kPiece - 1) / kPiece;
}

std::uint64_t threads_for(std::uint64_t tensors_end) {
  const std::uint64_t useful = pieces_of(tensors_end) / kPiecesPerThread;
  return std::max<std::uint64_t>(
      std::min({useful, kMostThreads, std::uint64_t{std::thread::hardware_concurrency()}}), 1);
}

// Calls take(begin, count, buffer) for pieces that together are the bytes between a file's header and its
// checksums, in order on each thread. Every piece but the last has kPiece bytes, and so does each thread's
// buffer.
template <class Take>
void for_each_piece(std::uint64_t tensors_end, std::uint64_t threads, const Take& take) {
  const std::uint64_t pieces = pieces_of(tensors_end);
  std::vector<std::vector<std::byte>> buffers(threads, std::vector<std::byte>(kPiece));
  std::atomic<std::uint64_t> next = 0;
  ir::parallel_for(threads, threads, [&](std::size_t thread) {
    for (std::uint64_t piece; (piece = next++) < pieces;) {
      const std::uint64_t begin = sizeof(rt::WeightFileHeader) + piece * kPiece;
      take(begin, std::min(kPiece, tensors_end - begin), buffers[thread].data());
    }
  });
}

// Calls sum_of(block, checksum) for the blocks that begin at `begin`.
template <class SumOf>
void sum_blocks(const std::byte* bytes, std::uint64_t begin, std::uint64_t count, const SumOf& sum_of) {
  const std::uint64_t first = (begin - sizeof(rt::WeightFileHeader)) / rt::kWeightBlock;
  for (std::uint64_t at = 0; at < count; at += rt::kWeightBlock)
    sum_of(first + at / rt::kWeightBlock, rt::checksum(bytes + at, std::min(rt::kWeightBlock, count - at)));
}

std::vector<std::uint64_t> checksums(const Graph& graph, const WeightLayout& layout, int rank,
                                     std::uint64_t tensors_end) {
  const Contents contents(graph, layout, rank);
  std::vector<std::uint64_t> sums(rt::weight_blocks(tensors_end));
  for_each_piece(tensors_end, threads_for(tensors_end),
                 [&](std::uint64_t begin, std::uint64_t count, std::byte* buffer) {
                   sum_blocks(contents.read(begin, count, buffer), begin, count,
                              [&](std::uint64_t block, std::uint64_t sum) { sums[block] = sum; });
                 });
  return sums;
}

rt::WeightFileHeader header_of(const WeightLayout& layout, std::uint64_t id, int rank,
                               const std::vector<std::uint64_t>& sums) {
  rt::WeightFileHeader head = {};
  std::memcpy(head.magic, rt::kWeightMagic, sizeof head.magic);
  head.version = rt::kWeightVersion;
  head.rank = rank;
  head.compilation_id = id;
  head.bytes = static_cast<std::uint64_t>(rank < 0 ? layout.shared_bytes : layout.rank_bytes);
  head.tensors_end = head.bytes - sums.size() * sizeof sums[0];
  return head;
}

bool read(const Descriptor& file, std::uint64_t begin, std::uint64_t count, std::byte* to) {
  while (count > 0) {
    const ssize_t part = ::pread(file.get(), to, count, static_cast<off_t>(begin));
    if (part < 0 && errno == EINTR) continue;
    if (part <= 0) return false;
    begin += static_cast<std::uint64_t>(part);
    count -= static_cast<std::uint64_t>(part);
    to += part;
  }
  return true;
}

// Whether the file at `path` is what write_file would write, by its checksums.
bool holds(const std::string& path, const rt::WeightFileHeader& head,
           const std::vector<std::uint64_t>& sums) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info = {};
  if (!file.valid() || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) ||
      static_cast<std::uint64_t>(info.st_size) != head.bytes)
    return false;
  const auto same = [&](std::uint64_t begin, std::span<const std::byte> bytes) {
    std::vector<std::byte> found(bytes.size());
    return read(file, begin, found.size(), found.data()) && std::ranges::equal(found, bytes);
  };
  if (!same(0, std::as_bytes(std::span(&head, 1))) || !same(head.tensors_end, std::as_bytes(std::span(sums))))
    return false;
  std::atomic<bool> intact = true;
  for_each_piece(head.tensors_end, threads_for(head.tensors_end),
                 [&](std::uint64_t begin, std::uint64_t count, std::byte* buffer) {
                   if (!intact) return;
                   if (!read(file, begin, count, buffer)) intact = false;
                   sum_blocks(buffer, begin, count, [&](std::uint64_t block, std::uint64_t sum) {
                     if (sum != sums[block]) intact = false;
                   });
                 });
  return intact;
}

void write_file(const Graph& graph, const WeightLayout& layout, const rt::WeightFileHeader& head,
                const std::vector<std::uint64_t>& sums, const std::string& path) {
  const auto check = [&](bool good) {
    if (!good)
      user_error(errors::kCannotWrite, {.file = path}, "cannot be written",
                 "is the disk full, or the folder read-only?");
  };
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  check(file.valid());
  const auto write = [&](std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t part = ::write(file.get(), bytes.data(), bytes.size());
      check(part >= 0 || errno == EINTR);
      if (part > 0) bytes = bytes.subspan(static_cast<std::size_t>(part));
    }
  };
  write(std::as_bytes(std::span(&head, 1)));
  const Contents contents(graph, layout, head.rank);
  for_each_piece(head.tensors_end, 1, [&](std::uint64_t begin, std::uint64_t count, std::byte* buffer) {
    write({contents.read(begin, count, buffer), count});
  });
  write(std::as_bytes(std::span(sums)));
  check(file.close());
}

// The size of a file with its checksums, for tensors that end at `end`.
std::int64_t file_bytes(std::int64_t end) {
  const auto tensors_end = static_cast<std::uint64_t>(aligned(end));
  return static_cast<std::int64_t>(tensors_end + rt::weight_blocks(tensors_end) * sizeof(std::uint64_t));
}

}  // namespace

WeightLayout layout_weights(const Graph& graph, const std::vector<StorageId>& used) {
  WeightLayout layout;
  std::int64_t shared = sizeof(rt::WeightFileHeader), rank = shared;
  bool any_shared = false, any_rank = false;
  for (StorageId id : used) {
    const Storage& storage = graph[id];
    internal_check(storage.bytes.is_constant(), "codegen: constant '{}' has a dynamic size", storage.name);
    layout.places[id].bytes = storage.bytes.constant();
  }
  for (const auto& [id, place] : layout.places) layout.order.push_back(id);
  // Large constants are mostly packed once and not read from the file again. A small one between them would
  // keep 2 MiB of the file in the process during every step, if the kernel maps pages of that size.
  std::stable_partition(layout.order.begin(), layout.order.end(), [&](StorageId id) {
    return layout.places.at(id).bytes < std::int64_t{rt::kWeightBlock};
  });
  for (const StorageId id : layout.order) {
    const Storage& storage = graph[id];
    WeightPlace& place = layout.places.at(id);
    place.per_rank = !storage.data.same_on_all_ranks();
    const std::size_t copies = place.per_rank ? static_cast<std::size_t>(graph.ranks) : 1;
    if (storage.data.per_rank.size() != copies) {
      user_error(errors::kConstantWithoutData, {.node = storage.name},
                 "the bytes of this constant are unknown, so no program can be made",
                 "compile from the model, or from IR text that holds its constants");
    }
    for (const auto& bytes : storage.data.per_rank) {
      internal_check(static_cast<std::int64_t>(bytes.size()) >= place.bytes,
                     "codegen: constant '{}' has {} bytes of {}", storage.name, bytes.size(), place.bytes);
    }
    std::int64_t& end = place.per_rank ? rank : shared;
    (place.per_rank ? any_rank : any_shared) = true;
    place.offset = aligned(end);
    end = place.offset + place.bytes;
  }
  layout.shared_bytes = any_shared ? file_bytes(shared) : 0;
  layout.rank_bytes = any_rank ? file_bytes(rank) : 0;
  const auto sum = [&](int of, std::int64_t end) {
    layout.checksums.push_back(checksums(graph, layout, of, static_cast<std::uint64_t>(aligned(end))));
  };
  if (any_shared) sum(-1, shared);
  for (int r = 0; any_rank && r < graph.ranks; ++r) sum(r, rank);
  return layout;
}

std::vector<std::string> weight_files(const Graph& graph, const WeightLayout& layout) {
  std::vector<std::string> files;
  if (layout.shared_bytes > 0) files.push_back("weights.bin");
  for (int r = 0; layout.rank_bytes > 0 && r < graph.ranks; ++r)
    files.push_back(fmt::format("weights.rank{}.bin", r));
  return files;
}

void write_weights(const Graph& graph, const WeightLayout& layout, std::uint64_t id, const std::string& dir,
                   const std::string& published) {
  const std::vector<std::string> names = weight_files(graph, layout);
  for (std::size_t k = 0; k < names.size(); ++k) {
    // The shared file, if there is one, comes first.
    const int rank = static_cast<int>(k) - (layout.shared_bytes > 0 ? 1 : 0);
    const rt::WeightFileHeader head = header_of(layout, id, rank, layout.checksums[k]);
    const std::string path = dir + "/" + names[k], old = published + "/" + names[k];
    std::error_code no_link;  // there is no such file, or the file system has no links
    if (!published.empty()) {
      // First the link, then the look: another compilation may replace the published file in between.
      fs::create_hard_link(old, path, no_link);
      if (!no_link && holds(path, head, layout.checksums[k])) continue;
      fs::remove(path, no_link);
    }
    write_file(graph, layout, head, layout.checksums[k], path);
  }
}

std::uint64_t compilation_id(const std::string& source, const WeightLayout& layout) {
  std::uint64_t id = rt::fnv1a(source);
  for (const auto& [storage, place] : layout.places) {
    const std::int64_t where[] = {place.per_rank, place.offset, place.bytes};
    id = rt::fnv1a(where, sizeof where, id);
  }
  for (const std::vector<std::uint64_t>& file : layout.checksums)
    id = rt::fnv1a(file.data(), file.size() * sizeof file[0], id);
  return std::max<std::uint64_t>(id, 1);
}

}  // namespace braid::codegen
