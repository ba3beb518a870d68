#include "tests/codegen_cuda/mutants.h"

#include <fmt/format.h>

#include <fstream>
#include <regex>
#include <set>
#include <stdexcept>

#include "codegen/cuda/emit.h"
#include "tests/codegen_cuda/cases.h"
#include "tests/paths.h"

namespace braid::test {
namespace {

std::string read(const std::string& file) {
  std::ifstream in(paths::source("runtime/device/" + file));
  return {std::istreambuf_iterator<char>(in), {}};
}

// From the first line that begins with `from` to before the next that begins with `to`.
std::string part(const std::string& text, const std::string& from, const std::string& to) {
  const std::size_t begin = text.find("\n" + from);
  const std::size_t end = begin == std::string::npos ? begin : text.find("\n" + to, begin + 1);
  if (end == std::string::npos) throw std::runtime_error("no text from '" + from + "' to '" + to + "'");
  return text.substr(begin + 1, end - begin);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

enum class Functions { kNone, kReductions, kColumns, kWarps, kOneShot, kTwoShot, kTileProduct };

// Returns the device functions that a program calls, as far as a change to them is tried. They use a GPU's
// shuffles, not the emulated device's fast path.
std::string device_functions(Functions which) {
  const std::string collectives = read("peer_collectives.h");
  switch (which) {
    case Functions::kReductions: {
      const std::string reduce = read("reduce.h");
      return part(reduce, "template <class Op, class T>\n__device__ T warp_reduce(T value) {\n  for",
                  "#endif") +
             part(reduce, "// Reduces over all threads of the block", "// Reduces over the threads with");
    }
    case Functions::kNone:
      return "";
    case Functions::kColumns:
      return part(read("reduce.h"), "// Reduces over the threads with", "}  // namespace");
    case Functions::kWarps:
      return part(read("reduce.h"),
                  "template <class Op, class T>\n__device__ T warp_reduce(T value) {\n  for", "#endif");
    case Functions::kOneShot:
      return part(read("peer.h"), "// Spins until the flag", "}  // namespace") +
             part(collectives, "// Waits for the block of this index", "template <class T>\nconstexpr") +
             part(collectives, "// Elements [index", "// Every rank reduces one slab") +
             part(collectives, "// output[p * count", "}  // namespace");
    case Functions::kTwoShot:
      return part(collectives, "// Every rank reduces one slab", "// output[p * count");
    case Functions::kTileProduct:
      return "namespace own_functions {\n" +
             part(read("tile_product.h"), "struct ResultSizes", "}  // namespace braid") + "}\n";
  }
  return {};
}

struct Change {
  const char* what;
  const char* from;
  const char* to;
  const char* only = nullptr;  // the base to which it applies, which has no others; null: all others
};
constexpr Change kChanges[] = {
    {"no barrier", "__syncthreads();", ""},
    {"no barrier", "__syncthreads_and(good) != 0", "good"},
    {"every thread stores", "if (thread_in_block() == 0) ", ""},
    {"every thread stores", "if (lane == 0) ", ""},
    {"no tail guard", "if (e >= valid) break;", ""},
    {"an alignment that does not hold", "load_pack<pack>(in0 + ", "load_pack<pack>(1 + in0 + "},
    {"every warp stores", "threadIdx.y == 0 && ", ""},
    {"lanes behind the last pack store", "&& own < all", ""},
    {"lanes behind the last pack read on", "own < all ? own : all - 1", "own"},
    {"a part is left out", "int part = 1", "int part = 2"},
    {"parts are not stored", "if (stores) {", "if (false) {"},
    {"no end of the last piece", "(math::minimum(-i0 * size0 + dim_rows, size0))", "size0"},
    {"a tile index", ".element(at % packs * pack + e", ".element(at % packs * pack"},
    {"a tile index", "block / tiles0 % tiles1", "block % tiles1"},
    {"no end of the tile", ") continue;", ") {}"},
    {"every lane stores", "if (thread % kWarpSize == 0) ", ""},
    {"half of the lanes in the mask", "0xffffffffu", "0x0000ffffu"},
    {"no fence", "__threadfence_system();", ""},
    {"a fence of the device only", "__threadfence_system();", "__threadfence();"},
    {"an atomic of the device only", "atomicCAS_system(", "atomicCAS("},
    {"no barrier of the ranks", "if (!peer_barrier(group)) return;", ""},
    {"no barrier of the ranks", "  peer_barrier(group);", ""},
    {"a pack at an odd place", "store_pack(output + ", "store_pack(output + 1 + "},
    {"no wait for copies", "cp_async_wait_group<Tile::kStages - 2>();", ""},
    {"copies of too few steps waited for", "cp_async_wait_group<Tile::kStages - 2>",
     "cp_async_wait_group<Tile::kStages - 1>"},
    {"copies in no group", "cp_async_commit_group();", ""},
    {"a tile copied while it is read", "free_stage = stage;", "free_stage = (stage + 1) % Tile::kStages;"},
    {"one tile too many", "if (t + Tile::kStages - 1 < steps) ", ""},
    {"fragments of no tile", "if (t + 1 < steps) load", "load"},
    {"a half of the depth twice", "(place_ ^ (2 * half))", "place_"},
    {"16 lines twice", "(place_ ^ (2 * i))", "place_"},
    {"halves of fragments exchanged", "line_half = lines_first ? low : high",
     "line_half = lines_first ? high : low"},
    {"another swizzle in the reader", "swizzled<kChunks>(first_line + ",
     "swizzled<2 * kChunks>(first_line + "},
    {"no end of the depth", "left_ > 0 ? 16 : 0", "16"},
    {"no end of the depth", "i * kRowsAtOnce < left_ ? 16 : 0", "16"},
    {"no end of the lines", "min(first_line + line_ + i * kLinesAtOnce, from.lines - 1)",
     "first_line + line_ + i * kLinesAtOnce"},
    {"no end of the lines", "line < from.lines ? depth - row : 0", "depth - row"},
    {"no end of the results", "if (row < sizes.rows && column < sizes.columns) ", ""},
    {"no barrier of the warp", "__syncwarp();\n#pragma unroll\n    for (int", "#pragma unroll\n    for (int"},
    {"a row of sums twice", "lane / 4 + 8 * upper", "lane / 4"},
    {"a place of sums", "eight + 4 * half) ^", "eight + 2 * half) ^"},
    {"no edge of the image", "(inside_[i] & tap) == tap ? 16 : 0", "16", kTileConvolutionBase},
    {"the edge of one dimension", "(inside_[i] & tap) == tap", "(inside_[i] & tap) != 0",
     kTileConvolutionBase},
    {"an edge without dilation", "first + t * from_.dilation[dimension]", "first + t", kTileConvolutionBase},
    {"one row of taps", "tap_column_ = 0, ++tap_row_", "tap_column_ = 0", kTileConvolutionBase},
    {"padding at the wrong end", "- from.pad[1]", "+ from.pad[1]", kTileConvolutionBase},
    {"one image", "from.out[1] / from.out[0] * from.image", "from.out[1] / from.out[0] * 0",
     kTileConvolutionBase},
    {"tiles beside each other twice", "in_group / height * Tile::kColumns", "0"},
};

struct Base {
  const char* name;
  std::map<std::string, std::int64_t> dims;
  Functions functions = Functions::kReductions;
};

// Why these do no harm, by the name of the mutant. A copy of each kernel without any of these barriers stands
// last.
const std::map<std::string, std::string>& harmless() {
  const char* const own_memory =
      "its two reductions have memory of their own, and the barrier within one comes between two uses of the "
      "other";
  const char* const own = "each thread reads and overwrites only the elements of the row that it has written";
  const char* const warp = "a block of one warp does not get there";
  const char* const square = "tiles cover 128 x 128 elements without a rest";
  const char* const zeros = "elements behind the end of a pack are 0, which adds nothing to a sum";
  const char* const filled = "its packs fill whole warps";
  const char* const unused = "it reads the tile of an earlier step, and no product uses these fragments";
  const char* const inputs = "between its folds it reads an input, in whose place the plan puts nothing";
  static const std::map<std::string, std::string> reasons = {
      {"fused_columns_mutant_3", inputs},
      {"split_sums_mutant_4", zeros},
      {"split_sums_mutant_11", filled},
      {"split_sums_mutant_12", filled},
      {"transposes_f16_mutant_21", square},
      {"transposes_f16_mutant_22", square},
      {"fused_rows_of_folds_mutant_1", warp},
      {"fused_rows_of_folds_mutant_2", warp},
      {"fused_rows_of_folds_mutant_5", warp},
      {"softmax_large_row_mutant_2", own_memory},
      {"tile_product_mutated_mutant_11", unused},
      {"tile_product_mutated_mutant_19", "it changes windows, which this product does not have"},
      {"softmax_large_row_mutant_3", own},
      {"softmax_large_row_mutant_6", own_memory},
  };
  return reasons;
}

}  // namespace

std::vector<Mutant> mutants() {
  const std::vector<Base> bases = {
      {"softmax_large_row", {{"rows", 3}, {"columns", 300}}},
      {"softmax_f16", {{"rows", 3}, {"columns", 80}}, Functions::kWarps},
      {"sliced_rows", {}, Functions::kWarps},
      {"layernorm_long", {{"batch", 2}}},
      {"fused_rows_of_folds", {}},
      {"long_rows", {{"n", 1025}}},
      {"fused_columns", {{"rows", 20}}, Functions::kColumns},
      {"split_sums", {{"rows", 999}}, Functions::kNone},
      {"transposes_f16", {{"a", 136}, {"b", 144}}, Functions::kNone},
      {kTileProductBase, {{"rows", 36}, {"batch", 2}}, Functions::kTileProduct},
      {kTileConvolutionBase, {{"images", 2}, {"width", 9}}, Functions::kTileProduct},
      {"peers_2_any_size_one_shot", {{"n", 4099}}, Functions::kOneShot},
      {"peers_2_any_size_two_shot", {{"n", 4099}}, Functions::kTwoShot}};
  std::vector<Mutant> out;
  for (const Base& base : bases) {
    const Case c = find_case(base.name);
    codegen::cuda::CudaOptions options = c.options;
    options.name = c.name;
    const std::string functions = device_functions(base.functions);
    // Few blocks, so that each takes several rows.
    static const std::regex squares(R"(grid_for\((tile_count\([^;]*?\), 1|count, kWarpSize \* \d+)\))");
    std::string program = std::regex_replace(
        replaced(codegen::cuda::emit_cuda(c.build(), options).body, "grid_for(count, 1)", "2"), squares, "1");
    // A program takes the header's names from the copy: nothing else in the source includes them.
    const bool copies_header = base.functions == Functions::kTileProduct;
    if (copies_header)
      program =
          replaced(program, "using namespace braid::rt::device;",
                   "using namespace braid::rt::device;\nusing namespace braid::rt::device::own_functions;");
    const std::string text = "namespace braid::rt::device {\n" + functions + "}\n" + program;
    int number = 0;
    const auto add = [&](std::string change, std::string changed) {
      Mutant m{
          fmt::format("{}_mutant_{}", base.name, number++), base.name, base.dims, std::move(change), {}, {}};
      // Names of its own for what it defines.
      static const std::regex function(R"((?:__global__|__device__)[^(;]*?(\w+)\()");
      std::set<std::string> names = {"braid_cuda_" + c.name, "braid_cuda_program_" + c.name, "own_functions"};
      for (std::sregex_iterator at(functions.begin(), functions.end(), function), end;
           at != end && !copies_header; ++at)
        names.insert((*at)[1]);
      for (const std::string& name : names) {
        const std::string own = name.starts_with("braid_cuda_") ? replaced(name, c.name, m.name)
                                                                : fmt::format("{}_of_{}", name, m.name);
        changed = std::regex_replace(changed, std::regex("\\b" + name + "\\b"), own);
      }
      m.source = std::move(changed);
      if (const auto reason = harmless().find(m.name); reason != harmless().end())
        m.harmless = reason->second;
      out.push_back(std::move(m));
    };
    add("", text);
    const bool own_changes = base.name == std::string_view(kTileConvolutionBase);
    for (const Change& change : kChanges) {
      if ((change.only != nullptr) != own_changes) continue;
      const std::string from = change.from;
      for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += from.size()) {
        const std::size_t line = text.rfind('\n', at) + 1;
        add(fmt::format("{}, at '{}'", change.what, text.substr(line, text.find('\n', at) - line)),
            text.substr(0, at) + change.to + text.substr(at + from.size()));
      }
    }
    if (base.functions == Functions::kReductions)
      add("no barrier but within block_reduce", replaced(replaced(text, "    __syncthreads();", ""),
                                                         "  __syncthreads();  // the next", "  // the next"));
  }
  return out;
}

}  // namespace braid::test
