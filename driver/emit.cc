#include "driver/emit.h"

#include <fmt/format.h>

#include <filesystem>

#include "codegen/manifest.h"
#include "codegen/toolchain.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "ir/input_file.h"

namespace braid {

StagedProgram::StagedProgram(const ir::Schedule& schedule, const CompileOptions& options)
    : target_(codegen::target_named(options.target)), folder_(options.output_dir) {
  const std::string name = options.name.empty() ? program_name(options.model) : options.name;
  if (!schedule.plan) {
    ir::user_error(errors::kNoPlan, {.file = options.model}, "no pass has planned the memory of the program",
                   fmt::format("end the list of {} with plan_memory", options.option("passes")));
  }
  program_ = target_.emit(schedule,
                          {.name = name,
                           .checked = options.checked,
                           .precise = options.precise,
                           .standalone = options.standalone},
                          folder_);
}

void StagedProgram::build(const BuildRequest& request) {
  codegen::seal_library(target_.build(folder_.aside(), program_.name, request), program_.id);
}

std::vector<std::string> StagedProgram::publish() { return folder_.publish(); }

std::vector<std::string> emit_program(const ir::Schedule& schedule, const CompileOptions& options) {
  return StagedProgram(schedule, options).publish();
}

std::string build_program(const std::string& dir, const BuildRequest& request) {
  namespace fs = std::filesystem;
  const codegen::Manifest manifest = codegen::read_manifest(dir);
  const codegen::Target& target = codegen::target_named(manifest.target);
  const std::string file = manifest.name + target.files.front();
  const fs::path source = fs::path(dir) / file;
  if (ir::read_text_file(source.string()).find(fmt::format("0x{:016x}u", manifest.id)) == std::string::npos) {
    ir::user_error(errors::kNoProgram, {.file = source.string()},
                   "belongs to another compilation than its manifest", "compile the model again");
  }
  codegen::ProgramFolder folder(dir);
  fs::copy_file(source, fs::path(folder.aside()) / file);
  const fs::path library = target.build(folder.aside(), manifest.name, request);
  codegen::seal_library(library.string(), manifest.id);
  return folder.publish_library(library.filename().string(), manifest);
}

}  // namespace braid
