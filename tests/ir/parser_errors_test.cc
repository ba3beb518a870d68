#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "ir/error.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "tests/support/random.h"

namespace braid::ir {
namespace {

// The text has one error, of that number, at the place marked with ~.
void expect_error(int code, std::string text, const std::string& part_of_message) {
  SCOPED_TRACE(text);
  const std::size_t mark = text.find('~');
  ASSERT_NE(mark, std::string::npos);
  text.erase(mark, 1);
  const int line =
      1 + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(mark), '\n'));
  const std::size_t newline = mark == 0 ? std::string::npos : text.rfind('\n', mark - 1);
  const int column = static_cast<int>(newline == std::string::npos ? mark : mark - newline - 1) + 1;
  try {
    parse_schedule(text, "f.braid");
    FAIL() << "no error";
  } catch (const UserError& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    EXPECT_EQ(e.location().line, line) << e.what();
    EXPECT_EQ(e.location().column, column) << e.what();
    EXPECT_EQ(e.location().file, "f.braid");
    EXPECT_NE(e.message().find(part_of_message), std::string::npos) << e.what();
  }
}

void expect_error_after_head(int code, const std::string& text, const std::string& part) {
  expect_error(code, R"(graph g
dim n in [0, 8]
ranks 2
group @all = [0, 1]
input %x: f32[n, 4]
input %k: i64[4]
input %flag: bool[]
)" + text,
               part);
}

TEST(ParseErrors, BR0501SyntaxNamesWhatWasExpected) {
  expect_error(501, "~grph g", "expected 'graph'");
  expect_error(501, "graph g\ndim n ~[0, 8]", "expected 'in'");
  expect_error(501, "graph g\n~!", "unexpected character '!'");
  expect_error(501, "graph g\n~\x01", "unexpected byte 0x01");
  expect_error(501, "graph g\n~nonsense", "neither a statement nor an operation");
  expect_error(501, "graph g\ninput %x: ~f31[4]", "'f31' is not a type");
  expect_error_after_head(501, "%y: f32[4] = pointwise~", "expected '{', got the end of the text");
  expect_error_after_head(501, "~extern barrier", "requires a name");
  expect_error_after_head(501, "%y: f32[n, 4] = pointwise { %0 = ~frobnicate %1", "not an instruction");
  expect_error_after_head(
      501, "%y: f32[n, n] = gemm %x, transpose(%x) epilogue { %0 = acc f32 return %0 } as %0 = ~clip",
      "not a step of an epilogue");
}

TEST(ParseErrors, BR0502Literals) {
  expect_error(502, "graph g\ndim n in [~99999999999999999999, 8]", "not a 64-bit integer");
  expect_error(502, "graph \"x~\ny\"", "does not end on this line");
  expect_error(502, "graph \"x\\~q\"", "unknown escape");
  expect_error(502, "graph g\nranks 12~ab", "follows the number");
  expect_error(502, "graph g\nranks ~3000000000", "out of range");
  expect_error(502, "graph g\nconstant %c: f32[1] = [~1e999]", "not a number in range");
  expect_error(502, "graph g\nconstant %c: f32[1] = elided(~12)", "hexadecimal");
}

TEST(ParseErrors, BR0503UnknownNames) {
  expect_error_after_head(503, "%y: f32[n, 4] = extern reads(~%z)", "unknown buffer '%z'");
  expect_error_after_head(503, "%y: f32[n, 4] = all_gather ~@tp (%x)", "unknown group '@tp'");
  expect_error_after_head(503, "%y: f32[~m, 4] = extern", "unknown dimension 'm'");
  expect_error_after_head(503, "wait ~y", "unknown operation 'y'");
  expect_error_after_head(503, "%y: f32[n, 4] on ~$s = extern", "unknown storage '$s'");
  expect_error_after_head(503, "%y: f32[n, 4] alias ~$s = extern", "unknown storage '$s'");
  expect_error_after_head(503, "%y: f32[n, 4] = pointwise { %0 = neg ~%1", "value %1 is not defined");
  expect_error_after_head(503, "%y: f32[n, 4] = pointwise { %0 = load %x[~%1]", "value %1 is not defined");
}

