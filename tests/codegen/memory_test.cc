// Which parts of its weights and its arena a program keeps in memory.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "ir/parser.h"
#include "tests/codegen/compiled.h"

namespace braid::test {
namespace {

// %y is 64 MiB at n = 65536. For few rows %w is packed by every kernel.
const char* kLarge = R"(graph main
dim n in [1, 65536]
input %x: f32[n, 256]
constant %w: f32[256, 256] = splat(0.0)
%y: f32[n, 256] = gemm %x, transpose(%w)
%z: f32[n] = reduction max over [256] { %0 = load %y store %0 }
output %z
)";

std::size_t page() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

// Returns the resident bytes of anonymous memory.
std::size_t resident_bytes(std::span<const std::byte> memory) {
  std::vector<unsigned char> pages((memory.size() + page() - 1) / page());
  EXPECT_EQ(::mincore(const_cast<std::byte*>(memory.data()), memory.size(), pages.data()), 0);
  std::size_t count = 0;
  for (unsigned char p : pages) count += p & 1;
  return count * page();
}

// A file's pages are resident while anyone uses them; what this process has of them is in its page tables.
std::size_t mapped_in_bytes(const void* mapping) {
  std::ifstream maps("/proc/self/smaps");
  std::ostringstream head;
  head << std::hex << reinterpret_cast<std::uintptr_t>(mapping) << '-';
  bool found = false;
  for (std::string line; std::getline(maps, line);) {
    found = found || line.starts_with(head.str());
    if (found && line.starts_with("Rss:")) return std::stoul(line.substr(4)) * 1024;
  }
  ADD_FAILURE() << "no such mapping";
  return 0;
}

class ProgramMemory : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    compiled_ = std::make_unique<Compiled>();
    compiled_->add("large", kLarge);
    std::string few = kLarge;
    compiled_->add("few", few.replace(few.find("65536"), 5, "32"));
    compiled_->build();
  }
  static void TearDownTestSuite() { compiled_.reset(); }
  static inline std::unique_ptr<Compiled> compiled_;

  // Returns how many bytes of weights.bin stay mapped in after a program's `create` on them.
  static std::size_t left_after_create(bool mapped) {
    const BraidProgram* table = compiled_->table("few");
    const int file = ::open((compiled_->folder("few") + "/weights.bin").c_str(), O_RDONLY);
    void* weights = ::mmap(nullptr, table->weights_bytes, PROT_READ, MAP_PRIVATE, file, 0);
    ::close(file);
    std::unique_ptr<void, void (*)(void*)> arena(std::aligned_alloc(64, (table->arena_bytes + 63) / 64 * 64),
                                                 std::free);
    BraidCreateInfo info = {};
    info.abi_version = BRAID_ABI_VERSION;
    info.struct_size = sizeof info;
    info.weights = weights;
    info.weights_bytes = table->weights_bytes;
    info.weights_mapped = mapped ? 1 : 0;
    info.arena = arena.get();
    info.arena_bytes = table->arena_bytes;
    BraidInstance* instance = nullptr;
    EXPECT_EQ(table->create(&info, &instance), BRAID_OK) << table->last_error(nullptr);
    const std::size_t left = mapped_in_bytes(weights);
    table->destroy(instance);
    ::munmap(weights, table->weights_bytes);
    return left;
  }
};

TEST_F(ProgramMemory, AnArenaForTheLargestSizesTakesWhatAStepTouches) {
  rt::Program program = compiled_->open("large");
  ASSERT_GE(program.arena().size(), std::size_t{64} << 20);
  EXPECT_EQ(resident_bytes(program.arena()), 0u);
  compiled_->run(program, random_inputs(compiled_->schedule("large").graph, {{"n", 64}}, 1));
  const std::size_t used = resident_bytes(program.arena());
  EXPECT_GE(used, std::size_t{64} * 256 * 4);
  EXPECT_LE(used, std::size_t{4} << 20) << "two huge pages at most";
}

TEST_F(ProgramMemory, PagesOfMappedWeightsAreGivenBackOnceTheyArePacked) {
  EXPECT_GE(left_after_create(false), std::size_t{256} * 256 * 4);
  EXPECT_LT(left_after_create(true), std::size_t{256} * 256 * 4 / 2) << "what lies around the heads at most";
}

TEST_F(ProgramMemory, ComputesWhatTheInterpreterDoesFromThePackedCopy) {
  compiled_->expect_like_interpreter("large", {{"n", 5}});
  compiled_->expect_like_interpreter("few", {{"n", 5}});
}

// While a matrix is packed it lies there twice, beside the copies of those before it.
TEST(PackedWeights, TheLargestIsPackedFirst) {
  Compiled compiled;
  compiled.add("two", R"(graph main
dim n in [1, 8]
input %x: f32[n, 32]
constant %small: f32[32, 32] = splat(0.0)
constant %large: f32[32, 96] = splat(0.0)
%y: f32[n, 32] = gemm %x, %small
%z: f32[n, 96] = gemm %y, %large
output %z
)");
  const std::string& source = compiled.emitted("two").source;
  const std::size_t large = source.find("pack(32, 96"), small = source.find("pack(32, 32");
  ASSERT_NE(small, std::string::npos);
  EXPECT_LT(large, small);
}

}  // namespace
}  // namespace braid::test
