// The files with which a program's folder builds alone: a CMakeLists.txt, and Braid's sources that the
// program needs.
//
//   DIR/CMakeLists.txt    cmake -S DIR -B build && cmake --build build; -DBRAID_EMULATED=ON: without nvcc
//   DIR/runtime/...       the headers that the sources include, and the emulated device
#pragma once

#include <span>
#include <string>
#include <vector>

#include "codegen/program_folder.h"

namespace braid::codegen::cuda {

// Returns the files of runtime/ that sources with these texts need, with the files that these include, in
// order of their names. Throws user error BR0604 if Braid's headers are not found or incomplete.
std::vector<TextFile> runtime_sources(std::span<const std::string> texts,
                                      const std::string& runtime_dir = {});

// The same for the program `name`, and CMakeLists.txt.
std::vector<TextFile> standalone_files(const std::string& name, const std::string& source);

}  // namespace braid::codegen::cuda
