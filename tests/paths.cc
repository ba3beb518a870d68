#include "tests/paths.h"

namespace braid::paths {
namespace {

std::string in_folder(const std::string& folder, const std::string& below) {
  return below.empty() ? folder : folder + "/" + below;
}

}  // namespace

std::string source(const std::string& below) { return in_folder(BRAID_SOURCE_DIR, below); }
std::string binary(const std::string& below) { return in_folder(BRAID_BINARY_DIR, below); }
std::string onnx_cases(const std::string& below) { return in_folder(BRAID_ONNX_CASES, below); }
std::string test_models(const std::string& below) { return in_folder(BRAID_TEST_MODELS, below); }

}  // namespace braid::paths
