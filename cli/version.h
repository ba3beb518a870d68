// The versions of this program and of its components.
#pragma once

#include <string>
#include <string_view>

namespace braid::cli {

inline constexpr std::string_view kVersion = BRAID_VERSION;

// "braid 0.1.0" and lines about the commit, the compiler and the libraries.
std::string version_text();

}  // namespace braid::cli
