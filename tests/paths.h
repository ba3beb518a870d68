// Files and folders that tests read. Only paths.cc knows the build's absolute paths: all other objects are
// the same in every clone, and ccache shares them.
#pragma once

#include <string>

namespace braid::paths {

// The absolute path of `below` in this folder; of the folder itself if `below` is empty.
std::string source(const std::string& below = "");
std::string binary(const std::string& below = "");
std::string onnx_cases(const std::string& below = "");   // tests/models writes them
std::string test_models(const std::string& below = "");  // tests/models writes them

}  // namespace braid::paths
