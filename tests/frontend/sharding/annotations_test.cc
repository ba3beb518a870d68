// ONNX's annotations for several devices: a set of cases for all that the specification says, leaves open or
// contradicts. Each gives the plain model's result with the states that it says, or a named error
// (docs/sharding.md).
#include "frontend/sharding/annotations.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <random>

#include "analysis/costs/cost_model.h"
#include "ir/error_numbers.h"
#include "ir/interpreter.h"
#include "ir/printer.h"
#include "split/candidates.h"
#include "tests/frontend/models.h"
#include "tests/frontend/sharding/annotated.h"
#include "tests/frontend/sharding/chosen.h"
#include "tests/frontend/sharding/proof.h"
#include "tests/fuzz/mutate.h"
#include "tests/support/random.h"

namespace braid::frontend::sharding {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// ---- annotations as text

// "axis:shards", or "axis:size/shards*size/shards" of a fused dimension.
std::string dim(const std::string& text) {
  const std::size_t colon = text.find(':');
  std::string result = fmt::format("sharded_dim {{ axis: {} ", text.substr(0, colon));
  std::string rest = text.substr(colon + 1);
  while (!rest.empty()) {
    const std::size_t star = rest.find('*');
    const std::string factor = rest.substr(0, star);
    const std::size_t slash = factor.find('/');
    const std::string size = slash == std::string::npos ? "" : "dim_value: " + factor.substr(0, slash);
    result += fmt::format("simple_sharding {{ {} num_shards: {} }} ", size,
                          slash == std::string::npos ? factor : factor.substr(slash + 1));
    rest = star == std::string::npos ? "" : rest.substr(star + 1);
  }
  return result + "} ";
}
// Returns the sharding of a tensor over devices, such as {"0", "1"}, or groups: {"-1={0,1}"}.
std::string on(const std::string& tensor, const std::vector<std::string>& devices,
               const std::vector<std::string>& dims = {}) {
  std::string text = fmt::format("sharding_spec {{ tensor_name: '{}' ", tensor), map;
  for (const std::string& device : devices) {
    const std::size_t equals = device.find('=');
    text += fmt::format("device: {} ", device.substr(0, equals));
    if (equals == std::string::npos) continue;
    const std::string members = device.substr(equals + 2, device.size() - equals - 3);
    map += fmt::format("index_to_device_group_map {{ key: {} value: [{}] }} ", device.substr(0, equals),
                       members);
  }
  text += map;
  for (const std::string& d : dims) text += dim(d);
  return text + "} ";
}
const std::vector<std::string> kTwo = {"0", "1"};
const std::vector<std::string> kAll = {"0", "1", "2", "3"};
const std::vector<std::string> kCopies = {"-1={0,1}"};
std::string split(const std::string& tensor, int axis) {
  return on(tensor, kTwo, {fmt::format("{}:2", axis)});
}
std::string whole(const std::string& tensor) { return on(tensor, kCopies); }

struct Case {
  const char* name;
  const char* graph;
  std::vector<std::pair<std::string, std::string>> nodes;  // first output, what is said of the node
  std::vector<std::string> expected;                       // in the plan; begins with '!': not in it
  int error = 0;                                           // or this number, and `expected` in the message
  const char* configurations = "configuration { name: 'c' num_devices: 2 }";
  const char* wanted = "";
  int ir_version = 11;
  int opset = 18;
};

constexpr const char* kFour = "configuration { name: 'c' num_devices: 4 }";

// ---- graphs; inputs that are not called x... are weights

constexpr const char* kAnnotatedMlp =
    "g (int64[4, 8] x, int64[8, 8] w, int64[8, 4] v) => (int64[4, 4] y) { h = MatMul(x, w) r = Relu(h) y = "
    "MatMul(r, v) }";
constexpr const char* kAdd =
    "g (int64[4, 8] x, int64[4, 8] x2) => (int64[4, 8] y) { n = Neg(x) m = Neg(x2) y = Add(n, m) }";
constexpr const char* kTwice = "g (int64[4, 8] x) => (int64[4, 8] y) { n = Neg(x) y = Add(n, n) }";
constexpr const char* kFan =
    "g (int64[4, 8, 6] x) => (int64[4, 8, 6] a, int64[4, 8, 6] b, int64[4, 8, 6] c, int64[4, 8, 6] d) { n = "
    "Neg(x) a = Relu(n) b = Abs(n) c = Neg(n) d = Sign(n) }";
constexpr const char* kReduce =
    "g (int64[4, 8] x) => (int64[4, 1] y, int64[4, 1] z) { k = Constant <value = int64[1] {1}> () n = Neg(x) "
    "s = "
    "ReduceSum(n, k) y = Neg(s) m = ReduceMax(n, k) z = Neg(m) }";

std::vector<Case> cases() {
  return {
      // ---- what is said is obeyed
      {"rows of a product",
       kAnnotatedMlp,
       {{"h", split("x", 0)}},
       {"\"x\" -> \"h\"[0] = S(0)", "\"h\" = S(0)"}},
      {"columns of a weight",
       kAnnotatedMlp,
       {{"h", whole("x") + split("w", 1)}},
       {"\"w\" -> \"h\"[1] = S(1)", "\"h\" = S(1)"}},
      {"an axis that is summed leaves a sum, reduced at once",
       kAnnotatedMlp,
       {{"h", split("x", 1) + split("w", 0)}},
       {"\"h\" = P(sum)", "\"h\" -> \"r\"[0] = R"}},
      {"the sum is left in parts",
       kAnnotatedMlp,
       {{"h", split("x", 1) + split("w", 0) + split("h", 1)}},
       {"\"h\" = P(sum)", "\"h\" -> \"r\"[0] = S(1)"}},
      {"the sum is left whole",
       kAnnotatedMlp,
       {{"h", split("x", 1) + split("w", 0) + whole("h")}},
       {"\"h\" = P(sum)", "\"h\" -> \"r\"[0] = R"}},
      {"as Megatron-LM does",
       kAnnotatedMlp,
       {{"h", split("w", 1) + split("h", 1)},
        {"r", split("h", 1) + split("r", 1)},
        {"y", split("r", 1) + split("v", 0)}},
       {"\"w\" -> \"h\"[1] = S(1)", "\"h\" = S(1)", "\"r\" = S(1)", "\"y\" = P(sum)"}},
      {"a negative axis counts from the end",
       kAnnotatedMlp,
       {{"h", on("w", kTwo, {"-1:2"})}},
       {"\"w\" -> \"h\"[1] = S(1)"}},
      {"an input in another state than its producer leaves it",
       kAnnotatedMlp,
       {{"h", split("x", 0)}, {"r", split("h", 1)}},
       {"\"h\" = S(0)", "\"h\" -> \"r\"[0] = S(1)"}},
      {"one annotation for both inputs", kTwice, {{"y", split("n", 0)}}, {"\"y\" = S(0)"}},
      {"readers in different states",
       kFan,
       {{"a", split("n", 0)}, {"b", split("n", 1)}, {"n", whole("n")}},
       {"\"n\" -> \"a\"[0] = S(0)", "\"n\" -> \"b\"[0] = S(1)"}},
      {"more converted states of a tensor than the search would make",
       kFan,
       {{"n", whole("n")}, {"a", split("n", 0)}, {"b", split("n", 1)}, {"c", split("n", 2)}},
       {"\"n\" -> \"a\"[0] = S(0)", "\"n\" -> \"b\"[0] = S(1)", "\"n\" -> \"c\"[0] = S(2)"}},
      {"an output that its node cannot compute so is converted for its readers",
       kAnnotatedMlp,
       {{"h", whole("w") + split("h", 0)}},
       {"\"h\" -> \"r\"[0] = S(0)", "!\"h\" = S"}},
      {"what the program returns is whole",
       kAnnotatedMlp,
       {{"y", whole("r") + split("v", 1) + split("y", 1)}},
       {"\"v\" -> \"y\"[1] = S(1)", "\"y\" = S(1)"}},
      {"a bias along the columns",
       "g (int64[4, 8] x, int64[8, 8] w, int64[8] b) => (int64[4, 8] y) { h = MatMul(x, w) y "
       "= Add(h, b) }",
       {{"h", split("w", 1)}, {"y", split("h", 1) + split("b", 0)}},
       {"\"b\" -> \"y\"[1] = S(0)", "\"y\" = S(1)"}},
      {"four devices",
       kAnnotatedMlp,
       {{"h", on("x", {"0", "1", "2", "3"}, {"0:4"})}},
       {"ranks 4", "\"h\" = S(0)"},
       0,
       "configuration { name: 'c' num_devices: 4 }"},
      {"the maximum over a split axis",
       kReduce,
       {{"m", split("n", 1)}},
       {"\"m\" = P(max)", "\"m\" -> \"z\"[0] = R"}},
      {"the sum over a split axis",
       kReduce,
       {{"s", split("n", 1)}},
       {"\"s\" = P(sum)", "\"s\" -> \"y\"[0] = R"}},
      {"an axis that stays", kReduce, {{"s", split("n", 0)}}, {"\"s\" = S(0)"}},

      // ---- several axes
      {"copies of shards",
       kAnnotatedMlp,
       {{"h", on("x", {"-1={0,1}", "-2={2,3}"}, {"0:2"})}},
       {"mesh [dp=2, tp=2]", "\"x\" -> \"h\"[0] = S(0) on dp"},
       0,
       kFour},
      {"copies on devices that are no neighbours",
       kAnnotatedMlp,
       {{"h", on("x", {"-1={0,2}", "-2={1,3}"}, {"0:2"})}},
       {"mesh [dp=2, tp=2]", "\"x\" -> \"h\"[0] = S(0) on tp"},
       0,
       kFour},
      {"two axes",
       kAnnotatedMlp,
       {{"h", on("x", kAll, {"0:2", "1:2"})}},
       {"\"x\" -> \"h\"[0] = S(0) on dp, S(1) on tp", "\"h\" = S(0) on dp, P(sum) on tp"},
       0,
       kFour},
      {"the axis that is listed first is the outermost",
       kAnnotatedMlp,
       {{"h", on("x", kAll, {"1:2", "0:2"})}},
       {"\"x\" -> \"h\"[0] = S(1) on dp, S(0) on tp", "\"h\" = P(sum) on dp, S(0) on tp"},
       0,
       kFour},
      {"two axes on devices in another order",
       kAnnotatedMlp,
       {{"h", on("x", {"0", "2", "1", "3"}, {"0:2", "1:2"})}},
       {"\"x\" -> \"h\"[0] = S(1) on dp, S(0) on tp"},
       0,
       kFour},
      {"one axis over all devices beside halves with copies",
       kAnnotatedMlp,
       {{"h", on("x", kAll, {"0:4"})}, {"y", on("v", {"-1={0,1}", "-2={2,3}"}, {"0:2"})}},
       {"\"x\" -> \"h\"[0] = S(0) on dp, S(0) on tp", "\"v\" -> \"y\"[1] = S(0) on dp"},
       0,
       kFour},
      {"two factors",
       kAnnotatedMlp,
       {{"h", on("w", kAll, {"1:2/2*4/2"})}},
       {"\"w\" -> \"h\"[1] = S(1) on dp, S(1) on tp"},
       0,
       kFour},
      {"two factors, the second one on the first axis",
       kAnnotatedMlp,
       {{"h", on("w", {"0", "2", "1", "3"}, {"1:2/2*4/2"})}},
       {"'w'", "two factors along axis 1 are cut among the axes of the mesh [dp=2, tp=2]"},
       errors::kAnnotationForm,
       kFour},
      {"rows on one axis, a sum over the other, reduced at once",
       kAnnotatedMlp,
       {{"h", on("x", kAll, {"0:2", "1:2"}) + on("w", {"-1={0,2}", "-2={1,3}"}, {"0:2"})}},
       {"\"h\" = S(0) on dp, P(sum) on tp", "\"h\" -> \"r\"[0] = S(0) on dp\n"},
       0,
       kFour},
      {"a sum over one axis, left in parts along another dimension",
       kAnnotatedMlp,
       {{"h", on("x", kAll, {"0:2", "1:2"}) + on("h", kAll, {"0:2", "1:2"})}},
       {"\"h\" = S(0) on dp, P(sum) on tp", "\"h\" -> \"r\"[0] = S(0) on dp, S(1) on tp"},
       0,
       kFour},
      {"a missing input as its producer leaves it on both axes",
       kAdd,
       {{"n", on("n", kAll, {"0:2", "1:2"})}, {"y", on("m", kAll, {"0:2", "1:2"})}},
       {"\"n\" -> \"y\"[0] = S(0) on dp, S(1) on tp", "\"y\" = S(0) on dp, S(1) on tp"},
       0,
       kFour},
      {"an axis of two and one of three",
       kFan,
       {{"a", on("n", {"0", "1", "2", "3", "4", "5"}, {"0:2", "2:3"})}},
       {"mesh [dp=2, tp=3]", "\"n\" = S(0) on dp, S(2) on tp"},
       0,
       "configuration { name: 'c' num_devices: 6 }"},
      {"three axes, one of them for copies",
       kAnnotatedMlp,
       {{"h", on("x", {"-1={0,1}", "-2={2,3}", "-3={4,5}", "-4={6,7}"}, {"0:2", "1:2"})}},
       {"mesh [dp=2, ep=2, tp=2]", "\"x\" -> \"h\"[0] = S(0) on dp, S(1) on ep"},
       0,
       "configuration { name: 'c' num_devices: 8 }"},
      {"names of devices say the mesh",
       kAnnotatedMlp,
       {{"h", on("x", kAll, {"0:4"})}},
       {"mesh [a=2, b=2]", "\"x\" -> \"h\"[0] = S(0) on a, S(0) on b"},
       0,
       "configuration { name: 'c' num_devices: 4 device: ['a=0,b=0', 'a=0,b=1', 'a=1,b=0', 'a=1,b=1'] }"},
      {"blocks on two axes",
       kAnnotatedMlp,
       {{"h", on("w", kAll, {"1:2/1*4/4"})}},
       {"\"w\" -> \"h\"[1] = S(1:4+4) on a, S(1:2+2) on b", "\"h\" = S(1:4+4) on a, S(1:2+2) on b"},
       0,
       "configuration { name: 'c' num_devices: 4 device: ['a=0,b=0', 'a=0,b=1', 'a=1,b=0', 'a=1,b=1'] }"},
      {"names of devices that are no coordinates count for nothing",
       kAnnotatedMlp,
       {{"h", on("x", kAll, {"0:4"})}},
       {"ranks 4"},
       0,
       "configuration { name: 'c' num_devices: 4 device: ['a=0,b=0', 'a=0,b=1', 'a=1,b=1', 'a=1,b=0'] }"},
      {"a mesh by names on which an annotation is no grid",
       kAnnotatedMlp,
       {{"h", on("x", {"-1={0,1}", "-2={2,3}"}, {"0:2"})}},
       {"'x'", "shards along axis 0 lie on devices {0, 1}, {2, 3}, which is no grid of 4 devices"},
       errors::kAnnotationForm,
       "configuration { name: 'c' num_devices: 4 device: ['a=0', 'a=1', 'a=2', 'a=3'] }"},
      {"two grids without a common mesh",
       kFan,
       {{"a", on("n", {"-1={0,1,2}", "-2={3,4,5}"}, {"0:2"})},
        {"b", on("n", {"-1={0,1}", "-2={2,3}", "-3={4,5}"}, {"2:3"})}},
       {"'n'",
        "along axis 2 lie on devices {0, 1}, {2, 3}, {4, 5}, which is no grid of the mesh [dp=2, tp=3]"},
       errors::kAnnotationForm,
       "configuration { name: 'c' num_devices: 6 }"},
      {"devices of two axes in no order of a mesh",
       kAnnotatedMlp,
       {{"h", on("x", {"0", "1", "3", "2"}, {"0:2", "1:2"})}},
       {"along axes 0 and 1 lie on devices 0, 1, 3, 2"},
       errors::kAnnotationForm,
       kFour},
      {"two axes on some of the devices",
       kAnnotatedMlp,
       {{"h", on("x", kAll, {"0:2", "1:2"})}},
       {"devices 4, 5, 6, 7 hold nothing"},
       errors::kAnnotationForm,
       "configuration { name: 'c' num_devices: 8 }"},
      {"operands along different dimensions on the same axis of the mesh",
       kAdd,
       {{"y", on("n", {"-1={0,1}", "-2={2,3}"}, {"0:2"}) + on("m", {"-1={0,1}", "-2={2,3}"}, {"1:2"})}},
       {"'n' split along axis 0 over devices {0, 1}, {2, 3} and 'm' split along axis 1 over devices {0, 1}, "
        "{2, 3}",
        "it can:"},
       errors::kAnnotation,
       kFour},
      {"an axis along which the operator works, on one axis of the mesh",
       "g (int64[4, 8] x) => (int64[4, 8] y) { a = Constant <value = int64 {1}> () n = Neg(x) y = CumSum(n, "
       "a) }",
       {{"y", on("n", kAll, {"0:2", "1:2"})}},
       {"'n' split along axis 0 over devices {0, 1}, {2, 3} and split along axis 1 over devices {0, 2}, {1, "
        "3}",
        "CumSum"},
       errors::kAnnotation,
       kFour},
      {"copies that the product of two axes does not fit",
       kAnnotatedMlp,
       {{"h", on("x", {"-1={0,1}", "-2={2,3}"}, {"0:2", "1:2"})}},
       {"4 shards along axes 0 and 1 on 2 entries of device (devices 0, 1, 2, 3)"},
       errors::kAnnotation,
       kFour},
      {"two factors, the first one not completely",
       kAnnotatedMlp,
       {{"h", on("w", kAll, {"1:4/2*2/2"})}},
       {"'w'", "two factors along axis 1 are cut"},
       errors::kAnnotationForm,
       kFour},

      // ---- how copies and shards are written
      {"a group of all devices holds copies", kAnnotatedMlp, {{"r", on("h", kCopies)}}, {}},
      {"devices without a split axis hold copies",
       kAnnotatedMlp,
       {{"h", on("x", kTwo)}},
       {"!\"x\" -> \"h\""}},
      {"no device at all: those of the configuration",
       kAnnotatedMlp,
       {{"h", on("x", {}, {"0:2"})}},
       {"\"h\" = S(0)"}},
      {"nothing but the name: copies", kAnnotatedMlp, {{"h", on("x", {})}}, {"!\"x\" -> \"h\""}},
      {"one shard is no split", kAnnotatedMlp, {{"h", on("x", kTwo, {"0:1"})}}, {"!\"x\" -> \"h\""}},
      {"one shard beside a split axis",
       kAnnotatedMlp,
       {{"h", on("x", kTwo, {"1:1", "0:2"})}},
       {"\"x\" -> \"h\"[0] = S(0)"}},
      {"groups of one device are devices",
       kAnnotatedMlp,
       {{"h", on("x", {"-1={0}", "-2={1}"}, {"0:2"})}},
       {"\"h\" = S(0)"}},
      {"a device beside a group of one",
       kAnnotatedMlp,
       {{"h", on("x", {"0", "-7={1}"}, {"0:2"})}},
       {"\"h\" = S(0)"}},
      {"a group that is not used",
       kAnnotatedMlp,
       {{"h",
         "sharding_spec { tensor_name: 'x' device: [0, 1] index_to_device_group_map { key: -3 value: [0] } "
         "sharded_dim { axis: 0 simple_sharding { num_shards: 2 } } }"}},
       {"\"h\" = S(0)"}},
      {"the size of the axis is given", kAnnotatedMlp, {{"h", on("x", kTwo, {"0:4/2"})}}, {"\"h\" = S(0)"}},
      {"the first factor of a fused axis",
       kAnnotatedMlp,
       {{"h", on("w", kTwo, {"1:2/2*4/1"})}},
       {"\"w\" -> \"h\"[1] = S(1)"}},
      {"the last factor of a fused axis: blocks",
       kAnnotatedMlp,
       {{"h", on("w", kTwo, {"1:2/1*4/2"})}},
       {"\"w\" -> \"h\"[1] = S(1:4+4)", "\"h\" = S(1:4+4)"}},
      {"the middle factor of three",
       kAnnotatedMlp,
       {{"h", on("w", kTwo, {"1:2/1*2/2*2/1"})}},
       {"\"w\" -> \"h\"[1] = S(1:4+4)"}},
      {"a name of a dimension that has a size",
       kAnnotatedMlp,
       {{"h",
         "sharding_spec { tensor_name: 'x' sharded_dim { axis: 0 simple_sharding { dim_param: 'rows' "
         "num_shards: 2 } } }"}},
       {"\"h\" = S(0)"}},

      // ---- what is missing
      {"nothing is annotated", kAnnotatedMlp, {}, {"ranks 2"}},
      {"an input of the program is whole",
       kAnnotatedMlp,
       {{"h", split("h", 0)}},
       {"!\"x\" -> \"h\"", "\"h\" -> \"r\"[0] = S(0)"}},
      {"a missing input is as its producer leaves it",
       kAdd,
       {{"n", split("n", 1)}, {"y", split("m", 1)}},
       {"\"n\" -> \"y\"[0] = S(1)", "\"y\" = S(1)"}},
      {"a missing input is as its producer's rule gives it",
       kAdd,
       {{"n", split("x", 1)}, {"y", split("m", 1)}},
       {"\"n\" = S(1)", "\"y\" = S(1)"}},
      {"a missing input of a producer that says nothing is solved",
       kAdd,
       {{"y", split("m", 1)}},
       {"\"y\" = S(1)"}},
      {"a missing constant has the state that is needed",
       kAnnotatedMlp,
       {{"h", split("h", 1)}},
       {"\"w\" -> \"h\"[1] = S(1)", "\"h\" = S(1)"}},
      {"a reader that says nothing and cannot take it so takes it whole",
       "g (int64[4, 8] x, int64[8, 8] w) => (int64[4, 8] y) { h = MatMul(x, w) a = Constant <value = int64 "
       "{1}> () y = "
       "CumSum(h, a) }",
       {{"h", split("x", 1) + split("h", 1)}},
       {"\"h\" = P(sum)", "\"h\" -> \"y\"[0] = R"}},
      {"one device",
       kAnnotatedMlp,
       {{"h", on("x", {"0"})}},
       {"ranks 1"},
       0,
       "configuration { name: 'c' num_devices: 1 }"},
      {"an annotated node that nothing needs",
       "g (int64[4, 8] x) => (int64[4, 8] y) { y = Neg(x) z = Abs(x) }",
       {{"z", split("x", 0) + split("q", 0)}},
       {}},
      {"sizes are whole",
       "g (int64[4, 8] x) => (int64[8, 4] y) { k = Constant <value = int64[2] {8, 4}> () y = Reshape(x, k) }",
       {{"y", whole("k") + split("x", 0)}},
       {"\"y\" = S(0)"}},

      // ---- configurations and stages
      {"the one that is named",
       kAnnotatedMlp,
       {{"h", split("x", 0)}},
       {"ranks 2"},
       0,
       "configuration { name: 'c' num_devices: 2 } configuration { name: 'd' num_devices: 4 }",
       "c"},
      {"annotations for another one count for nothing",
       kAnnotatedMlp,
       {{"h", split("x", 0)}},
       {"ranks 4"},
       0,
       "configuration { name: 'c' num_devices: 2 } configuration { name: 'd' num_devices: 4 }",
       "d"},
      {"devices may have names",
       kAnnotatedMlp,
       {{"h", split("x", 0)}},
       {"\"h\" = S(0)"},
       0,
       "configuration { name: 'c' num_devices: 2 device: ['CUDA:0', 'CUDA:1'] }"},
      {"one stage is no pipeline",
       kAnnotatedMlp,
       {{"h", split("x", 0) + "pipeline_stage: 3"}, {"y", "pipeline_stage: 3"}},
       {"\"h\" = S(0)"}},
      {"several stages",
       kAnnotatedMlp,
       {{"h", "pipeline_stage: 0"}, {"y", "pipeline_stage: 5"}},
       {"'y'", "pipeline stage 5", "stage 0"},
       errors::kAnnotationForm},
      {"several and none named",
       kAnnotatedMlp,
       {{"h", split("x", 0)}},
       {"c, d", "--configuration"},
       errors::kAnnotation,
       "configuration { name: 'c' num_devices: 2 } configuration { name: 'd' num_devices: 4 }"},
      {"no such name",
       kAnnotatedMlp,
       {},
       {"no configuration 'e'", "it has c"},
       errors::kAnnotation,
       "configuration { name: 'c' num_devices: 2 }",
       "e"},
      {"an annotation for none of the model's",
       kAnnotatedMlp,
       {{"h", split("x", 0)}},
       {"'c'", "which the model does not have"},
       errors::kAnnotation,
       "configuration { name: 'd' num_devices: 2 }"},
      {"without a name",
       kAnnotatedMlp,
       {},
       {"has no name"},
       errors::kAnnotation,
       "configuration { num_devices: 2 }"},
      {"the same name twice",
       kAnnotatedMlp,
       {},
       {"two configurations are named 'c'"},
       errors::kAnnotation,
       "configuration { name: 'c' num_devices: 2 } configuration { name: 'c' num_devices: 2 }"},
      {"without devices",
       kAnnotatedMlp,
       {},
       {"'c' has 0 devices"},
       errors::kAnnotation,
       "configuration { name: 'c' }"},
      {"other names than devices",
       kAnnotatedMlp,
       {},
       {"2 devices and 1 names"},
       errors::kAnnotation,
       "configuration { name: 'c' num_devices: 2 device: 'CPU' }"},
      {"an old IR version",
       kAnnotatedMlp,
       {{"h", split("x", 0)}},
       {"IR version 10"},
       errors::kAnnotation,
       "configuration { name: 'c' num_devices: 2 }",
       "",
       10},

      // ---- malformed
      {"more shards than devices",
       kAnnotatedMlp,
       {{"h", on("x", kTwo, {"0:4"})}},
       {"'x'", "4 shards along axis 0", "devices 0, 1"},
       errors::kAnnotation},
      {"more devices than shards",
       kAnnotatedMlp,
       {{"h", on("x", {"0", "1", "2", "3"}, {"0:2"})}},
       {"2 shards along axis 0", "devices 0, 1, 2, 3"},
       errors::kAnnotation,
       "configuration { name: 'c' num_devices: 4 }"},
      {"an axis that the devices do not divide",
       "g (int64[6, 8] x) => (int64[6, 8] y) { y = Neg(x) }",
       {{"y", on("x", {"0", "1", "2", "3"}, {"0:4"})}},
       {"axis 0 of size 6", "1, 2, 3, 6"},
       errors::kAnnotation,
       "configuration { name: 'c' num_devices: 4 }"},
      {"a factor that the devices do not divide",
       kAnnotatedMlp,
       {{"h", on("w", {"0", "1", "2", "3"}, {"1:4/1*2/4"})}},
       {"axis 1 of size 2", "1, 2"},
       errors::kAnnotation,
       "configuration { name: 'c' num_devices: 4 }"},
      {"an axis without elements",
       "g (int64[0, 8] x) => (int64[0, 8] y) { y = Neg(x) }",
       {{"y", split("x", 0)}},
       {"axis 0 has no elements"},
       errors::kAnnotation},
      {"a size that is known only at run time",
       "g (int64[n, 8] x) => (int64[m, 8] y) { y = Neg(x) }",
       {{"y", split("x", 0)}},
       {"axis 0", "known only at run time", "--dim"},
       errors::kAnnotation},
      {"a group with the number of a device",
       kAnnotatedMlp,
       {{"h", on("x", {"0={0,1}"})}},
       {"key 0", "not negative"},
       errors::kAnnotation},
      {"a group that is not there",
       kAnnotatedMlp,
       {{"h", on("x", {"-1"})}},
       {"no group -1"},
       errors::kAnnotation},
      {"an empty group",
       kAnnotatedMlp,
       {{"h", on("x", {"-1={}"})}},
       {"group -1 has no devices"},
       errors::kAnnotation},
      {"a group twice",
       kAnnotatedMlp,
       {{"h",
         "sharding_spec { tensor_name: 'x' device: -1 index_to_device_group_map { key: -1 value: [0, 1] } "
         "index_to_device_group_map { key: -1 value: [1, 0] } }"}},
       {"group -1 is given twice"},
       errors::kAnnotation},
      {"a device beyond the configuration",
       kAnnotatedMlp,
       {{"h", on("x", {"0", "2"}, {"0:2"})}},
       {"no device 2", "has 2"},
       errors::kAnnotation},
      {"a device beyond it in a group",
       kAnnotatedMlp,
       {{"h", on("x", {"-1={0,7}"})}},
       {"no device 7"},
       errors::kAnnotation},
      {"a device twice",
       kAnnotatedMlp,
       {{"h", on("x", {"0", "0"}, {"0:2"})}},
       {"device 0 is given twice"},
       errors::kAnnotation},
      {"a device in two groups",
       kAnnotatedMlp,
       {{"h", on("x", {"-1={0,1}", "-2={1}"}, {"0:2"})}},
       {"device 1 is given twice"},
       errors::kAnnotation},
      {"no axis",
       kAnnotatedMlp,
       {{"h", "sharding_spec { tensor_name: 'x' sharded_dim { simple_sharding { num_shards: 2 } } }"}},
       {"no axis"},
       errors::kAnnotation},
      {"an axis beyond the tensor",
       kAnnotatedMlp,
       {{"h", split("x", 2)}},
       {"no axis 2", "2 dimensions"},
       errors::kAnnotation},
      {"an axis before the tensor",
       kAnnotatedMlp,
       {{"h", split("x", -3)}},
       {"no axis -3"},
       errors::kAnnotation},
      {"an axis twice",
       kAnnotatedMlp,
       {{"h", on("x", kTwo, {"0:2", "-2:1"})}},
       {"axis 0 is given twice"},
       errors::kAnnotation},
      {"an axis of a scalar",
       "g (int64 x) => (int64 y) { y = Neg(x) }",
       {{"y", split("x", 0)}},
       {"no axis 0", "0 dimensions"},
       errors::kAnnotation},
      {"no number of shards",
       kAnnotatedMlp,
       {{"h", "sharding_spec { tensor_name: 'x' sharded_dim { axis: 0 simple_sharding { dim_value: 4 } } }"}},
       {"axis 0 has 0 shards"},
       errors::kAnnotation},
      {"no shards",
       kAnnotatedMlp,
       {{"h", on("x", kTwo, {"0:0"})}},
       {"axis 0 has 0 shards"},
       errors::kAnnotation},
      {"fewer than none",
       kAnnotatedMlp,
       {{"h", on("x", kTwo, {"0:-2"})}},
       {"axis 0 has -2 shards"},
       errors::kAnnotation},
      {"a sharded dimension that says nothing",
       kAnnotatedMlp,
       {{"h", "sharding_spec { tensor_name: 'x' sharded_dim { axis: 0 } }"}},
       {"no simple_sharding"},
       errors::kAnnotation},
      {"another size than the tensor's",
       kAnnotatedMlp,
       {{"h", on("x", kTwo, {"0:8/2"})}},
       {"axis 0 has the size 4, not 8"},
       errors::kAnnotation},
      {"factors of another size",
       kAnnotatedMlp,
       {{"h", on("w", kTwo, {"1:3/1*4/2"})}},
       {"axis 1 has the size 8, not 12"},
       errors::kAnnotation},
      {"a factor without elements",
       kAnnotatedMlp,
       {{"h", on("w", kTwo, {"1:0/1*4/2"})}},
       {"a factor of size 0"},
       errors::kAnnotation},
      {"no tensor",
       kAnnotatedMlp,
       {{"h", "sharding_spec { device: [0, 1] }"}},
       {"no tensor_name"},
       errors::kAnnotation},
      {"a tensor of another node",
       kAnnotatedMlp,
       {{"h", split("v", 0)}},
       {"'v' is neither an input nor an output"},
       errors::kAnnotation},
      {"a tensor that there is not",
       kAnnotatedMlp,
       {{"h", split("q", 0)}},
       {"'q' is neither an input nor an output"},
       errors::kAnnotation},
      {"a tensor twice",
       kAnnotatedMlp,
       {{"h", split("x", 0) + split("x", 0)}},
       {"two annotations of 'x'"},
       errors::kAnnotation},
      {"a node twice",
       kAnnotatedMlp,
       {{"h", split("x", 0)}, {"h", split("x", 0)}},
       {"annotated twice for the configuration 'c'"},
       errors::kAnnotation},

      // ---- contradictions with the operator, and what is not generated
      {"operands along different axes",
       kAdd,
       {{"y", split("n", 0) + split("m", 1)}},
       {"'n' split along axis 0 over devices 0, 1 and 'm' split along axis 1 over devices 0, 1", "it can:"},
       errors::kAnnotation},
      {"an axis along which the operator works",
       "g (int64[4, 8] x) => (int64[4, 8] y) { a = Constant <value = int64 {1}> () n = Neg(x) y = CumSum(n, "
       "a) }",
       {{"y", split("n", 1)}},
       {"'n' split along axis 1 over devices 0, 1", "CumSum"},
       errors::kAnnotation},
      {"a producer's state that a node cannot take",
       kAdd,
       {{"n", split("n", 0)}, {"y", split("m", 1)}},
       {"'n' split along axis 0", "'m' split along axis 1"},
       errors::kAnnotation},
      {"sizes in parts",
       "g (int64[4, 8] x) => (int64[8, 4] y) { k = Constant <value = int64[2] {8, 4}> () y = Reshape(x, k) }",
       {{"y", split("k", 0)}},
       {"'k'", "split along axis 0"},
       errors::kAnnotation},
      {"devices in another order",
       kAnnotatedMlp,
       {{"h", on("x", {"1", "0"}, {"0:2"})}},
       {"shards along axis 0 lie on devices 1, 0"},
       errors::kAnnotationForm},
      {"groups in another order",
       kAnnotatedMlp,
       {{"h", on("x", {"-1={1}", "-2={0}"}, {"0:2"})}},
       {"devices 1, 0"},
       errors::kAnnotationForm},
      {"some of the devices",
       kAnnotatedMlp,
       {{"h", on("x", kTwo, {"0:2"})}},
       {"devices 2, 3 hold nothing"},
       errors::kAnnotationForm,
       "configuration { name: 'c' num_devices: 4 }"},
      {"a factor without a size",
       kAnnotatedMlp,
       {{"h", on("w", kTwo, {"1:2*4/1"})}},
       {"a factor without a size"},
       errors::kAnnotationForm},
      {"a function",
       "g (float[4, 8] x) => (float[4, 8] y) { y = local.Twice(x) }\n<domain: \"local\", opset_import: "
       "[\"\": 18]> Twice (a) => (b) { b = Add(a, a) }",
       {{"y", split("x", 0)}},
       {"is a function"},
       errors::kAnnotationForm},
  };
}

TEST(Annotations, ConformanceSet) {
  int results = 0, errors = 0;
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    onnx::ModelProto model = annotated_model(c.graph, c.nodes, c.configurations, c.ir_version, c.opset);
    try {
      const Obeyed obeyed = obey(model, c.wanted);
      const std::string plan = to_string(obeyed.plan);
      EXPECT_EQ(c.error, 0) << "accepted:\n" << plan;
      for (const std::string& line : c.expected) {
        if (line[0] == '!') {
          EXPECT_THAT(plan, Not(HasSubstr(line.substr(1))));
        } else {
          EXPECT_THAT(plan, HasSubstr(line));
        }
      }
      expect_plain_results(model, obeyed);
      ++results;
    } catch (const ir::UserError& error) {
      EXPECT_EQ(error.code(), c.error) << error.what();
      for (const std::string& text : c.expected) EXPECT_THAT(error.what(), HasSubstr(text));
      ++errors;
    }
  }
  fmt::print("{} cases: {} results, {} errors\n", results + errors, results, errors);
  EXPECT_GE(results, 60);
  EXPECT_GE(errors, 50);
}

