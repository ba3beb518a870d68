// Proof that a process knows a secret, without sending it: HMAC-SHA-256 (RFC 2104, FIPS 180-4).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace braid::rt {

using Digest = std::array<unsigned char, 32>;

Digest sha256(std::string_view text);
Digest keyed_digest(std::string_view key, std::string_view text);

// Takes the same time whatever the difference is.
bool equal(const Digest& a, const Digest& b);

}  // namespace braid::rt
