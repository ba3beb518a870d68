#pragma once

#include <cstdint>
#include <string>

namespace braid::cli {

// "8192 B", "14.2 KiB", "3.0 GiB": units of 1024, said as such.
std::string bytes_text(std::int64_t bytes);

}  // namespace braid::cli
