// Models as ONNX files, and back.
#pragma once

#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "frontend/emit_onnx.h"
#include "ir/printer.h"
#include "ir/schedule.h"
#include "tests/frontend/models.h"

namespace braid::frontend::sharding {

using Files = std::map<std::string, std::string>;  // name: bytes

inline Files emitted(const std::string& path, const ImportOptions& options, EmitOnnxOptions emit) {
  emit.name = "m";
  Files files;
  emit_onnx(path, options, emit, [&](const std::string& name, std::span<const std::string_view> parts) {
    std::string& bytes = files[name];
    for (const std::string_view part : parts) bytes += part;
  });
  return files;
}

// Reads the files again, with the same dimensions.
inline ir::Schedule read_again(const Files& files, const ImportOptions& options) {
  const TemporaryFolder folder;
  for (const auto& [name, bytes] : files) folder.write(name, bytes);
  ImportOptions again = options;
  again.split = nullptr;
  return import_model(folder.file("m.rank{rank}.onnx"), again);
}

// The first line in which two programs differ; "" if they are the same, wherever their weights are stored.
inline std::string difference_of_texts(ir::Schedule a, ir::Schedule b) {
  for (ir::Schedule* schedule : {&a, &b}) {
    for (ir::Storage& storage : schedule->graph.storages) storage.data.file.clear();
  }
  std::istringstream first(ir::print(a)), second(ir::print(b));
  for (std::string one, other;;) {
    const bool more = static_cast<bool>(std::getline(first, one)),
               others = static_cast<bool>(std::getline(second, other));
    if (!more && !others) return "";
    if (more != others || one != other) return one.substr(0, 200) + "\n" + other.substr(0, 200);
  }
}

}  // namespace braid::frontend::sharding