TEST(ParseErrors, BR0504DuplicateNames) {
  expect_error_after_head(504, "dim ~n in [0, 1]", "dimension 'n'");
  expect_error_after_head(504, "group ~@all = [0]", "group '@all'");
  expect_error_after_head(504, "buffer ~%x: f32[4] no_memory", "buffer '%x'");
  expect_error_after_head(504, "storage ~$x: activation [4]", "storage '$x'");
  expect_error_after_head(504, "extern as a ~extern as a", "operation 'a'");
  expect_error_after_head(504, "%y: f32[n, 4] = pointwise { %0 = load %x ~%0 = load %x", "value %0");
}

TEST(ParseErrors, BR0505Types) {
  expect_error(505, "graph g\ninput %x: f16[2, 2]\n~%y: f16[2, 2] = gemm tf32 %x, %x\noutput %y",
               "a gemm in tf32 must have operands of f32, got f16 and f16");
  expect_error(
      505, "graph g\ninput %x: f32[2, 2]\ninput %b: i8[2, 2]\n~%y: f32[2, 2] = gemm tf32 %x, %b\noutput %y",
      "got f32 and i8");
  expect_error(505,
               "graph g\ninput %x: f16[1, 3, 2]\ninput %w: f16[1, 1, 2, 2]\n"
               "~%y: f16[1, 3, 2] = convolution tf32 %x, %w\noutput %y",
               "a convolution in tf32 must have operands of f32");
  expect_error_after_head(505, "%y: f32[4] = pointwise { %0 = load %x[i0] %1 = load %k %2 = ~add %0, %1",
                          "add of f32 and i64");
  expect_error_after_head(505, "%y: i64[4] = pointwise { %0 = load %k %1 = ~exp %0",
                          "exp requires a floating-point type");
  expect_error_after_head(505, "~%y: f32[4] = pointwise { %0 = load %k store %0 }",
                          "the result has type i64");
  expect_error_after_head(505, "%y: i64[4] = pointwise { %0 = ~constant i8 300", "does not fit i8");
  expect_error_after_head(505, "buffer ~%v: i64[2] in %x", "type of its base");
  expect_error_after_head(505, "~%y: f32[4] = branch (%k) { yield %x } else { yield %x }", "bool scalar");
  expect_error_after_head(505, "~%y mutates %k = while (%k) { yield %k }", "bool scalar");
}

TEST(ParseErrors, BR0506Counts) {
  expect_error_after_head(506, "%y: f32[4] = pointwise { %0 = load %x[i0] %1 = ~add %0",
                          "add takes 2 operands");
  expect_error_after_head(506, "%y: f32[4] = pointwise { %0 = load %x[i0] %1 = ~neg %0, %0",
                          "neg takes 1 operands");
  expect_error_after_head(506, "%y: f32[4], %z: f32[4] = pointwise ~{", "one result, got 2");
  expect_error_after_head(506, "%y: f32[4] = call () { ~}", "yields 0 values for 1 results");
  expect_error_after_head(506, "%y: f32[4] strides ~[4, 1] = extern", "got 2 strides for 1 sizes");
  expect_error_after_head(506, "%y: f32[4] = pointwise { %0 = load ~%x[i0, 0, 0]",
                          "got 3 indices for a tensor of rank 2");
}

TEST(ParseErrors, BR0507Expressions) {
  expect_error_after_head(507, "%y: f32[~floordiv(8, n)] = extern", "may be smaller than 1");
  expect_error_after_head(507, "%y: f32[~9223372036854775807*2] = extern", "64-bit");
  expect_error_after_head(507, "%y: f32~[4611686018427387904, 16] = extern", "64-bit");
  expect_error_after_head(507, "%y: f32~[-4] = extern", "negative");
  std::string product = "(n + i0 + i1 + i2 + 1)";
  for (int i = 0; i < 8; ++i) product += "*(n + i0 + i1 + i2 + 1)";
  expect_error_after_head(507, "%y: f32[4, 4, 4] = pointwise { %0 = load %x[~" + product + "]",
                          "grows too large");
}

