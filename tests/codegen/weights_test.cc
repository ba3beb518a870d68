// The contents of a program's weight files.
#include "codegen/weights.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "codegen/temp_dir.h"
#include "ir/error.h"
#include "ir/parser.h"
#include "runtime/weight_file.h"

namespace braid::test {
namespace {

std::vector<ir::StorageId> constants_of(const ir::Graph& graph) {
  std::vector<ir::StorageId> constants;
  for (std::size_t k = 0; k < graph.storages.size(); ++k) {
    if (graph.storages[k].kind == ir::StorageKind::constant)
      constants.push_back(ir::StorageId{static_cast<int>(k)});
  }
  return constants;
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A program of two ranks. Its constants are below, at and above the sizes in which files are summed and
// written, and together enough for several threads. They lie one after the other, so they begin anywhere in
// these. "rank" differs from rank to rank.
ir::Schedule large_program() {
  ir::Schedule schedule = ir::parse_schedule(R"(graph main
ranks 2
input %x: f32[1]
constant %a: u8[1] = elided(0x1)
constant %b: u8[65535] = elided(0x1)
constant %c: u8[262144] = elided(0x1)
constant %d: u8[262145] = elided(0x1)
constant %e: u8[9437201] = elided(0x1)
constant %f: u8[3] = elided(0x1)
constant %rank: u8[5242881] = elided(0x1)
output %x
)",
                                             "test");
  std::mt19937 random(1);
  for (const ir::StorageId id : constants_of(schedule.graph)) {
    ir::Storage& storage = schedule.graph[id];
    const std::size_t copies = storage.name == "rank" ? 2 : 1;
    const auto count = static_cast<std::size_t>(storage.bytes.constant());
    auto bytes = std::make_shared<std::vector<std::byte>>(copies * count);
    for (std::byte& b : *bytes) b = static_cast<std::byte>(random());
    storage.data = {};
    for (std::size_t r = 0; r < copies; ++r)
      storage.data.per_rank.push_back(std::span(*bytes).subspan(r * count, count));
    storage.data.owner = bytes;
  }
  return schedule;
}

// Small constants are read from the file at every step, and the kernel may map 2 MiB around each.
TEST(WeightFiles, SmallConstantsLieTogetherBeforeTheLargeOnes) {
  const ir::Schedule schedule = ir::parse_schedule(R"(graph main
input %x: f32[128]
constant %large_a: f32[128, 128] = splat(1.0)
constant %small_a: f32[128] = splat(2.0)
constant %large_b: f32[128, 128] = splat(3.0)
constant %small_b: f32[128] = splat(4.0)
output %x
)",
                                                   "test");
  const ir::Graph& graph = schedule.graph;
  const codegen::WeightLayout layout = codegen::layout_weights(graph, constants_of(graph));
  const auto offset = [&](const char* name) {
    for (const auto& [storage, place] : layout.places)
      if (graph[storage].name == name) return place.offset;
    return std::int64_t{-1};
  };
  EXPECT_EQ(offset("small_b"), offset("small_a") + 512);
  EXPECT_EQ(offset("large_a"), offset("small_b") + 512);
  EXPECT_EQ(offset("large_b"), offset("large_a") + 65536);
}

TEST(WeightFiles, HoldEveryConstantAndTheChecksumsOfAllBlocks) {
  const ir::Schedule schedule = large_program();
  const ir::Graph& graph = schedule.graph;
  const codegen::WeightLayout layout = codegen::layout_weights(graph, constants_of(graph));
  const codegen::TempDir dir;
  codegen::write_weights(graph, layout, 42, dir.path());
  const std::vector<std::string> names = codegen::weight_files(graph, layout);
  ASSERT_EQ(names.size(), 3u);
  for (int rank = -1; rank < 2; ++rank) {
    SCOPED_TRACE(rank);
    const auto number = static_cast<std::size_t>(rank + 1);
    std::string file = contents(dir.path() + "/" + names[number]);
    rt::WeightFileHeader head;
    ASSERT_TRUE(rt::read_weight_header(file.data(), file.size(), &head));
    EXPECT_EQ(head.rank, rank);
    EXPECT_EQ(head.compilation_id, 42u);
    const std::uint64_t blocks = rt::weight_blocks(head.tensors_end);
    ASSERT_EQ(layout.checksums[number].size(), blocks);
    for (std::uint64_t k = 0; k < blocks; ++k)
      ASSERT_TRUE(rt::weight_block_intact(file.data(), head.tensors_end, k)) << k;
    EXPECT_EQ(std::memcmp(file.data() + head.tensors_end, layout.checksums[number].data(), 8 * blocks), 0);
    for (const auto& [storage, place] : layout.places) {
      if (place.per_rank != (rank >= 0)) continue;
      char* at = file.data() + place.offset;
      EXPECT_EQ(std::memcmp(at, graph[storage].data.of_rank(std::max(rank, 0)).data(),
                            static_cast<std::size_t>(place.bytes)),
                0)
          << graph[storage].name;
      std::memset(at, 0, static_cast<std::size_t>(place.bytes));
    }
    EXPECT_EQ(file.find_first_not_of('\0', sizeof head), file.size() - 8 * blocks) << "between constants";
  }
}

TEST(WeightFiles, APublishedFileIsLinkedUnlessItIsDamagedAnywhere) {
  const ir::Schedule schedule = large_program();
  const ir::Graph& graph = schedule.graph;
  const codegen::WeightLayout layout = codegen::layout_weights(graph, constants_of(graph));
  const codegen::TempDir published;
  codegen::write_weights(graph, layout, 42, published.path());
  const std::string old = published.path() + "/weights.bin", whole = contents(old);
  const auto linked = [&] {
    const codegen::TempDir dir;
    codegen::write_weights(graph, layout, 42, dir.path(), published.path());
    EXPECT_TRUE(contents(dir.path() + "/weights.bin") == whole);
    return std::filesystem::equivalent(dir.path() + "/weights.bin", old);
  };
  EXPECT_TRUE(linked());
  for (std::size_t at = 70; at < whole.size(); at += whole.size() / 7) {
    std::fstream file(old, std::ios::binary | std::ios::in | std::ios::out);
    const auto put = [&](char c) { file.seekp(static_cast<std::streamoff>(at)).put(c).flush(); };
    put(static_cast<char>(whole[at] ^ 1));
    EXPECT_FALSE(linked()) << at;
    put(whole[at]);
  }
  std::filesystem::resize_file(old, whole.size() - 1);
  EXPECT_FALSE(linked());
}

// As on a full disk: some bytes are taken, and then no more.
TEST(WeightFiles, AFileThatCannotGrowIsAUserError) {
  const ir::Schedule schedule = large_program();
  const ir::Graph& graph = schedule.graph;
  const codegen::WeightLayout layout = codegen::layout_weights(graph, constants_of(graph));
  const codegen::TempDir dir;
  struct rlimit limit = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const struct rlimit low = {1000000, limit.rlim_max};
  const auto signal = ::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);
  int code = 0;
  try {
    codegen::write_weights(graph, layout, 42, dir.path());
  } catch (const ir::UserError& e) {
    code = e.code();
  }
  EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  ::signal(SIGXFSZ, signal);
  EXPECT_EQ(code, 10);
}

}  // namespace
}  // namespace braid::test
