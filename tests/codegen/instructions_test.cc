// Every instruction and every element type of the C++ target against the interpreter, special values
// included.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ir/element.h"
#include "tests/codegen/compiled.h"
#include "tests/support/ops.h"

namespace braid::test {
namespace {

using ir::DType;

const std::vector<std::string> kFloats = {"f32", "f64", "f16", "bf16"};
const std::vector<std::string> kIntegers = {"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"};
const std::vector<std::string> kIntUnary = {"neg", "abs", "sign", "bit_not"};
const std::vector<std::string> kIntBinary = {"add",     "sub",    "mul",     "min",        "max",
                                             "bit_and", "bit_or", "bit_xor", "shift_left", "shift_right"};
const std::vector<std::string> kIntDivide = {"div", "mod", "fmod"};
const std::vector<std::string> kCompare = {"eq", "ne", "lt", "le", "gt", "ge"};
constexpr int kCount = 21;

ir::Tensor specials(DType dtype) {
  ir::Tensor t = ir::make_tensor(dtype, {kCount});
  const double floats[kCount] = {0,   -0.0, 1,    -1,  0.5,  -2.5, 3.5, 7,        -7,        1e-3, 20,
                                 -20, 88,   -100, 6e4, -6e4, 1e-7, 0.1, INFINITY, -INFINITY, NAN};
  const std::int64_t low = std::numeric_limits<std::int64_t>::min(),
                     high = std::numeric_limits<std::int64_t>::max();
  const std::int64_t ints[kCount] = {0,
                                     1,
                                     -1,
                                     2,
                                     -2,
                                     3,
                                     5,
                                     -7,
                                     10,
                                     127,
                                     -128,
                                     128,
                                     255,
                                     32767,
                                     -32768,
                                     65535,
                                     2147483647,
                                     -2147483648LL,
                                     4294967295LL,
                                     low,
                                     high};
  for (int k = 0; k < kCount; ++k) {
    ir::Literal v;
    if (ir::is_float(dtype))
      v = ir::round_to(dtype, floats[k]);
    else
      v = dtype == DType::boolean ? k % 2 : ints[k];
    ir::write_element(dtype, t.bytes.data() + k * ir::size_of(dtype), v);
  }
  return t;
}

// One program with an output per instruction.
struct Suite {
  std::string text = "graph main\n";
  std::string outputs;
  int count = 0;
  void one(const std::string& type, const std::string& sizes, const std::string& body) {
    text += fmt::format("%y{}: {}[{}] = pointwise {{ {} }}\n", count, type, sizes, body);
    outputs += fmt::format("output %y{}\n", count++);
  }
  // Applies each op to every pair of elements, or to every element.
  void every_op(const std::string& type) {
    const DType dtype = *ir::dtype_from_string(type);
    for (int operands : {1, 2}) {
      for (ir::OpCode op : ops_of(dtype, operands)) {
        const bool predicate = ir::row_of(op).result_type == ir::ResultType::boolean;
        one(predicate ? "bool" : type, fmt::format(fmt::runtime(operands == 1 ? "{0}" : "{0}, {0}"), kCount),
            fmt::format(
                fmt::runtime(operands == 1 ? "%0 = load %x[i0] %1 = {} %0 store %1"
                                           : "%0 = load %x[i0] %1 = load %x[i1] %2 = {} %0, %1 store %2"),
                to_string(op)));
      }
    }
  }
};

class CppInstructions : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    compiled_ = std::make_unique<Compiled>("-O1 -march=native");  // hundreds of kernels
    const std::string n = std::to_string(kCount), nn = n + ", " + n;
    for (const std::string& type : kFloats) {
      Suite s;
      s.text += fmt::format("input %x: {}[{}]\n", type, n);
      s.every_op(type);
      for (double e : {1.0, 2.0, 3.0, 4.0, -1.0, -2.0, 0.5}) {
        s.one(type, n, fmt::format("%0 = load %x %1 = constant {} {} %2 = pow %0, %1 store %2", type, e));
      }
      s.one(type, nn, "%0 = load %x[i0] %1 = load %x[i1] %2 = lt %0, %1 %3 = where %2, %0, %1 store %3");
      compiled_->add("float_" + type, s.text + s.outputs, "plan_memory");
    }
    for (const std::string& type : kIntegers) {
      Suite s;
      s.text += fmt::format("input %x: {}[{}]\n", type, n);
      for (const auto& op : kIntUnary) s.one(type, n, fmt::format("%0 = load %x %1 = {} %0 store %1", op));
      for (const auto& op : kIntBinary)
        s.one(type, nn, fmt::format("%0 = load %x[i0] %1 = load %x[i1] %2 = {} %0, %1 store %2", op));
      for (const auto& op : kCompare)
        s.one("bool", nn, fmt::format("%0 = load %x[i0] %1 = load %x[i1] %2 = {} %0, %1 store %2", op));
      // Never by zero.
      for (const auto& op : kIntDivide) {
        s.one(type, nn,
              fmt::format("%0 = load %x[i0] %1 = load %x[i1] %2 = constant {0} 0 %3 = eq %1, %2 %4 = "
                          "constant {0} 3 %5 = where %3, %4, %1 "
                          "%6 = {1} %0, %5 store %6",
                          type, op));
      }
      compiled_->add("int_" + type, s.text + s.outputs, "plan_memory");
    }
    std::vector<std::string> all = kFloats;
    all.insert(all.end(), kIntegers.begin(), kIntegers.end());
    all.push_back("bool");
    for (const std::string& from : all) {
      Suite s;
      s.text += fmt::format("input %x: {}[{}]\n", from, n);
      for (const std::string& to : all) {
        if (to == from) continue;
        s.one(to, n, fmt::format("%0 = load %x %1 = cast {} %0 store %1", to));
        if (ir::size_of(*ir::dtype_from_string(to)) == ir::size_of(*ir::dtype_from_string(from)))
          s.one(to, n, fmt::format("%0 = load %x %1 = bitcast {} %0 store %1", to));
      }
      compiled_->add("cast_" + from, s.text + s.outputs, "plan_memory");
    }
    Suite b;
    b.text += fmt::format("input %x: bool[{}]\n", n);
    b.every_op("bool");
    compiled_->add("bool", b.text + b.outputs, "plan_memory");
    compiled_->build();
  }
  static void TearDownTestSuite() { compiled_.reset(); }
  static inline std::unique_ptr<Compiled> compiled_;
};

double tolerance(const std::string& type) {
  return type == "f16" ? 1.5e-3 : type == "bf16" ? 1.2e-2 : type == "f32" ? 1e-6 : 1e-13;
}

TEST_F(CppInstructions, FloatsAtSpecialValues) {
  for (const auto& type : kFloats)
    compiled_->expect_like_interpreter_on("float_" + type, {specials(*ir::dtype_from_string(type))},
                                          tolerance(type));
}
TEST_F(CppInstructions, IntegersWrapAtTheirEnds) {
  for (const auto& type : kIntegers)
    compiled_->expect_like_interpreter_on("int_" + type, {specials(*ir::dtype_from_string(type))}, 0);
}
TEST_F(CppInstructions, CastsBetweenAllTypes) {
  std::vector<std::string> all = kFloats;
  all.insert(all.end(), kIntegers.begin(), kIntegers.end());
  all.push_back("bool");
  for (const auto& type : all)
    compiled_->expect_like_interpreter_on("cast_" + type, {specials(*ir::dtype_from_string(type))}, 0);
}
TEST_F(CppInstructions, Booleans) {
  compiled_->expect_like_interpreter_on("bool", {specials(DType::boolean)}, 0);
}

}  // namespace
}  // namespace braid::test
