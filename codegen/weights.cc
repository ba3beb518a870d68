#include "codegen/weights.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <fstream>

#include "ir/error.h"
#include "runtime/weight_file.h"

namespace braid::codegen {

using namespace ir;

namespace {

std::int64_t aligned(std::int64_t offset) {
  return (offset + rt::kWeightAlignment - 1) / rt::kWeightAlignment * rt::kWeightAlignment;
}

void write_file(const Graph& graph, const WeightLayout& layout, std::uint64_t fingerprint, int rank,
                const std::string& path) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  rt::WeightFileHeader head = {};
  std::memcpy(head.magic, rt::kWeightMagic, sizeof head.magic);
  head.version = rt::kWeightVersion;
  head.rank = rank;
  head.fingerprint = fingerprint;
  head.bytes = static_cast<std::uint64_t>(rank < 0 ? layout.shared_bytes : layout.rank_bytes);
  file.write(reinterpret_cast<const char*>(&head), sizeof head);
  std::int64_t at = sizeof head;
  constexpr std::array<char, rt::kWeightAlignment> zeros = {};
  for (const auto& [storage, place] : layout.places) {
    if (place.per_rank != (rank >= 0)) continue;
    file.write(zeros.data(), place.offset - at);
    const auto bytes = graph[storage].data.of_rank(std::max(rank, 0));
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(place.bytes));
    at = place.offset + place.bytes;
  }
  const std::int64_t end = rank < 0 ? layout.shared_bytes : layout.rank_bytes;
  file.write(zeros.data(), end - at);
  file.close();
  if (!file)
    user_error(10, {.file = path}, "cannot be written", "is the disk full, or the folder read-only?");
}

}  // namespace

WeightLayout layout_weights(const Graph& graph, const std::vector<StorageId>& used) {
  WeightLayout layout;
  std::int64_t shared = sizeof(rt::WeightFileHeader), rank = shared;
  bool any_shared = false, any_rank = false;
  std::map<StorageId, WeightPlace> places;
  for (StorageId id : used) places.emplace(id, WeightPlace{});
  for (auto& [id, place] : places) {
    const Storage& storage = graph[id];
    internal_check(storage.bytes.is_constant(), "codegen: constant '{}' has a dynamic size", storage.name);
    place.bytes = storage.bytes.constant();
    place.per_rank = !storage.data.same_on_all_ranks();
    const std::size_t copies = place.per_rank ? static_cast<std::size_t>(graph.ranks) : 1;
    if (storage.data.per_rank.size() != copies) {
      user_error(602, {.node = storage.name},
                 "the bytes of this constant are not known, so no program can be made",
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
  layout.places = std::move(places);
  layout.shared_bytes = any_shared ? aligned(shared) : 0;
  layout.rank_bytes = any_rank ? aligned(rank) : 0;
  return layout;
}

std::vector<std::string> weight_files(const Graph& graph, const WeightLayout& layout) {
  std::vector<std::string> files;
  if (layout.shared_bytes > 0) files.push_back("weights.bin");
  for (int r = 0; layout.rank_bytes > 0 && r < graph.ranks; ++r)
    files.push_back(fmt::format("weights.rank{}.bin", r));
  return files;
}

void write_weights(const Graph& graph, const WeightLayout& layout, std::uint64_t fingerprint,
                   const std::string& dir) {
  if (layout.shared_bytes > 0) write_file(graph, layout, fingerprint, -1, dir + "/weights.bin");
  for (int r = 0; layout.rank_bytes > 0 && r < graph.ranks; ++r) {
    write_file(graph, layout, fingerprint, r, fmt::format("{}/weights.rank{}.bin", dir, r));
  }
}

}  // namespace braid::codegen