// Plans of the least memory, too, are as is said, and errors are not hidden by a limit that nothing fits.
TEST(Annotations, AreObeyedUnderLimitsOfMemory) {
  const auto costs = analysis::cost_model_for("cpu");
  int limited = 0, errors = 0;
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const onnx::ModelProto model = annotated_model(c.graph, c.nodes, c.configurations, c.ir_version, c.opset);
    const TemporaryFolder folder;
    const std::string path = folder.write("model.onnx", model);
    try {
      const auto configuration =
          std::make_shared<const DeviceConfiguration>(device_configuration(path, c.wanted).value());
      auto request = std::make_shared<SplitRequest>();
      request->mesh = configuration->mesh;
      request->choose = [&](const Graph& graph, const Mesh& mesh) {
        SearchOptions search;
        search.annotated = annotations_of(configuration);
        const auto within = [&](std::int64_t limit) {
          search.memory = limit;
          return std::move(find_plans(graph, {mesh}, costs, search)[0]);
        };
        const FoundPlans none = within(1);
        EXPECT_TRUE(none.plans.empty());
        EXPECT_TRUE(within(none.least_bytes - 1).plans.empty());
        const FoundPlans least = within(none.reached_bytes);
        EXPECT_FALSE(least.plans.empty());
        for (const FoundPlan& plan : least.plans) {
          EXPECT_LE(plan.counted_bytes, none.reached_bytes);
          for (const std::string& line : c.expected)
            if (line[0] != '!') EXPECT_THAT(plan.text, HasSubstr(line));
        }
        limited += least.plans.empty() ? 0 : 1;
        return parse_mesh_plan(least.plans.at(0).text, "plan");
      };
      ImportOptions options;
      options.ranks = configuration->devices;
      for (const std::string& name : dimension_names(path)) options.dims[name] = {1, 8};
      options.split = request;
      import_model(path, options);
      EXPECT_EQ(c.error, 0);
    } catch (const ir::UserError& error) {
      EXPECT_EQ(error.code(), c.error) << error.what();
      ++errors;
    }
  }
  EXPECT_GE(limited, 60);
  EXPECT_GE(errors, 50);
}

