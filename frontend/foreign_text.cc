#include "frontend/foreign_text.h"

#include <algorithm>
#include <string_view>

namespace braid::frontend {
namespace {

// Returns the end of a place such as "file.cc:12: " or "[file.h:12]: ", whose `ending`, ".cc:", stands at
// `at`; npos: it is none.
std::size_t end_of_place(const std::string& text, std::size_t at, std::string_view ending) {
  std::size_t end = at + ending.size();
  const auto digit = [&] { return end < text.size() && text[end] >= '0' && text[end] <= '9'; };
  if (!digit()) return std::string::npos;
  while (digit()) ++end;
  for (const char c : {']', ':', ' '}) {
    if (end < text.size() && text[end] == c) ++end;
  }
  return end;
}

void drop_places(std::string& text) {
  int left = 16;  // a model's names may look like places, and each takes a while
  for (const std::string_view ending : {".h:", ".hh:", ".hpp:", ".cc:", ".cpp:", ".cxx:", ".inc:", ".c:"}) {
    for (std::size_t at = text.find(ending); at != std::string::npos; at = text.find(ending, at)) {
      const std::size_t end = end_of_place(text, at, ending);
      if (left-- == 0) return;
      if (end == std::string::npos) {
        ++at;
        continue;
      }
      const std::size_t before = text.find_last_of(" \t\n[", at);
      std::size_t begin = before == std::string::npos ? 0 : before + 1;
      if (begin > 0 && text[begin - 1] == '[' && text[end - 1] != '[') --begin;
      text.erase(begin, end - begin);
      at = begin;
    }
  }
}

// "f: Assertion `n` failed: why"
void drop_assertion(std::string& text) {
  constexpr std::string_view kBegin = "Assertion `", kEnd = "` failed";
  const std::size_t begin = text.find(kBegin);
  const std::size_t end = begin == std::string::npos ? begin : text.find(kEnd, begin + kBegin.size());
  if (end == std::string::npos) return;
  const std::string condition = text.substr(begin + kBegin.size(), end - begin - kBegin.size());
  const std::size_t rest = std::min(text.find_first_not_of(":. ", end + kEnd.size()), text.size());
  text.erase(0, rest);
  if (text.empty()) text = "an assertion of a library failed: " + condition;
}

}  // namespace

std::string foreign_text(const std::exception& error) {
  std::string text = error.what();
  drop_places(text);
  drop_assertion(text);
  return text;
}

}  // namespace braid::frontend
