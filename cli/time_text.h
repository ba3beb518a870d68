#pragma once

#include <cstdint>
#include <string>

namespace braid::cli {

// "870 ns", "12.3 us", "4.56 ms", "1.23 s": three digits, or all of a nanosecond count.
std::string time_text(std::int64_t ns);

}  // namespace braid::cli
