// How a compiled program gets into a folder:
//
//   made aside     DIR/.braid-XXXXXX/{name.cc, name.h, weights*.bin, manifest.json, name.so}
//   published      under a lock of DIR: a manifest that says "unfinished" takes the place of the old one,
//                  each file is renamed to its place, files that only the old program had are removed, and
//                  the new manifest comes last
//
// Whatever ends a compilation, the folder holds the old program, the new one, or one that read_manifest
// refuses. Files are replaced and never written to: who has mapped the old ones keeps them. Files that no
// manifest of Braid's names are never touched.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "codegen/descriptor.h"
#include "codegen/leftovers.h"
#include "codegen/manifest.h"
#include "codegen/weights.h"

namespace braid::codegen {

struct TextFile {
  std::string name;
  std::string text;
};

class ProgramFolder {
 public:
  // Makes `dir` if need be, and in it the hidden folder. User error BR0010.
  explicit ProgramFolder(const std::string& dir);
  // What has not been published goes.
  ~ProgramFolder();
  ProgramFolder(const ProgramFolder&) = delete;
  ProgramFolder& operator=(const ProgramFolder&) = delete;

  // Where the program is made.
  const std::string& aside() const { return aside_; }

  // Writes the sources, the weights (the constants of `graph`) and manifest.json aside. User errors BR0010,
  // and BR0015 where somebody else's file has one of the program's names.
  void write(const std::vector<TextFile>& sources, const ir::Graph& graph, const WeightLayout& weights,
             std::uint64_t id, const nlohmann::ordered_json& manifest);
  // Gives the folder what was written, and the libraries that have been built beside it since. Returns the
  // paths: sources, weights, manifest, libraries. User errors as above.
  std::vector<std::string> publish();
  // Adds a library, built aside, to the published program `of`. User error BR0016 where the folder no longer
  // holds that program.
  std::string publish_library(const std::string& file, const Manifest& of);

 private:
  void refuse_foreign_files() const;

  std::string dir_, aside_;
  std::optional<Leftover> leftover_;  // aside_
  bool made_ = false;                 // the folder itself
  Descriptor owner_;                  // locked as long as somebody works in aside_
  std::vector<std::string> written_;
  std::vector<std::string> named_;  // by the manifest
};

}  // namespace braid::codegen
