// Text that is no file of sections is refused with its line, and wrong expectations are replaced by the
// actual outcome.
#include "tests/passes/section_file.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace braid::test {
namespace {

// Four lines, of which dead_code drops the second.
const std::string kProgram =
    "graph main ranks 2 group @g = [0, 1] input %x: f32[4]\n"
    "%dead: f32[4] = extern \"work\" reads(%x)\n"
    "%y: f32[4] = extern \"work\" reads(%x)\n"
    "output %y\n";

std::string refusal(const std::string& text) {
  try {
    read_sections("dir/some_pass.braid", text);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "read";
}

TEST(SectionFile, HasTheSuiteOfItsNameAndSectionsWithLines) {
  const SectionFile file =
      read_sections("dir/some_pass.braid",
                    "// About.\n\n=== shared s\ngraph main\n\n=== shared t on s\ninput %x: f32[4]\n=== One "
                    "on t\nmemory_cap: 5\n\n"
                    "output %x\n// Of the run.\n--- a,b{c=1}: unchanged\n--- a: order x y\n z\n");
  EXPECT_EQ(file.suite(), "SomePass");
  ASSERT_EQ(file.sections.size(), 1u);
  const Section& section = file.sections[0];
  EXPECT_EQ(section.line, 8);
  EXPECT_EQ(section.memory_cap, 5);
  EXPECT_EQ(section.program, "graph main\n\ninput %x: f32[4]\n\noutput %x\n");
  ASSERT_EQ(section.runs.size(), 2u);
  EXPECT_EQ(section.runs[0].passes, "a,b{c=1}");
  EXPECT_EQ(section.runs[1].line, 14);
  EXPECT_EQ(section.runs[1].expected.lines, std::vector<std::string>{"x y z"});
}

TEST(SectionFile, MistakesAreRefusedWithTheirLine) {
  const std::string good = "=== One\ngraph main\n--- a: unchanged\n";
  ASSERT_EQ(refusal(good), "read");
  const std::pair<std::string, std::string> cases[] = {
      {"graph main\n" + good, ":1: text in front of the first section"},
      {"--- a: unchanged\n", ":1: an expectation outside of a section"},
      {"=== One\ngraph main\n", ":1: a section without an expectation"},
      {"=== One\n--- a: unchanged\n", ":1: a section without a program"},
      {good + "=== Two words\ngraph main\n--- a: unchanged\n", ":4: 'Two words' is no name"},
      {good + "\n" + good, ":5: 'One' stands twice, first in line 1"},
      {"=== One\nmachin: cpu\ngraph main\n--- a: unchanged\n",
       ":2: unknown key 'machin': expected machine or memory_cap"},
      {"=== One\nmemory_cap: 64 KiB\ngraph main\n--- a: unchanged\n",
       ":2: memory_cap '64 KiB': expected a number of bytes"},
      {"=== One on s\n--- a: unchanged\n", ":1: no 'shared s' stands above"},
      {"=== shared s\ngraph main\n=== shared s\ngraph main\n", ":3: 'shared s' stands twice"},
      {"=== shared s\n" + good, ":1: 'shared s' has no text"},
      {"=== shared s!\ngraph main\n", ":1: 's!' is no name"},
      {"=== shared s\ngraph main\n" + good, ":1: nothing stands on 's'"},
      {"=== One\ngraph main\n--- a\n", ":3: expected '--- PASSES: EXPECTATION'"},
      {"=== One\ngraph main\n--- a: same\n", ":3: 'same': expected text, unchanged, order or error BRnnnn"},
      {"=== One\ngraph main\n--- a: error BR5x\n",
       ":3: 'error BR5x': expected text, unchanged, order or error BRnnnn"},
      {"=== One\ngraph main\n--- a: text\n\n", ":3: nothing stands behind 'text'"},
      {"=== One\ngraph main\n--- a: order\n\n", ":3: nothing stands behind 'order'"},
      {"=== One\ngraph main\n--- a: unchanged\ngraph main\n", ":3: text behind 'unchanged'"},
  };
  for (const auto& [text, message] : cases) EXPECT_EQ(refusal(text), "dir/some_pass.braid" + message) << text;
}

// Each is wrong and becomes what follows it.
TEST(SectionFile, RewritingCorrectsWhatIsExpectedInVainAndNothingElse) {
  const std::string head =
      "// Kept.\n=== shared program\n" + kProgram + "\n// Kept too.\n=== One on program\n\n";
  const std::string text = "%y: f32[4] = extern \"work\" reads(%x)\n\noutput %y\n";
  const std::string option = "--- dead_code{all=true}: error BR0541\nerror BR0541: pass 'dead_code' has no ";
  const std::pair<std::string, std::string> cases[] = {
      {"--- dead_code: unchanged\n\n// Of the next.\n",
       "--- dead_code: text\n" + text + "\n// Of the next.\n"},
      {"--- dead_code: text\n\ngraph main\n\n", "--- dead_code: text\n" + text + "\n"},
      {"--- sink_waits: text\ngraph main\n", "--- sink_waits: unchanged\n"},
      {"--- dead_code: order dead\n y\n", "--- dead_code: order y\n"},
      {"--- dead_code: error BR0542\nunknown\n\n// End.\n", "--- dead_code: text\n" + text + "\n// End.\n"},
      {"--- dead_code{all=true}: unchanged\n", option},
      {"--- dead_code{all=true}: error BR0541\nno such text\n", option},
      {"--- dead_code{all=true}: error BR0542\n", option},
  };
  for (const auto& [wrong, right] : cases) {
    // The expectations beside it already hold.
    const std::string before = head + "--- sink_waits: unchanged\n",
                      behind = "--- sink_waits: order dead\n\n  y\n";
    const std::string once = rewritten(read_sections("f.braid", before + wrong + behind));
    EXPECT_EQ(once.substr(0, before.size() + right.size()), before + right);
    EXPECT_TRUE(once.ends_with(behind)) << once;
    EXPECT_EQ(rewritten(read_sections("f.braid", once)), once);
  }
}

TEST(SectionFile, DeclarationsThatAPassChangesAreWritten) {
  const std::string input =
      "=== One\ngraph main\n\ninput %x: f32[4]\nconstant %c: f32[4] = splat(1)\n\n"
      "%d: f32[4] = extern \"work\" reads(%c)\n%y: f32[4] = extern \"work\" reads(%x)\n\noutput %y\n";
  EXPECT_EQ(rewritten(read_sections("f.braid", input + "--- dead_code: unchanged\n")),
            input +
                "--- dead_code: text\ngraph main\n\ninput %x: f32[4]\n\n"
                "%y: f32[4] = extern \"work\" reads(%x)\n\noutput %y\n");
}

TEST(SectionFile, ATextWithoutOutputsEndsInItsLastNode) {
  const std::string trace = "extern \"trace\" reads(%x) as trace\n";
  const std::string input =
      "=== One\ngraph main\ninput %x: f32[4]\n%d: f32[4] = extern \"work\" reads(%x)\n" + trace;
  const std::string right = input + "--- dead_code: text\n" + trace;
  EXPECT_EQ(rewritten(read_sections("f.braid", input + "--- dead_code: unchanged\n")), right);
  EXPECT_EQ(rewritten(read_sections("f.braid", right)), right);
}

TEST(SectionFile, ADifferenceIsShownByLines) {
  EXPECT_EQ(line_diff({"a", "b", "c", "d"}, {"a", "x", "c", "d", "e"}), "  a\n- b\n+ x\n  c\n  d\n+ e\n");
}

}  // namespace
}  // namespace braid::test
