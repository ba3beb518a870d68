#include "driver/compile_options.h"

#include <filesystem>
#include <system_error>

namespace braid {

bool is_text(const std::string& model) {
  std::error_code ignored;  // an error: the parser's caller says that the file cannot be read
  return model.ends_with(".braid") && !std::filesystem::is_directory(model, ignored);
}

std::string program_name(const std::string& model_path) {
  std::string name = std::filesystem::path(model_path).filename().string();
  for (const char* tail : {".onnx", ".braid", ".rank{rank}", "{rank}"}) {
    if (name.size() > std::string_view(tail).size() && name.ends_with(tail)) {
      name.resize(name.size() - std::string_view(tail).size());
    }
  }
  for (char& c : name) {
    const bool letter =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    if (!letter) c = '_';
  }
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) name.insert(0, "_");
  return name;
}

}  // namespace braid
