// Traces of tests: written into a folder of the process, imported, or refused as expected.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "frontend/traces/import_trace.h"
#include "ir/error.h"

namespace braid::frontend {

// Removed at the end of the process.
struct TraceFolder {
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / fmt::format("braid_traces_{}", getpid());
  TraceFolder() { std::filesystem::create_directories(path); }
  ~TraceFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

inline std::string write_trace(const std::string& name, const std::string& content) {
  static const TraceFolder folder;
  const std::string path = (folder.path / name).string();
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

inline ImportedTrace import_text(const std::string& name, const std::string& content) {
  const std::string path = write_trace(name, content);
  ImportedTrace trace = import_trace(path);
  std::filesystem::remove(path);
  return trace;
}

// `line` 0: the message says where itself.
inline void expect_trace_error(int code, const std::string& name, const std::string& content, int line = 0,
                               int column = 0, const std::string& message = "") {
  try {
    import_text(name, content);
    FAIL() << "no error " << code << " for " << content;
  } catch (const ir::UserError& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    EXPECT_NE(e.location().file.find(name), std::string::npos) << e.what();
    if (line > 0) {
      EXPECT_EQ(e.location().line, line) << e.what();
      EXPECT_EQ(e.location().column, column) << e.what();
    }
    EXPECT_NE(e.message().find(message), std::string::npos) << e.what();
  }
}

}  // namespace braid::frontend
