#include "cli/report.h"

#include <nlohmann/json.hpp>

#include "cli/version.h"
#include "codegen/output_files.h"
#include "harness/launched.h"
#include "ir/error.h"
#include "runtime/program.h"

namespace braid::cli {
namespace {

// The version of the JSON. A reader may rely on the keys of a version; later releases only add keys to it.
constexpr int kJsonVersion = 1;

}  // namespace

Report::Report() : json_(std::make_unique<nlohmann::ordered_json>(nlohmann::ordered_json::object())) {}
Report::~Report() = default;

void Report::text(std::string_view text) const {
  if (!json_to_terminal()) fmt::print("{}", text);
}

nlohmann::ordered_json error_json(const std::exception& error) {
  nlohmann::ordered_json json;
  if (const auto* user = dynamic_cast<const ir::UserError*>(&error)) {
    json["number"] = fmt::format("BR{:04}", user->code());
    json["message"] = user->message();
    const ir::Location& at = user->location();
    json["file"] = at.file;
    json["node"] = at.node;
    json["operator"] = at.op;
    json["hint"] = user->hint();
    if (at.line > 0) json["line"] = at.line;
    if (at.column > 0) json["column"] = at.column;
    return json;
  }
  if (const auto* program = dynamic_cast<const rt::ProgramError*>(&error))
    json["number"] = fmt::format("BR{:04}", program->code());
  json["message"] = error.what();
  return json;
}

void Report::failed(const std::exception& error) { json()["error"] = error_json(error); }

void Report::finish(std::string_view command, int exit_code) {
  if (target_.empty()) return;
  // Launched ranks have one terminal, and often one file system.
  const int rank = harness::launched_rank();
  std::string path = target_;
  const std::size_t mark = path.find("{rank}");
  if (mark != std::string::npos) path.replace(mark, 6, std::to_string(std::max(rank, 0)));
  if (rank > 0 && mark == std::string::npos) return;
  nlohmann::ordered_json all = {
      {"version", kJsonVersion}, {"braid", kVersion}, {"command", command}, {"exit_code", exit_code}};
  all.update(json());
  const std::string text = all.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  if (json_to_terminal()) {
    fmt::print("{}", text);
  } else {
    codegen::write_file(path, text);
  }
}

}  // namespace braid::cli
