#include "runtime/comm/keyed_digest.h"

#include <gtest/gtest.h>

#include <string>

namespace braid::rt {
namespace {

std::string hex(const Digest& digest) {
  std::string text;
  for (const unsigned char byte : digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

// FIPS 180-4's examples.
TEST(KeyedDigest, Sha256OfKnownTexts) {
  EXPECT_EQ(hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex(sha256(std::string(1'000'000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// RFC 4231: test cases 2, 6.
TEST(KeyedDigest, OfKnownKeysAndTexts) {
  EXPECT_EQ(hex(keyed_digest("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(
      hex(keyed_digest(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First")),
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(KeyedDigest, DigestsThatDifferInAnyByteAreNotEqual) {
  const Digest digest = sha256("x");
  EXPECT_TRUE(equal(digest, digest));
  for (size_t k = 0; k < digest.size(); ++k) {
    Digest other = digest;
    other[k] ^= 1;
    EXPECT_FALSE(equal(digest, other)) << k;
  }
}

}  // namespace
}  // namespace braid::rt