TEST(ParseErrors, BR0508Indices) {
  expect_error_after_head(508, "%y: f32[4] = pointwise { %0 = load %x[~i1]",
                          "index i1 is out of range in a loop with 1 indices");
  expect_error_after_head(508, "%y: f32[4] = reduction sum over [8] { %0 = load %x[i1] store %0 at ~i1",
                          "index i1");
  expect_error_after_head(508, "%y: f32[4] = pointwise { %0 = load %x[i0] %1 = load %x[~%0]",
                          "cannot be an index");
  expect_error_after_head(508, "%y: f32[~i0] = extern", "index i0");
}

TEST(ParseErrors, BR0509Nesting) {
  std::string fused = "graph g\n", parens = "graph g\nguard ";
  for (int i = 0; i < 64; ++i) fused += "fused { ";
  for (int i = 0; i < 63; ++i) parens += "(";
  expect_error(509, fused + "~fused {", "nested too deeply");
  expect_error(509, parens + "(~(1", "nested too deeply");
}

TEST(ParseErrors, BR0510Constants) {
  expect_error(510, "graph g\nconstant %c: f32[2] = ~[1.0]", "got 1 values for 2 elements");
  expect_error(510, "graph g\nconstant %c: i8[1] = [~200]", "does not fit i8");
  expect_error(510, "graph g\nconstant %c: f32[1000000000000] = ~splat(0.0)", "splat of");
  expect_error(510, "graph g\ndim n in [1, 2] constant ~%c: f32[n] = [1.0]", "must be constant");
  expect_error(510, "graph g\nranks 2 constant ~%c: f32[1] = per_rank([1.0])",
               "the constant has 1 entries for 2 ranks");
  expect_error(510, "graph g\nconstant ~%c: f32[1] = file(\"\", 0)", "requires a name");
}

TEST(ParseErrors, BR0511Structure) {
  expect_error(511, "graph g\ngroup @a = [~1]", "rank 1 is out of range: there are 1 ranks");
  expect_error(511, "graph g ranks 4\ngroup ~@a = [[0, 1], [2]]", "different numbers of ranks");
  expect_error(511, "graph g ranks 4\ngroup ~@a = [[0, 1], [1, 2]]", "twice");
  expect_error(511, "graph g ranks 4\nmesh ~[a=2, b=3]", "multiply to the number of ranks, 4");
  expect_error(511, "graph g ranks 4\nmesh ~[a=2, a=2]", "two axes 'a'");
  expect_error(511, "graph g ranks 4\nmesh [a=2, b=2]\ngroup @a = axis b, ~b", "twice in the group");
  expect_error(503, "graph g ranks 4\nmesh [a=2, b=2]\ngroup @a = axis ~c", "the mesh has no axis 'c'");
  expect_error(503, "graph g ranks 4\ngroup @a = axis ~c", "the mesh has no axis 'c'");
  expect_error(511, "graph g\nranks 2 group @a = [1, ~1]", "twice in the group");
  expect_error(511, "graph g\ndim ~n in [4, 2]", "bounds [4, 2]");
  expect_error(511, "graph g\nranks ~0", "number of ranks");
  expect_error(511, "graph g ranks 4 mesh [a=2, b=2]\nranks ~2", "before the mesh and the groups");
  expect_error(511, "graph g ranks 4 group @a = [3]\nranks ~2", "before the mesh and the groups");
  expect_error_after_head(511, "%e: f32[4] = extern ~%f mutates %e = wait e",
                          "does not belong to a collective");
  expect_error_after_head(511, "~%y: f32[n, 4] = broadcast @all (%x) root 7", "rank 7 in a group of 2");
  expect_error_after_head(511, "storage $a: activation [4] alias ~$a", "alias each other in a cycle");
  expect_error_after_head(511, "%y: f32[4] = pointwise { %0 = ~acc f32", "acc is used outside an epilogue");
  for (const char* steps : {"%1 = tanh", "%1 = relu, %1 = relu", "%0 = relu", "%1 = scale 1.0",
                            "%1 = identity", "%1 = add_vector %0", "%1 = add_matrix %1"}) {
    const std::string text =
        "~%y: f32[n, n] = gemm %x, transpose(%x) epilogue { %0 = acc f32 %2 = constant f32 0 "
        "%1 = max %0, %2 return %1 } as ";
    expect_error_after_head(511, text + steps, "not those of the epilogue");
  }
}

