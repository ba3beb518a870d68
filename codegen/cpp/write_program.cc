#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "codegen/cpp/emit.h"
#include "ir/error.h"

namespace braid::codegen::cpp {

namespace fs = std::filesystem;

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

void write_text(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) ir::user_error(10, {path.string(), {}, {}}, "cannot be written", "is the disk full, or the folder read-only?");
}

}  // namespace

void write_program(const EmittedProgram& program, const ir::Graph& graph, const std::string& dir) {
  try {
    fs::create_directories(dir);
    Staging staging(dir);
    const fs::path& at = staging.path();
    std::vector<std::string> files = weight_files(graph, program.weights);
    write_weights(graph, program.weights, program.fingerprint, at.string());
    write_text(at / (program.name + ".cc"), program.source);
    write_text(at / (program.name + ".h"), program.header);
    write_text(at / "manifest.json", program.manifest.dump(2) + "\n");
    files.insert(files.end(), {program.name + ".cc", program.name + ".h", "manifest.json"});
    for (const std::string& file : files) fs::rename(at / file, fs::path(dir) / file);
  } catch (const fs::filesystem_error& e) {
    ir::user_error(10, {dir, {}, {}}, fmt::format("cannot be written: {}", e.code().message()), "is the disk full, or the folder read-only?");
  }
}

}  // namespace braid::codegen::cpp
