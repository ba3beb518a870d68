#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "codegen/cuda/build.h"
#include "ir/error.h"

namespace braid::codegen::cuda {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

namespace {

// A folder beside the final files that vanishes unless its contents are moved out.
class Staging {
 public:
  explicit Staging(const fs::path& dir) : path_(dir / fmt::format(".braid-{}", ::getpid())) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~Staging() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

constexpr const char* kHint = "is the disk full, or the folder read-only?";

void write_text(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) ir::user_error(10, {.file = path.string()}, "cannot be written", kHint);
}

ordered_json tensor(const ir::Graph& graph, const std::string& name, ir::BufferId buffer) {
  ordered_json t;
  t["name"] = name;
  t["dtype"] = std::string(to_string(graph[buffer].dtype));
  t["shape"] = ordered_json::array();
  for (ir::Expr e : graph[buffer].sizes) {
    if (e.is_constant()) {
      t["shape"].push_back(e.constant());
    } else {
      t["shape"].push_back(to_string(e));
    }
  }
  return t;
}

}  // namespace

ordered_json manifest(const CudaProgram& program, const ir::Schedule& schedule) {
  const ir::Graph& graph = schedule.graph;
  ordered_json m;
  m["name"] = program.name;
  m["target"] = "cuda";
  m["abi_version"] = 1;
  m["entry"] = "braid_cuda_program_" + program.name;
  m["fingerprint"] = fmt::format("{:016x}", program.fingerprint);
  m["ranks"] = graph.ranks;
  m["dims"] = ordered_json::array();
  for (ir::Expr d : graph.dims)
    m["dims"].push_back({{"name", d.dim_name()}, {"min", ir::bounds(d).min}, {"max", ir::bounds(d).max}});
  m["inputs"] = ordered_json::array();
  for (const ir::GraphInput& in : graph.inputs) m["inputs"].push_back(tensor(graph, in.name, in.buffer));
  m["outputs"] = ordered_json::array();
  for (const ir::GraphOutput& out : graph.outputs)
    m["outputs"].push_back(tensor(graph, out.name, out.buffer));
  m["arena_bytes"] = program.arena_bytes;
  m["planned"] = ordered_json::object();
  if (schedule.plan) {
    m["planned"] = {{"arena_bytes", schedule.plan->arena_bytes},
                    {"comm_bytes", schedule.plan->comm_bytes},
                    {"live_peak_bytes", schedule.plan->live_peak_bytes}};
  }
  m["weights"] = ordered_json::array();
  for (const std::string& file : weight_files(graph, program.weights)) {
    m["weights"].push_back(
        {{"file", file},
         {"bytes", file == "weights.bin" ? program.weights.shared_bytes : program.weights.rank_bytes}});
  }
  m["groups"] = ordered_json::array();
  for (const ir::CommGroup& g : graph.groups) m["groups"].push_back({{"name", g.name}, {"ranks", g.ranks}});
  m["channels"] = std::string(to_string(schedule.channels));
  m["kernels"] = program.kernels;
  m["streams"] = {{"compute", "low priority"},
                  {"communication", program.streams.collectives ? "high priority" : "none"}};
  m["events"] = program.streams.events;
  return m;
}

std::vector<std::string> write_cuda(const CudaProgram& program, const ir::Schedule& schedule,
                                    const std::string& dir) {
  std::vector<std::string> files;
  try {
    fs::create_directories(dir);
    Staging staging(dir);
    const fs::path& at = staging.path();
    write_weights(schedule.graph, program.weights, program.fingerprint, at.string());
    write_text(at / (program.name + ".cu"), cuda_source(std::span(&program, 1)));
    write_text(at / (program.name + ".h"), program.header);
    write_text(at / "manifest.json", manifest(program, schedule).dump(2) + "\n");
    files = {program.name + ".cu", program.name + ".h"};
    const std::vector<std::string> weights = weight_files(schedule.graph, program.weights);
    files.insert(files.end(), weights.begin(), weights.end());
    files.push_back("manifest.json");
    for (std::string& file : files) {
      fs::rename(at / file, fs::path(dir) / file);
      file = (fs::path(dir) / file).string();
    }
  } catch (const fs::filesystem_error& e) {
    ir::user_error(10, {.file = dir}, fmt::format("cannot be written: {}", e.code().message()), kHint);
  }
  return files;
}

}  // namespace braid::codegen::cuda
