#include "runtime/comm/keyed_digest.h"

#include <algorithm>
#include <bit>
#include <string>

namespace braid::rt {
namespace {

constexpr uint32_t kRounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

constexpr size_t kBlock = 64;

void add_block(std::array<uint32_t, 8>& state, const unsigned char* block) {
  uint32_t w[64];
  for (int k = 0; k < 16; ++k) {
    w[k] = uint32_t{block[4 * k]} << 24 | uint32_t{block[4 * k + 1]} << 16 | uint32_t{block[4 * k + 2]} << 8 |
           uint32_t{block[4 * k + 3]};
  }
  for (int k = 16; k < 64; ++k) {
    const uint32_t a = w[k - 15], b = w[k - 2];
    w[k] = w[k - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) + w[k - 7] +
           (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (int k = 0; k < 64; ++k) {
    const uint32_t t1 = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) +
                        kRounds[k] + w[k];
    const uint32_t t2 =
        (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  const uint32_t sums[] = {a, b, c, d, e, f, g, h};
  for (size_t k = 0; k < 8; ++k) state[k] += sums[k];
}

}  // namespace

Digest sha256(std::string_view text) {
  std::array<uint32_t, 8> state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                   0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::string padded(text);
  padded += '\x80';
  padded.resize((padded.size() + 8 + kBlock - 1) / kBlock * kBlock - 8, '\0');
  for (int shift = 56; shift >= 0; shift -= 8)
    padded += static_cast<char>(uint64_t{text.size()} * 8 >> shift & 0xff);
  for (size_t at = 0; at < padded.size(); at += kBlock)
    add_block(state, reinterpret_cast<const unsigned char*>(padded.data()) + at);
  Digest digest;
  for (size_t k = 0; k < digest.size(); ++k)
    digest[k] = static_cast<unsigned char>(state[k / 4] >> (24 - k % 4 * 8) & 0xff);
  return digest;
}

Digest keyed_digest(std::string_view key, std::string_view text) {
  const auto as_text = [](const Digest& digest) { return std::string(digest.begin(), digest.end()); };
  std::string block = key.size() > kBlock ? as_text(sha256(key)) : std::string(key);
  block.resize(kBlock, '\0');
  std::string inner = block, outer = block;
  for (char& c : inner) c = static_cast<char>(c ^ 0x36);
  for (char& c : outer) c = static_cast<char>(c ^ 0x5c);
  return sha256(outer + as_text(sha256(inner.append(text))));
}

bool equal(const Digest& a, const Digest& b) {
  volatile unsigned char difference = 0;
  for (size_t k = 0; k < a.size(); ++k) difference = difference | (a[k] ^ b[k]);
  return difference == 0;
}

}  // namespace braid::rt
