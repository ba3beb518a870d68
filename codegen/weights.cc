#include "codegen/weights.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "ir/error.h"
#include "runtime/hash.h"
#include "runtime/weight_file.h"

namespace braid::codegen {

using namespace ir;
namespace fs = std::filesystem;

namespace {

std::int64_t aligned(std::int64_t offset) {
  return (offset + rt::kWeightAlignment - 1) / rt::kWeightAlignment * rt::kWeightAlignment;
}

constexpr std::size_t kPiece = std::size_t{1} << 18;  // stays in the cache between two uses

// Maps these bytes at once, if they are those of a file: page by page, faults take longer than the bytes are worth.
void map_in(const std::byte* bytes, std::size_t count) {
#ifdef MADV_POPULATE_READ
  const auto page = static_cast<std::uintptr_t>(::getpagesize());
  const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(bytes) / page * page;
  ::madvise(reinterpret_cast<void*>(begin), reinterpret_cast<std::uintptr_t>(bytes) + count - begin,
            MADV_POPULATE_READ);  // a hint
#endif
}

// Passes the contents between the header of a file and its checksums to `take(bytes, count)`, in pieces of at most kPiece.
template <class Take>
void tensors(const Graph& graph, const WeightLayout& layout, int rank, const Take& take) {
  constexpr std::array<std::byte, rt::kWeightAlignment> zeros = {};
  std::int64_t at = sizeof(rt::WeightFileHeader);
  for (const StorageId storage : layout.order) {
    const WeightPlace& place = layout.places.at(storage);
    if (place.per_rank != (rank >= 0)) continue;
    take(zeros.data(), static_cast<std::size_t>(place.offset - at));
    const auto bytes = graph[storage].data.of_rank(std::max(rank, 0));
    const auto count = static_cast<std::size_t>(place.bytes);
    for (std::size_t from = 0; from < count; from += kPiece) {
      const std::size_t piece = std::min(kPiece, count - from);
      if (piece == kPiece) map_in(bytes.data() + from, piece);
      take(bytes.data() + from, piece);
    }
    at = place.offset + place.bytes;
  }
  take(zeros.data(), static_cast<std::size_t>(aligned(at) - at));
}

std::vector<std::uint64_t> checksums(const Graph& graph, const WeightLayout& layout, int rank) {
  std::vector<std::uint64_t> sums;
  std::vector<std::byte> block;  // that begins in one piece and ends in another
  block.reserve(rt::kWeightBlock);
  tensors(graph, layout, rank, [&](const std::byte* bytes, std::size_t count) {
    while (count > 0) {
      const std::size_t part = std::min<std::size_t>(count, rt::kWeightBlock - block.size());
      if (part == rt::kWeightBlock) {
        sums.push_back(rt::checksum(bytes, part));
      } else {
        block.insert(block.end(), bytes, bytes + part);
        if (block.size() == rt::kWeightBlock) {
          sums.push_back(rt::checksum(block.data(), block.size()));
          block.clear();
        }
      }
      bytes += part;
      count -= part;
    }
  });
  if (!block.empty()) sums.push_back(rt::checksum(block.data(), block.size()));
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

// Whether the file at `path` is what write_file would write, by its checksums.
bool holds(const std::string& path, const rt::WeightFileHeader& head,
           const std::vector<std::uint64_t>& sums) {
  std::error_code none;
  if (!fs::is_regular_file(fs::symlink_status(path, none)) || fs::file_size(path, none) != head.bytes)
    return false;
  std::ifstream file(path, std::ios::binary);
  std::vector<char> buffer(std::max(sizeof head, std::size_t{rt::kWeightBlock}));
  const auto read = [&](std::size_t count) {
    return bool(file.read(buffer.data(), static_cast<std::streamsize>(count)));
  };
  if (!read(sizeof head) || std::memcmp(buffer.data(), &head, sizeof head) != 0) return false;
  std::uint64_t left = head.tensors_end - sizeof head;
  for (const std::uint64_t sum : sums) {
    const std::size_t count = std::min<std::uint64_t>(left, rt::kWeightBlock);
    if (!read(count) || rt::checksum(buffer.data(), count) != sum) return false;
    left -= count;
  }
  for (const std::uint64_t sum : sums) {
    if (!read(sizeof sum) || std::memcmp(buffer.data(), &sum, sizeof sum) != 0) return false;
  }
  return true;
}

void write_file(const Graph& graph, const WeightLayout& layout, const rt::WeightFileHeader& head,
                const std::vector<std::uint64_t>& sums, const std::string& path) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  const auto write = [&](const void* bytes, std::size_t count) {
    file.write(static_cast<const char*>(bytes), static_cast<std::streamsize>(count));
  };
  write(&head, sizeof head);
  // Not from the mapped file itself: the kernel copies from pages that it has to look for, one after the other.
  std::vector<std::byte> piece(kPiece);
  tensors(graph, layout, head.rank, [&](const std::byte* bytes, std::size_t count) {
    std::memcpy(piece.data(), bytes, count);
    write(piece.data(), count);
  });
  write(sums.data(), sums.size() * sizeof sums[0]);
  file.close();
  if (!file)
    user_error(10, {.file = path}, "cannot be written", "is the disk full, or the folder read-only?");
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
  // Large ones are mostly packed once and not read from the file again. A small one between them would keep 2 MiB of
  // the file in the process at every step, where the kernel maps pages by that much.
  std::stable_partition(layout.order.begin(), layout.order.end(), [&](StorageId id) {
    return layout.places.at(id).bytes < std::int64_t{rt::kWeightBlock};
  });
  for (const StorageId id : layout.order) {
    const Storage& storage = graph[id];
    WeightPlace& place = layout.places.at(id);
    place.per_rank = !storage.data.same_on_all_ranks();
    const std::size_t copies = place.per_rank ? static_cast<std::size_t>(graph.ranks) : 1;
    if (storage.data.per_rank.size() != copies) {
      user_error(602, {.node = storage.name},
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
  if (any_shared) layout.checksums.push_back(checksums(graph, layout, -1));
  for (int r = 0; any_rank && r < graph.ranks; ++r) layout.checksums.push_back(checksums(graph, layout, r));
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
