#include "cli/version.h"

#include <fmt/format.h>

#include "braid_commit.h"  // written by cmake/WriteCommit.cmake

namespace braid::cli {

std::string version_text() {
  return fmt::format(
      "braid {}\n"
      "commit {}\n"
      "built with {}\n"
      "CPU programs: {}\n"
      "ONNX {}\n"
      "NCCL {}",
      kVersion, kCommit, BRAID_COMPILER_VERSION, BRAID_ONEDNN_VERSION, BRAID_ONNX_VERSION,
      BRAID_NCCL_VERSION);
}

}  // namespace braid::cli
