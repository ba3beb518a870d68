// docs/ir.md is the specification: its examples are canonical texts of legal schedules.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "ir/loop_body.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "tests/paths.h"
#include "tests/support/dump_schedule.h"

namespace braid::ir {
namespace {

std::string document() {
  std::ifstream file(paths::source("docs/ir.md"));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(IrDocument, ExamplesAreCanonicalAndLegal) {
  const std::string text = document();
  int examples = 0;
  for (std::size_t at = 0; (at = text.find("```braid\n", at)) != std::string::npos; ++examples) {
    at += 9;
    const std::string example = text.substr(at, text.find("```", at) - at);
    SCOPED_TRACE(example);
    const Schedule s = parse_schedule(example, "docs/ir.md");
    EXPECT_EQ(print(s), example);
    EXPECT_EQ(test::dump(parse_schedule(print(s))), test::dump(s));
    for (const Violation& v : verify(s)) ADD_FAILURE() << v.rule << ": '" << v.node << "': " << v.message;
  }
  EXPECT_GE(examples, 9);
}

TEST(IrDocument, NamesEveryInstruction) {
  const std::string text = document();
  for (int c = 0; c < kOpCodeCount; ++c) {
    const std::string name(to_string(static_cast<OpCode>(c)));
    EXPECT_NE(text.find(name), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace braid::ir
