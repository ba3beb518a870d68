#include "codegen/compile.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "ir/error.h"
#include "ir/parser.h"
#include "passes/pipeline.h"

namespace braid {
namespace {

constexpr int kFileNotReadable = 1;

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) ir::user_error(kFileNotReadable, {.file = path}, "cannot read the file", "check the path");
  return text.str();
}

}  // namespace

std::string program_name(const std::string& model_path) {
  std::string name = std::filesystem::path(model_path).filename().string();
  for (const char* tail : {".onnx", ".braid", ".rank{rank}", "{rank}"}) {
    if (name.size() > std::string_view(tail).size() && name.ends_with(tail)) {
      name.resize(name.size() - std::string_view(tail).size());
    }
  }
  for (char& c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    if (!letter) c = '_';
  }
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) name.insert(0, "_");
  return name;
}

ir::Schedule lower(const CompileOptions& options) {
  ir::Schedule schedule = options.model.ends_with(".braid")
                              ? ir::parse_schedule(read_text(options.model), options.model)
                              : frontend::import_model(options.model, options.import);
  return schedule;
}

std::vector<passes::PassRecord> optimise(ir::Schedule& schedule, const CompileOptions& options) {
  const std::vector<passes::Pass> list =
      options.passes ? passes::parse_pass_list(*options.passes) : passes::default_passes();
  return passes::run_passes(schedule, list, options.run);
}

}  // namespace braid