TEST(ParseErrors, BR0512Shapes) {
  expect_error_after_head(512, "%y: f32[4] = pointwise { %0 = load ~%x", "sizes differ from those of '%x'");
  expect_error_after_head(512, "~%y: f32[n, 5] = gemm %x, %x", "b and out differ");
  expect_error_after_head(512, "%y: f32[n, 4] = gemm transpose(~%k), %x", "rank 2");
  expect_error_after_head(512, "~%y: f32[3*n + 1, 4] = all_gather @all (%x)", "over 2 ranks");
}

// Whatever the text: a schedule, or a user error with a place.
void parse_anything(const std::string& text) {
  try {
    const Schedule s = parse_schedule(text);
    const std::string printed = print(s);
    EXPECT_EQ(print(parse_schedule(printed)), printed);
  } catch (const UserError& e) {
    EXPECT_GE(e.code(), 501) << e.what();
    EXPECT_GT(e.location().line, 0) << e.what();
  }
}

constexpr const char* kSeedTexts[] = {
    R"(graph g dim n in [0, 8] dim m in [1, 64] guard n <= m from "x" ranks 2 group @all = [0, 1]
storage $pool: comm(symmetric, @all) [4*n + 64]
input %x: f32[n, 4] as "x:0" constant %w: f32[4, 4] = splat(0.5) constant %b: f32[4] = per_rank([1, 2, 3, nan], [1, 2, 3, -0.0])
%h: f32[n, 4] = gemm %x, transpose(%w) epilogue { %0 = acc f32 %1 = load %b[i1] %2 = add %0, %1 return %2 } as %2 = add_vector %1
fused f { %s: f32[n] = reduction sum over [4] from "a", "b" cost(ns 1.5) { %0 = load %h store %0 }
%t: f32[n, 4] comm(symmetric, @all) = pointwise { %0 = load %h %1 = load %s[min(i0, max(n - 1, 0))] %2 = div %0, %1 store %2 } }
%t.1 mutates %t = all_reduce sum @all (%t) as ar %t.2 mutates %t.1 = wait ar release ar
%y: f32[n, 4] output = repeat 2 (%t.2) { %z: f32[n, 4] = extern "f" reads(%t.2 at 0 [n, 4]) attributes(a = 1, b = 2.5) yield %z }
output %y as "y/0" plan arena 64 comm 0 live_peak 16 { $h: arena 0 bytes 16 steps 0..1 })"};

TEST(ParserRobustness, MutatedTextsEndInAScheduleOrAnError) {
  const char* kWords[] = {
      "%x",       "%0",         "i0",      "n",          "(",       ")",         "[",
      "]",        "{",          "}",       "-",          "*",       "floordiv(", "9223372036854775807",
      "0",        "min(",       "wait ar", "release ar", "mutates", "in",        "at",
      "strides",  "branch",     "call",    "fused",      "\"",      "//",        "f32",
      "i64[2]",   "transpose(", "load",    "cast bf16",  "nan",     "1e30",      "alias $h",
      "on $pool", "comm",       "=",       ",",          "..",      "<="};
  const std::uint64_t seed = test::first_seed();
  for (int i = 0; i < test::random_cases(3000); ++i) {
    std::mt19937_64 random(seed + static_cast<std::uint64_t>(i));
    SCOPED_TRACE(fmt::format("BRAID_TEST_SEED={}", seed + static_cast<std::uint64_t>(i)));
    std::string text = kSeedTexts[0];
    for (std::uint64_t edits = 1 + random() % 4; edits > 0; --edits) {
      const std::size_t at = random() % text.size(),
                        length = random() % std::min<std::size_t>(text.size() - at, 12);
      switch (random() % 4) {
        case 0:
          text.erase(at, length);
          break;
        case 1:
          text.insert(at, fmt::format(" {} ", kWords[random() % std::size(kWords)]));
          break;
        case 2:
          text[at] = static_cast<char>(random() % 256);
          break;
        default:
          text.insert(random() % text.size(), text.substr(at, length * 4));
      }
      if (text.empty()) break;
    }
    parse_anything(text);
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace braid::ir
