// Messages of libraries' exceptions, without the place in their source.
#include "frontend/foreign_text.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace braid::frontend {
namespace {

std::string text_of(const std::string& what) { return foreign_text(std::runtime_error(what)); }

TEST(ForeignText, HasNoPlaceInTheLibrary) {
  EXPECT_EQ(text_of("/there/onnx/common/ir.h:12: convert: Assertion `n` failed: no name"), "no name");
  EXPECT_EQ(text_of("onnx/a.cc:7: f(int, std::string): Assertion `false` failed"),
            "an assertion of a library failed: false");
  EXPECT_EQ(text_of("[/b/checker.cc:12]: Field 'shape' is missing."), "Field 'shape' is missing.");
  EXPECT_EQ(text_of("bad dim in /x/y.cpp:99 of z"), "bad dim in of z");
}

TEST(ForeignText, IsOtherwiseAsItWas) {
  for (const char* text :
       {"", "plain", "names like a.h: b and c.cc:d", "Assertion `without an end", "1.c:", "x.h:"})
    EXPECT_EQ(text_of(text), text);
}

TEST(ForeignText, MayBeLong) {
  const std::string name(4 << 20, 'a');
  EXPECT_EQ(text_of(name + ".h:1: " + name), name);
}

}  // namespace
}  // namespace braid::frontend
