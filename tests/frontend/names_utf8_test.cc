#include "frontend/names_utf8.h"

#include <gmock/gmock.h>

#include <functional>

#include "frontend/import.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "tests/frontend/models.h"

namespace braid::frontend {
namespace {

TEST(Utf8, IsWhatRfc3629Says) {
  for (const std::string_view good :
       {"", "plain", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80", "\xef\xbf\xbf",
        "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf", "a\xc3\xa9z"})
    EXPECT_TRUE(is_utf8(good)) << good;
  for (const std::string_view bad :
       {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc2", "\xc2z", "\xe0\x9f\xbf", "\xe1\x80", "\xed\xa0\x80",
        "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "a\xe2\x82", "a\xe2\x82z"})
    EXPECT_FALSE(is_utf8(bad)) << bad.size();
  EXPECT_TRUE(is_utf8(std::string_view("a\0b", 3)));
}

// The number of the error that a model gives; 0: none.
int code_of(const onnx::ModelProto& model) {
  const TemporaryFolder folder;
  try {
    import_model(folder.write("model.onnx", model), {});
  } catch (const ir::UserError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("\\xff"));
    return error.code();
  }
  return 0;
}

TEST(Names, ThatAreNotUtf8AreRefusedWhereverTheyAre) {
  const onnx::ModelProto good = parse_model("g (float[4] x) => (float[4] y) { y = Neg(x) }");
  EXPECT_EQ(code_of(good), 0);
  const std::function<void(onnx::ModelProto&)> faults[] = {
      [](onnx::ModelProto& m) { m.mutable_graph()->set_name("\xff"); },
      [](onnx::ModelProto& m) { m.mutable_graph()->mutable_node(0)->set_name("n\xff"); },
      [](onnx::ModelProto& m) { m.mutable_graph()->mutable_node(0)->set_op_type("\xff"); },
      [](onnx::ModelProto& m) { m.mutable_graph()->mutable_node(0)->set_input(0, "\xff"); },
      [](onnx::ModelProto& m) {
        m.mutable_graph()
            ->mutable_input(0)
            ->mutable_type()
            ->mutable_tensor_type()
            ->mutable_shape()
            ->mutable_dim(0)
            ->set_dim_param("\xff");
      },
      [](onnx::ModelProto& m) { m.set_producer_name("\xff"); },
  };
  for (const auto& fault : faults) {
    onnx::ModelProto bad = good;
    fault(bad);
    EXPECT_EQ(code_of(bad), errors::kNotOnnx);
  }
  onnx::ModelProto commented = good;
  commented.set_doc_string("\xff");
  EXPECT_EQ(code_of(commented), 0);
}

}  // namespace
}  // namespace braid::frontend
