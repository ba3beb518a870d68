// Types below one byte and 8-bit floats: moved, reinterpreted as bytes, and computed with nowhere.
#include <gmock/gmock.h>

#include "ir/error.h"
#include "ir/interpreter.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"

namespace braid::ir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string refused(const std::string& body, const std::string& out = "f8e5m2") {
  const std::string text = "graph g input %x: f8e5m2[4] input %f: f32[4]\n%y: " + out + "[4] = pointwise { " +
                           body + " }\noutput %y";
  try {
    const Schedule schedule = parse_schedule(text);
    const std::vector<Violation> found = verify(schedule);
    return found.empty() ? "accepted" : found[0].message;
  } catch (const UserError& error) {
    return error.message();
  }
}

TEST(StorageTypes, AreMovedAndReinterpreted) {
  const std::string text = R"(graph g
input %x: i4[4]
input %which: bool[4]
%y: i4[4] = pointwise {
  %0 = load %x
  %1 = bitcast i8 %0
  %2 = neg %1
  %3 = bitcast i4 %2
  %4 = load %which
  %5 = where %4, %3, %0
  store %5
}
output %y
)";
  Schedule schedule;
  try {
    schedule = parse_schedule(text);
  } catch (const UserError& error) {
    FAIL() << error.what();
  }
  EXPECT_TRUE(verify(schedule).empty());
  EXPECT_EQ(print(parse_schedule(print(schedule))), print(schedule));
  const std::vector<std::vector<Tensor>> inputs = {
      {make_tensor(DType::i4, {4}, std::vector<std::int8_t>{1, 2, -3, 4}),
       make_tensor(DType::boolean, {4}, std::vector<std::uint8_t>{1, 0, 1, 0})}};
  EXPECT_THAT(run(schedule, inputs).outputs[0][0].values<std::int8_t>(), ElementsAre(-1, 2, 3, 4));
}

TEST(StorageTypes, AreNotComputedWith) {
  const std::string reason = "only moved and reinterpreted";
  EXPECT_THAT(refused("%0 = load %f %1 = cast f8e5m2 %0 store %1"), HasSubstr(reason));
  EXPECT_THAT(refused("%0 = load %x %1 = cast f32 %0 store %1", "f32"), HasSubstr(reason));
  EXPECT_THAT(refused("%0 = load %x %1 = max %0, %0 store %1"), HasSubstr(reason));
  EXPECT_THAT(refused("%0 = load %x %1 = eq %0, %0 store %1", "bool"), HasSubstr(reason));
  EXPECT_THAT(refused("%0 = load %x %1 = add %0, %0 store %1"), HasSubstr("a numeric type"));
}

TEST(StorageTypes, HaveOneRowEach) {
  for (int k = 0; k < kDTypeCount; ++k) {
    const auto type = static_cast<DType>(k);
    EXPECT_EQ(dtype_from_string(to_string(type)), type);
    EXPECT_LE(bits_of(type), size_of(type) * 8);
    EXPECT_EQ(is_storage(type), byte_type(type) != type);
    EXPECT_EQ(
        static_cast<int>(is_float(type)) + is_integer(type) + is_storage(type) + (type == DType::boolean), 1);
  }
}

}  // namespace
}  // namespace braid::ir
