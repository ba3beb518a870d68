#include "codegen/program_files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "codegen/index_limits.h"
#include "codegen/trace_json.h"
#include "ir/error.h"
#include "ir/written_inputs.h"

namespace braid::codegen {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

namespace {

constexpr int kCannotWrite = 10;
constexpr const char* kHint = "is the disk full, or the folder read-only?";

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
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

void write_text(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) ir::user_error(kCannotWrite, {.file = path.string()}, "cannot be written", kHint);
}

ordered_json size(ir::Expr e) {
  return e.is_constant() ? ordered_json(e.constant()) : ordered_json(to_string(e));
}

ordered_json tensor(const ir::Graph& graph, const std::string& name, ir::BufferId buffer) {
  ordered_json t;
  t["name"] = name;
  t["dtype"] = std::string(to_string(graph[buffer].dtype));
  t["shape"] = ordered_json::array();
  for (ir::Expr e : graph[buffer].sizes) t["shape"].push_back(size(e));
  return t;
}

}  // namespace

ordered_json common_manifest(const ProgramFacts& facts, const ir::Schedule& schedule) {
  const ir::Graph& graph = schedule.graph;
  ordered_json m;
  m["name"] = facts.name;
  m["target"] = facts.target;
  m["abi_version"] = facts.abi_version;
  m["entry"] = facts.entry;
  m["fingerprint"] = fmt::format("{:016x}", facts.fingerprint);
  m["ranks"] = graph.ranks;
  m["dims"] = ordered_json::array();
  for (ir::Expr d : graph.dims)
    m["dims"].push_back({{"name", d.dim_name()}, {"min", ir::bounds(d).min}, {"max", ir::bounds(d).max}});
  m["inputs"] = ordered_json::array();
  const std::vector<std::optional<ir::Expr>> limits = index_limits(schedule);
  const std::vector<bool> written = ir::written_inputs(schedule);
  for (std::size_t k = 0; k < graph.inputs.size(); ++k) {
    ordered_json t = tensor(graph, graph.inputs[k].name, graph.inputs[k].buffer);
    if (limits[k]) t["index_below"] = size(*limits[k]);
    if (written[k]) t["written"] = true;
    m["inputs"].push_back(std::move(t));
  }
  m["outputs"] = ordered_json::array();
  for (std::size_t k = 0; k < graph.outputs.size(); ++k) {
    ordered_json t = tensor(graph, graph.outputs[k].name, graph.outputs[k].buffer);
    if (const auto alias = facts.aliased_outputs.find(static_cast<int>(k));
        alias != facts.aliased_outputs.end())
      t["alias_of"] = graph.inputs[static_cast<std::size_t>(alias->second)].name;
    m["outputs"].push_back(std::move(t));
  }
  m["arena_bytes"] = facts.arena_bytes;
  m["planned"] = ordered_json::object();
  if (schedule.plan) {
    m["planned"] = {{"arena_bytes", schedule.plan->arena_bytes},
                    {"comm_bytes", schedule.plan->comm_bytes},
                    {"live_peak_bytes", schedule.plan->live_peak_bytes}};
  }
  m["weights"] = ordered_json::array();
  for (const std::string& file : weight_files(graph, facts.weights)) {
    m["weights"].push_back(
        {{"file", file},
         {"bytes", file == "weights.bin" ? facts.weights.shared_bytes : facts.weights.rank_bytes}});
  }
  m["groups"] = ordered_json::array();
  for (const ir::CommGroup& g : graph.groups) m["groups"].push_back({{"name", g.name}, {"ranks", g.ranks}});
  m["channels"] = std::string(to_string(schedule.channels));
  m["collective_trace"] = trace_json(ir::collective_trace(schedule, facts.name));
  return m;
}

std::vector<std::string> write_program_files(const std::string& dir, const std::vector<TextFile>& sources,
                                             const ir::Graph& graph, const WeightLayout& weights,
                                             std::uint64_t fingerprint, const ordered_json& manifest) {
  std::vector<std::string> files;
  try {
    fs::create_directories(dir);
    const Staging staging(dir);
    const fs::path& at = staging.path();
    for (const TextFile& source : sources) {
      write_text(at / source.name, source.text);
      files.push_back(source.name);
    }
    write_weights(graph, weights, fingerprint, at.string());
    for (const std::string& file : weight_files(graph, weights)) files.push_back(file);
    write_text(at / "manifest.json",
               manifest.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    files.emplace_back("manifest.json");
    for (std::string& file : files) {
      fs::rename(at / file, fs::path(dir) / file);
      file = (fs::path(dir) / file).string();
    }
  } catch (const fs::filesystem_error& e) {
    ir::user_error(kCannotWrite, {.file = dir}, fmt::format("cannot be written: {}", e.code().message()),
                   kHint);
  }
  return files;
}

}  // namespace braid::codegen
