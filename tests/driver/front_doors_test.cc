// Small files of every kind at every reader: each answers with a result or a user error, within 2 s of
// processor time and 300 MB. An empty file, or one without content, is never a result. BRAID_TEST_SEED and
// BRAID_RANDOM_SCALE as in random_test.cc.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <random>

#include "analysis/costs/cost_file.h"
#include "analysis/costs/machine.h"
#include "codegen/manifest.h"
#include "codegen/trace_json.h"
#include "driver/program_facts.h"
#include "explain/measured_timeline_json.h"
#include "frontend/inspect.h"
#include "frontend/signature.h"
#include "frontend/tensor_file.h"
#include "frontend/traces/import_trace.h"
#include "ir/input_file.h"
#include "ir/parser.h"
#include "pipeline/costs.h"
#include "pipeline/csv.h"
#include "split/plan.h"
#include "tests/frontend/models.h"
#include "tests/fuzz/mutate.h"
#include "tests/support/limited_child.h"
#include "tests/support/random.h"

namespace braid::test {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = 200;
constexpr int kSeconds = 2;

struct Reader {
  const char* name;
  std::function<void(const std::string& file)> read;
  bool folder = false;  // reads the file as the manifest of its folder
};
const std::vector<Reader>& readers() {
  static const std::vector<Reader> all = {
      {"inspect", [](const std::string& f) { frontend::inspect_model(f); }},
      {"signature", [](const std::string& f) { frontend::read_signature(f); }},
      {"IR text", [](const std::string& f) { ir::parse_schedule(ir::read_text_file(f), f); }},
      {"tensor", [](const std::string& f) { frontend::read_tensor_file(f); }},
      {"trace", [](const std::string& f) { frontend::import_trace(f); }},
      {"plan", [](const std::string& f) { split::parse_plan(ir::read_text_file(f), f); }},
      {"costs", [](const std::string& f) { analysis::read_cost_file(f); }},
      {"machine", [](const std::string& f) { analysis::parse_machine(ir::read_text_file(f), f); }},
      {"timeline", [](const std::string& f) { explain::read_timeline(f); }},
      {"pipeline",
       [](const std::string& f) { pipeline::parse_schedule(ir::read_text_file(f), {.file = f}); }},
      {"pipeline costs", [](const std::string& f) { pipeline::read_costs(f, 2); }},
      {"manifest", [](const std::string& f) { codegen::read_manifest(f); }, true},
      {"program trace", [](const std::string& f) { codegen::read_program_trace(f); }, true},
      {"program facts", [](const std::string& f) { program_facts(f); }, true},
  };
  return all;
}

// Beginnings of files of every kind that a reader may meet, all small.
std::vector<std::string> seeds() {
  std::vector<std::string> all = {
      "graph g\ninput %x: f32[n, 3]\n%y: f32[n, 3] = pointwise { %0 = load %x store %0 }\noutput %y\n",
      "0F0,0B0\n1F0,1B0\n",
      "{\"version\": 1, \"name\": \"g\", \"target\": \"cpu\", \"files\": [\"g.cc\"], \"id\": \"0\", "
      "\"ranks\": 1}",
      "{\"traceEvents\": [{\"ph\": \"X\", \"pid\": 1, \"tid\": 1, \"ts\": 0, \"dur\": 1, \"name\": \"k\", "
      "\"cat\": \"kernel\"}]}",
      "{\"kernels\": {\"y\": {\"ns\": 10}}}",
      "weight w: R, S(0)\noutput y: R\n",
      std::string("\x93NUMPY\x01\x00\x46\x00", 10) +
          "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }",
      std::string("\x7f"
                  "ELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0\x01\0\0\0",
                  24),
      std::string("PK\x03\x04\x14\0\0\0\0\0", 10),
      "\x1f\x8b\x08",
      "[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
      "{\"a\": 1e999, \"b\": -1, \"c\": 99999999999999999999}",
  };
  for (const char* graph :
       {"g (float[2] x) => (float[2] y) { y = Relu(x) }",
        "g (float[n, 3] x) => (float[n, 3] y) { y = Add(x, x) }",
        "g (float[2] x) => (float[2] y) { c = Constant <value = float[2] {1, 2}> () y = Mul(x, c) }",
        "g (float[8] x) => (float[4] y) { y = ai.braid.ReduceScatter (x) }"}) {
    onnx::ModelProto model = frontend::parse_model(graph);
    model.clear_producer_name();
    all.push_back(model.SerializeAsString());
  }
  return all;
}

std::string content(std::uint64_t seed) {
  static const std::vector<std::string> all = seeds();
  std::mt19937_64 random(seed);
  std::string bytes;
  if (random() % 8 == 0) {
    for (std::size_t left = random() % kMostBytes; left > 0; --left) bytes += static_cast<char>(random());
  } else {
    bytes = mutate(all[random() % all.size()], all[random() % all.size()], random);
  }
  bytes.resize(std::min(bytes.size(), kMostBytes));
  return bytes;
}

// Returns this process's current size plus 300 MB.
rlim_t most_memory() {
  std::ifstream file("/proc/self/statm");
  rlim_t pages = 0;
  file >> pages;
  return pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + (rlim_t{300} << 20);
}

// Writes the file and gives its path, or that of the folder that it is the manifest of.
std::string place(const frontend::TemporaryFolder& folder, const Reader& reader, const std::string& bytes) {
  const std::string path = folder.write(reader.folder ? "manifest.json" : "file", bytes);
  return reader.folder ? fs::path(path).parent_path().string() : path;
}

TEST(FrontDoors, AnswerAnySmallFile) {
  const std::uint64_t first = first_seed();
  const int count = random_cases(300);
  const auto one = [&](int k) {
    const frontend::TemporaryFolder folder;
    const Reader& reader = readers()[static_cast<std::size_t>(k) % readers().size()];
    reader.read(place(folder, reader, content(first + static_cast<std::uint64_t>(k) / readers().size())));
  };
  const int all = count * static_cast<int>(readers().size());
  for (const auto& [k, what] : run_limited(all, one, most_memory(), kSeconds)) {
    const std::uint64_t seed = first + static_cast<std::uint64_t>(k) / readers().size();
    const std::string name = "front_door_" + std::to_string(seed);
    std::ofstream(name, std::ios::binary) << content(seed);
    ADD_FAILURE() << readers()[static_cast<std::size_t>(k) % readers().size()].name << ": " << what
                  << "\nBRAID_TEST_SEED=" << seed << " makes it the first case; it is in " << name;
  }
}

TEST(FrontDoors, NothingIsNoResult) {
  for (const Reader& reader : readers()) {
    for (const std::string bytes :
         {std::string(), std::string("\n"), std::string("\r\n \t\n"), std::string("\xef\xbb\xbf"),
          std::string("\xef\xbb\xbf\n"), std::string("// nothing\n"), std::string("# nothing\n"),
          std::string("{}"), std::string("[]"), std::string("null"), std::string("\0", 1)}) {
      SCOPED_TRACE(std::string(reader.name) + " of '" + bytes + "'");
      const frontend::TemporaryFolder folder;
      const ir::UserError error = frontend::error_of([&] { reader.read(place(folder, reader, bytes)); });
      EXPECT_GT(error.code(), 0);
    }
  }
}

TEST(FrontDoors, WhatIsNoFileIsAnErrorAtOnce) {
  const frontend::TemporaryFolder folder;
  ASSERT_EQ(::mkfifo(folder.file("pipe").c_str(), 0600), 0);
  fs::create_directory(folder.file("folder"));
  fs::create_symlink(folder.file("loop"), folder.file("loop"));
  fs::create_symlink(folder.file("nowhere"), folder.file("dangling"));
  std::vector<std::string> paths = {"/dev/zero",      "/dev/null", "/dev/full", "/dev/random",
                                    "/proc/self/mem", "",          "/"};
  for (const char* name : {"pipe", "folder", "loop", "dangling", "absent"})
    paths.push_back(folder.file(name));
  std::vector<std::pair<const Reader*, std::string>> all;
  for (const Reader& reader : readers()) {
    for (const std::string& path : paths) all.emplace_back(&reader, path);
  }
  const auto one = [&](int k) {
    const auto& [reader, path] = all[static_cast<std::size_t>(k)];
    reader->read(path);
    throw std::runtime_error("no error");
  };
  for (const auto& [k, what] : run_limited(static_cast<int>(all.size()), one, most_memory(), kSeconds))
    ADD_FAILURE() << all[static_cast<std::size_t>(k)].first->name << " of "
                  << all[static_cast<std::size_t>(k)].second << ": " << what;
}

}  // namespace
}  // namespace braid::test