// Random changes of annotated models: each is obeyed, or a user error.
TEST(Annotations, ChangedModelsGiveAProgramOrAUserError) {
  std::vector<std::string> seeds;
  for (const Case& c : cases()) {
    if (c.error == 0 || c.error == errors::kAnnotationForm)
      seeds.push_back(
          annotated_model(c.graph, c.nodes, c.configurations, c.ir_version, c.opset).SerializeAsString());
  }
  const std::uint64_t seed = 20261125;
  std::mt19937_64 random(seed);
  int obeyed = 0, refused = 0;
  const int runs = test::random_cases(1500);
  for (int k = 0; k < runs; ++k) {
    const std::string bytes =
        test::mutate(seeds[random() % seeds.size()], seeds[random() % seeds.size()], random);
    const TemporaryFolder folder;
    const std::string path = folder.write("model.onnx", bytes);
    try {
      const std::optional<DeviceConfiguration> configuration = device_configuration(path, "");
      if (!configuration || configuration->devices > 8) continue;
      MeshPlan plan;
      ImportOptions options;
      options.ranks = configuration->devices;
      options.split = obeying_request(*configuration, plan);
      import_model(path, options);
      ++obeyed;
    } catch (const ir::UserError& error) {
      refused += error.code() == errors::kAnnotation || error.code() == errors::kAnnotationForm ? 1 : 0;
    } catch (const std::exception& error) {
      std::ofstream("changed_model.onnx", std::ios::binary) << bytes;
      FAIL() << error.what() << "\nseed " << seed << ", run " << k << "; the model is in changed_model.onnx";
    }
  }
  fmt::print("{} of {} obeyed, {} refused for their annotations\n", obeyed, runs, refused);
  EXPECT_GT(obeyed, runs / 100);
  EXPECT_GT(refused, runs / 100);
}

}  // namespace
}  // namespace braid::frontend::sharding
