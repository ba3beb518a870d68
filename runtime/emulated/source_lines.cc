#include "runtime/emulated/source_lines.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <cstdio>
#include <sstream>
#include <utility>

namespace braid::emulated {
namespace {

std::string hex(uintptr_t value) {
  std::ostringstream text;
  text << std::hex << "0x" << value;
  return text.str();
}

std::string file_name(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

// Within single quotes of a shell.
std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

// Returns the answer for one address from the places, the innermost first, of functions that were inlined
// into each other.
std::string place_of(const std::vector<std::string>& frames) {
  std::string inner, outer;
  for (const std::string& frame : frames) {
    const std::string place = frame.substr(0, frame.find(' '));
    const size_t colon = place.rfind(':');
    if (place.empty() || place[0] == '?' || colon == std::string::npos || place[colon + 1] == '?' ||
        place.substr(colon) == ":0")
      continue;
    const std::string text = "line " + place.substr(colon + 1) + " of " + file_name(place.substr(0, colon));
    if (inner.empty()) inner = text;
    if (place.substr(0, colon).ends_with(".cu")) outer = text;
  }
  if (outer.empty() || outer == inner) return inner;
  return outer + " (" + inner + ")";
}

// By the offsets of `code` in the object.
std::vector<std::string> ask(const std::string& object, const std::vector<uintptr_t>& offsets) {
  std::string command = "addr2line -a -i -e " + quoted(object);
  for (const uintptr_t offset : offsets) command += " " + hex(offset);
  command += " 2>/dev/null";
  std::vector<std::string> places;
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return places;
  std::vector<std::string> frames;
  const auto end_of_address = [&] { places.push_back(place_of(frames)), frames.clear(); };
  bool any = false;
  char line[4096];
  while (std::fgets(line, sizeof line, pipe) != nullptr) {
    std::string text(line);
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
    if (text.starts_with("0x")) {
      if (any) end_of_address();
      any = true;
    } else {
      frames.push_back(text);
    }
  }
  if (any) end_of_address();
  ::pclose(pipe);
  return places;
}

}  // namespace

std::map<uintptr_t, std::string> source_lines(const std::vector<uintptr_t>& code) {
  std::map<std::string, std::vector<std::pair<uintptr_t, uintptr_t>>> by_object;  // address, offset
  std::map<uintptr_t, std::string> result;
  for (const uintptr_t address : code) {
    Dl_info info{};
    link_map* map = nullptr;
    const bool found = ::dladdr1(reinterpret_cast<const void*>(address), &info,
                                 reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) != 0 &&
                       map != nullptr;
    if (!found) {
      result[address] = hex(address);
      continue;
    }
    const std::string object = map->l_name[0] != '\0' ? map->l_name : "/proc/self/exe";
    const uintptr_t offset = address - map->l_addr;
    result[address] = file_name(info.dli_fname != nullptr ? info.dli_fname : object) + "+" + hex(offset);
    by_object[object].emplace_back(address, offset);
  }
  constexpr size_t kAtOnce = 500;  // the length of a command is limited
  for (const auto& [object, addresses] : by_object) {
    for (size_t first = 0; first < addresses.size(); first += kAtOnce) {
      std::vector<uintptr_t> offsets;
      for (size_t i = first; i < addresses.size() && i < first + kAtOnce; ++i)
        offsets.push_back(addresses[i].second - 1);  // within the call
      const std::vector<std::string> places =
          ask(object == "/proc/self/exe" ? "/proc/" + std::to_string(::getpid()) + "/exe" : object, offsets);
      for (size_t i = 0; i < places.size() && i < offsets.size(); ++i)
        if (!places[i].empty()) result[addresses[first + i].first] = places[i];
    }
  }
  return result;
}

}  // namespace braid::emulated
