// The readable parts of a generated program: names of kernels, and long statements on several lines.
#include "codegen/kernel_name.h"

#include <gtest/gtest.h>

#include <sstream>

#include "codegen/cpp/cpp_text.h"
#include "ir/parser.h"

namespace braid::test {
namespace {

// Returns the name of all the program's loops as one kernel.
std::string name_of(const std::string& loops) {
  const ir::Schedule s = ir::parse_schedule(
      "graph main input %x: f32[4, 8] input %r: f32[4, 8] input %i: i64[4] " + loops + " output %y", "test");
  std::vector<ir::OpId> ops;
  for (std::size_t k = 0; k < s.graph.ops.size(); ++k) ops.push_back({static_cast<std::int32_t>(k)});
  return codegen::kernel_name(s.graph, ops);
}

TEST(KernelName, SaysWhatIsComputed) {
  EXPECT_EQ(name_of("%y: f32[8, 4] = pointwise { %0 = load %x[8*i1 + i0] store %0 }"), "copy");
  EXPECT_EQ(name_of("%y: f32[4, 8] = pointwise { %0 = load %x %1 = load %r %2 = add %0, %1 %3 = tanh %2 "
                    "%4 = add %3, %2 store %4 }"),
            "add_tanh");
  EXPECT_EQ(name_of("%y: f32[4] = reduction max over [8] { %0 = load %x %1 = abs %0 store %1 }"), "abs_max");
  // The index is normalised before it is used.
  EXPECT_EQ(name_of("%y: f32[4, 8] = pointwise { %0 = load %i[i0] %1 = constant i64 0 %2 = lt %0, %1 "
                    "%3 = constant i64 4 %4 = add %0, %3 %5 = where %2, %4, %0 %6 = check_index %5, 4 "
                    "%7 = load %x[8*%6 + i1] %8 = neg %7 store %8 }"),
            "gather_neg");
}

TEST(KernelName, KnowsSoftmaxAndNormalisations) {
  EXPECT_EQ(name_of("%a: f32[4, 8] = pointwise { %0 = load %x %1 = load %r %2 = add %0, %1 store %2 } "
                    "%m: f32[4] = reduction max over [8] { %0 = load %a store %0 } "
                    "%s: f32[4] = reduction sum over [8] { %0 = load %a %1 = load %m[i0] %2 = sub %0, %1 "
                    "%3 = exp %2 store %3 } "
                    "%y: f32[4, 8] = pointwise { %0 = load %a %1 = load %m[i0] %2 = sub %0, %1 %3 = exp %2 "
                    "%4 = load %s[i0] %5 = div %3, %4 store %5 }"),
            "add_softmax");
  EXPECT_EQ(name_of("%m: f32[4] = reduction sum over [8] { %0 = load %x store %0 } "
                    "%v: f32[4] = reduction sum over [8] { %0 = load %x %1 = load %m[i0] %2 = sub %0, %1 "
                    "%3 = mul %2, %2 store %3 } "
                    "%y: f32[4, 8] = pointwise { %0 = load %x %1 = load %v[i0] %2 = rsqrt %1 %3 = mul %0, %2 "
                    "store %3 }"),
            "layer_norm");
  EXPECT_EQ(name_of("%v: f32[4] = reduction sum over [8] { %0 = load %x %1 = mul %0, %0 store %1 } "
                    "%y: f32[4, 8] = pointwise { %0 = load %x %1 = load %v[i0] %2 = sqrt %1 %3 = div %0, %2 "
                    "store %3 }"),
            "rms_norm");
}

TEST(Writer, BreaksLongStatementsBetweenArguments) {
  codegen::cpp::Writer w;
  const std::string statement =
      "  k3_add(at<float>(arena_, slot_of_the_first_operand), at<const float>(weights_, "
      "slot_of_the_second_operand), \"a, quoted, comma\", 7);";
  w.open("{");
  w.wrapped(statement);
  w.wrapped("// " + std::string(200, 'x') + ", a comment stays on its line");
  w.wrapped("short(1, 2);");
  w.wrapped("first(1, 2);  // " + std::string(50, 'y') + ", " + std::string(50, 'z'));
  w.wrapped("");
  EXPECT_EQ(w.text(),
            "{\n    k3_add(at<float>(arena_, slot_of_the_first_operand),\n"
            "        at<const float>(weights_, slot_of_the_second_operand), \"a, quoted, comma\", 7);\n"
            "  // " +
                std::string(200, 'x') + ", a comment stays on its line\n  short(1, 2);\n  first(1, 2);  // " +
                std::string(50, 'y') + ", " + std::string(50, 'z') + "\n\n");
}

}  // namespace
}  // namespace braid::test
