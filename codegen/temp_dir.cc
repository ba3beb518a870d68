#include "codegen/temp_dir.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <random>

#include "ir/error.h"

namespace braid::codegen {

namespace fs = std::filesystem;

namespace {

constexpr int kCannotWrite = 10;

std::string new_name() {
  std::random_device random;
  return (fs::temp_directory_path() / fmt::format("braid-{}-{:08x}{:08x}", ::getpid(), random(), random()))
      .string();
}

}  // namespace

TempDir::TempDir() : path_(new_name()), leftover_(path_) {
  if (::mkdir(path_.c_str(), 0700) != 0)
    ir::user_error(kCannotWrite, {.file = path_}, "cannot create a temporary folder",
                   "set TMPDIR to a writable folder");
}

TempDir::~TempDir() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace braid::codegen
