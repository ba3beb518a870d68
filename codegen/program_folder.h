// How a compiled program gets into a folder:
//
// (a program that builds alone has more of them, some in folders)
//
//   staged         DIR/.braid-XXXXXX/{name.cc, name.h, weights*.bin, manifest.json, name.so}
//   published      under a lock of DIR: a manifest marked "unfinished" replaces the old one, each file is
//                  renamed into place, files that only the old program had are removed, and the new manifest
//                  comes last
//
// However a compilation ends, the folder holds the old program, the new one, or one that read_manifest
// refuses. Files are replaced, never overwritten: processes that have mapped the old ones keep them. Files
// not named by a manifest of Braid's are never touched.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "codegen/descriptor.h"
#include "codegen/leftovers.h"
#include "codegen/made_folders.h"
#include "codegen/manifest.h"
#include "codegen/weights.h"

namespace braid::codegen {

struct TextFile {
  std::string name;
  std::string text;
};

class ProgramFolder {
 public:
  // Creates `dir` if needed, and the hidden folder in it. User error BR0010.
  explicit ProgramFolder(const std::string& dir);
  // Removes what has not been published.
  ~ProgramFolder();
  ProgramFolder(const ProgramFolder&) = delete;
  ProgramFolder& operator=(const ProgramFolder&) = delete;

  // The hidden folder.
  const std::string& aside() const { return aside_; }

  // Writes the sources, the weights (the constants of `graph`) and manifest.json into the hidden folder. User
  // errors BR0010, and BR0015 if a file that is not Braid's has one of the program's names.
  void write(const std::vector<TextFile>& sources, const ir::Graph& graph, const WeightLayout& weights,
             std::uint64_t id, const nlohmann::ordered_json& manifest);
  // Publishes what was written and the libraries built in the hidden folder since. Returns the paths:
  // sources, weights, manifest, libraries. User errors as above.
  std::vector<std::string> publish();
  // Adds a library, built in the hidden folder, to the published program `of`. User error BR0016 if the
  // folder no longer holds that program.
  std::string publish_library(const std::string& file, const Manifest& of);

 private:
  void refuse_foreign_files() const;

  MadeFolders made_;
  std::string dir_, aside_;
  std::optional<Leftover> leftover_;  // aside_
  Descriptor owner_;                  // locked while aside_ is in use
  std::vector<std::string> written_;
  std::vector<std::string> named_;  // by the manifest
};

}  // namespace braid::codegen
