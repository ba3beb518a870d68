// Products of quantised operands, from their text to the C++ program: random forms of operands, zero points,
// scales and following steps, with the extreme values of their types. The program before the passes is the
// reference.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "driver/compile.h"
#include "ir/element.h"
#include "ir/parser.h"
#include "tests/codegen/compiled.h"
#include "tests/support/compute_threads.h"
#include "tests/support/random.h"

namespace braid::test {
namespace {

using Random = std::mt19937_64;

std::int64_t pick(Random& random, std::initializer_list<std::int64_t> of) {
  return of.begin()[random() % of.size()];
}

// Bytes of any value or only extreme ones; small positive scales for floats.
ir::Tensor contents(ir::DType dtype, std::vector<std::int64_t> sizes, Random& random) {
  ir::Tensor t = ir::make_tensor(dtype, std::move(sizes));
  const bool extreme = random() % 2 == 0;
  const bool is_signed = ir::is_signed_integer(dtype);
  for (std::int64_t k = 0; k < t.numel(); ++k) {
    ir::Literal value;
    if (ir::is_float(dtype)) {
      value =
          static_cast<double>(static_cast<float>(std::uniform_real_distribution<double>(0.01, 2)(random)));
    } else if (extreme) {
      value = is_signed ? pick(random, {-128, 127, -128, 0}) : pick(random, {255, 255, 0, 128});
    } else {
      value = static_cast<std::int64_t>(random() % 256) - (is_signed ? 128 : 0);
    }
    ir::write_element(dtype, t.bytes.data() + k * ir::size_of(dtype), value);
  }
  return t;
}

void fill(ir::Graph& graph, Random& random) {
  for (std::size_t b = 0; b < graph.buffers.size(); ++b) {
    const ir::Buffer& buffer = graph.buffers[b];
    if (!buffer.storage.valid() || graph[buffer.storage].kind != ir::StorageKind::constant) continue;
    std::vector<std::int64_t> sizes;
    for (ir::Expr e : buffer.sizes) sizes.push_back(e.constant());
    graph[buffer.storage].data = ir::own_bytes(contents(buffer.dtype, sizes, random).bytes);
  }
}

struct ProductCase {
  std::string text;
  std::int64_t m = 1;  // of the dimension
  bool exact = true;   // integers throughout
  bool narrowed = true;
};

// One operand as text: declarations of %x_ (bytes), %z_, %u_, and the loop %_ that the product reads.
std::string operand(Random& random, char name, bool floats, std::int64_t batch, const std::string& rows,
                    const std::string& columns, bool along_rows, bool constant) {
  const std::string type = random() % 2 == 0 ? "u8" : "i8";
  std::string sizes = batch > 0 ? fmt::format("{}, {}, {}", batch, rows, columns) : rows + ", " + columns;
  std::string out, body;
  int v = 0;
  const auto line = [&](const std::string& text) {
    body += fmt::format(" %{} = {}", v, text);
    return v++;
  };
  const std::string kind = constant ? "constant" : "input";
  // The dimension that the product keeps: its index and its size.
  const int kept = (batch > 0 ? 1 : 0) + (along_rows ? 1 : 0);
  const std::string kept_size = along_rows ? columns : rows;
  const bool dynamic = kept_size == "m";
  // A parameter of this type that the product may have: one number, or one per kept index.
  const auto parameter = [&](char p, const std::string& of) {
    const bool vector = random() % 2 == 0;
    const std::string from = dynamic && vector ? "input" : random() % 2 == 0 ? "constant" : "input";
    out += fmt::format("{} %{}{}: {}[{}]{} ", from, p, name, of, vector ? kept_size : "",
                       from == "constant" ? (of == "f32" ? " = splat(1.0)" : " = splat(1)") : "");
    return line(fmt::format("load %{}{}[{}]", p, name, vector ? fmt::format("i{}", kept) : "0"));
  };
  int bytes = 0;
  if (!constant && random() % 4 == 0) {  // computed, with a layout of its own
    out += fmt::format("input %x{}: {}[{}] ", name, type, sizes);
    const int x = line(fmt::format("load %x{}", name));
    const int one = line(fmt::format("constant {} 1", type));
    bytes = line(fmt::format("bit_xor %{}, %{}", x, one));
  } else {
    out += fmt::format("{} %x{}: {}[{}]{} ", kind, name, type, sizes, constant ? " = splat(1)" : "");
    bytes = line(fmt::format("load %x{}", name));
  }
  const bool zero = random() % 3 != 0, in_floats = floats && random() % 2 == 0;
  const std::string wide = in_floats ? "f32" : "i32";
  int value = line(fmt::format("cast {} %{}", wide, bytes));
  if (zero) {
    const int z = parameter('z', type);
    const int zw = line(fmt::format("cast {} %{}", wide, z));
    value = line(fmt::format("sub %{}, %{}", value, zw));
  }
  if (floats && !in_floats) value = line(fmt::format("cast f32 %{}", value));
  if (floats && random() % 4 != 0) {
    const int u = parameter('u', "f32");
    value = random() % 2 == 0 ? line(fmt::format("mul %{}, %{}", value, u))
                              : line(fmt::format("mul %{}, %{}", u, value));
  }
  return out + fmt::format("\n%{}: {}[{}] = pointwise {{{} store %{} }}\n", name, floats ? "f32" : "i32",
                           sizes, body, value);
}

// Appends the steps after a product: nothing, a bias and an activation, the low bytes of sums, or a
// requantisation. An activation of its bytes or the sum with another quantised tensor may follow the
// requantisation. Returns the name of the result.
std::string finish(Random& random, std::string& text, bool& exact, bool floats, std::int64_t depth,
                   const std::string& sizes, const std::string& filters, int filter_index) {
  const std::string type = floats ? "f32" : "i32";
  switch (random() % 5) {
    case 0:
      return "y";
    case 1:
      text += fmt::format(
          "constant %bias: {0}[{1}] = splat({2}) %r: {0}[{3}] = pointwise {{ %0 = load %y %1 = load "
          "%bias[i{4}] %2 = add %0, %1 %3 = constant {0} 0 %4 = max %2, %3 store %4 }}\n",
          type, filters, floats ? "1.0" : "1", sizes, filter_index);
      return "r";
    case 2:
      if (!floats) {  // the low bytes of sums
        text += fmt::format(
            "%r: i32[{0}] = pointwise {{ %0 = load %y %1 = cast {1} %0 %2 = max %1, %1 %3 = cast i32 %2 %4 = "
            "cast i32 %1 %5 = add %3, %4 "
            "store %5 }}\n",
            sizes, random() % 2 == 0 ? "u8" : "i8");
        return "r";
      }
      [[fallthrough]];
    default: {
      // The largest magnitude of a sum decides the scale, so that results differ.
      const std::string q = random() % 2 == 0 ? "u8" : "i8";
      const double step = static_cast<double>(depth) * 20000 * (floats ? 0.5 : 1) / 200;
      text += fmt::format(
          "%r: {}[{}] = pointwise {{ %0 = load %y %1 = cast f32 %0 %2 = constant f32 {} %3 = mul %1, %2 %4 = "
          "round "
          "%3 %5 = constant f32 {} %6 = add %4, %5 %7 = constant f32 {} %8 = max %6, %7 %9 = constant f32 {} "
          "%10 = "
          "min %8, %9 %11 = cast {} %10 store %11 }}\n",
          q, sizes, static_cast<float>(1 / step), q == "u8" ? 120 : -3, q == "u8" ? 0 : -128,
          q == "u8" ? 255 : 127, q);
      exact = false;
      switch (random() % 3) {
        case 0:
          return "r";
        case 1:  // a function of one byte
          text += fmt::format(
              "%s: {0}[{1}] = pointwise {{ %0 = load %r %1 = cast i32 %0 %2 = constant i32 20 %3 = sub %1, "
              "%2 %4 = cast f32 %3 "
              "%5 = constant f32 0.05 %6 = mul %4, %5 %7 = sigmoid %6 %8 = mul %6, %7 %9 = constant f32 0.08 "
              "%10 = div %8, %9 "
              "%11 = round %10 %12 = cast {0} %11 store %12 }}\n",
              q, sizes);
          return "s";
        default: {
          const std::string other = random() % 2 == 0 ? "u8" : "i8";
          text += fmt::format(
              "input %e: {2}[{1}] %s: {0}[{1}] = pointwise {{ %0 = load %r %1 = cast f32 %0 %2 = load %e %3 "
              "= cast f32 %2 "
              "%4 = constant f32 0.3 %5 = mul %3, %4 %6 = add %1, %5 %7 = constant f32 1.7 %8 = div %6, %7 "
              "%9 = round %8 "
              "%10 = cast {0} %9 store %10 }}\n",
              q, sizes, other);
          return "s";
        }
      }
    }
  }
}

ProductCase random_case(std::uint64_t seed) {
  Random random(seed);
  ProductCase c;
  const bool floats = random() % 2 == 0, dynamic = random() % 2 == 0;
  c.exact = !floats;
  const std::int64_t k =
      seed % 9 == 0 ? pick(random, {2000, 4099}) : pick(random, {1, 2, 3, 4, 5, 15, 64, 70, 130});
  const std::int64_t n = k > 1000 ? pick(random, {1, 3, 17}) : pick(random, {1, 2, 5, 16, 40, 64, 65, 100});
  c.m = k > 1000 ? pick(random, {1, 2, 7}) : pick(random, {1, 2, 3, 6, 7, 13, 25, 50});
  const std::int64_t batch = random() % 3 == 0 ? pick(random, {1, 2, 3}) : 0;
  const bool b_has_batch = batch > 0 && random() % 2 == 0, constant = random() % 2 == 0;
  const bool transposed = random() % 2 == 0;
  const std::string m = dynamic ? "m" : fmt::format("{}", c.m);
  std::string text = dynamic ? "graph main dim m in [1, 60] " : "graph main ";
  text += operand(random, 'a', floats, batch, m, fmt::format("{}", k), false, false);
  text += transposed ? operand(random, 'b', floats, b_has_batch ? batch : 0, fmt::format("{}", n),
                               fmt::format("{}", k), false, constant)
                     : operand(random, 'b', floats, b_has_batch ? batch : 0, fmt::format("{}", k),
                               fmt::format("{}", n), true, constant);
  std::string b = "%b";
  if (batch > 0) {
    b = fmt::format("%b at 0 [{}, {}, {}] strides [{}, {}, {}]", batch, k, n, b_has_batch ? k * n : 0,
                    transposed ? 1 : n, transposed ? k : 1);
  } else if (transposed) {
    b = "transpose(%b)";
  }
  const std::string sizes = fmt::format("{}{}, {}", batch > 0 ? fmt::format("{}, ", batch) : "", m, n);
  const std::string type = floats ? "f32" : "i32";
  text += fmt::format("%y: {}[{}] = gemm %a, {}\n", type, sizes, b);
  const std::string output =
      finish(random, text, c.exact, floats, k, sizes, fmt::format("{}", n), batch > 0 ? 2 : 1);
  c.text = text + "output %" + output;
  return c;
}

// Images in ONNX's order, weights too.
ProductCase random_convolution(std::uint64_t seed) {
  Random random(seed);
  ProductCase c;
  const bool floats = random() % 2 == 0;
  c.exact = !floats;
  const bool depthwise = random() % 4 == 0;
  const std::int64_t groups = depthwise ? pick(random, {2, 16, 33, 70}) : random() % 4 == 0 ? 2 : 1;
  const std::int64_t channels = depthwise ? 1 : pick(random, {1, 3, 4, 16, 20}),
                     filters = depthwise ? 1 : pick(random, {1, 2, 8, 17, 66});
  const std::int64_t batch = pick(random, {1, 2});
  std::int64_t in[2], out[2], taps[2], stride[2], dilation[2], pad[2];
  for (int d = 0; d < 2; ++d) {
    taps[d] = pick(random, {1, 1, 2, 3, 3, 5});
    stride[d] = pick(random, {1, 1, 2, 3});
    dilation[d] = pick(random, {1, 1, 1, 2});
    pad[d] =
        random() % 2 == 0 ? 0 : static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(taps[d]));
    const std::int64_t extent = (taps[d] - 1) * dilation[d] + 1;
    in[d] = extent + pick(random, {2, 3, 6, 9});
    const std::int64_t behind =
        random() % 2 == 0 ? 0 : static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(taps[d]));
    out[d] = (in[d] + pad[d] + behind - extent) / stride[d] + 1;
  }
  const std::int64_t a_channels = groups * channels, out_channels = groups * filters;
  std::string text = "graph main ";
  // Operands of four dimensions; `kept` is the one along which parameters may change, -1: none.
  const auto operand = [&](char name, const std::string& sizes, std::int64_t kept, bool constant) {
    const std::string type = random() % 2 == 0 ? "u8" : "i8";
    std::string body;
    int v = 0;
    const auto line = [&](const std::string& instr) {
      body += fmt::format(" %{} = {}", v, instr);
      return v++;
    };
    const auto parameter = [&](char p, const std::string& of) {
      const bool vector = kept > 0 && random() % 2 == 0;
      text += fmt::format("constant %{}{}: {}[{}] = splat({}) ", p, name, of,
                          vector ? std::to_string(kept) : "", of == "f32" ? "1.0" : "1");
      return line(fmt::format("load %{}{}[{}]", p, name, vector ? "i0" : "0"));
    };
    text += fmt::format("{} %x{}: {}[{}]{} ", constant ? "constant" : "input", name, type, sizes,
                        constant ? " = splat(1)" : "");
    const int x = line(fmt::format("load %x{}", name));
    int value = line(fmt::format("cast i32 %{}", x));
    if (!constant && random() % 4 != 0) {
      const int z = line(fmt::format("cast i32 %{}", parameter('z', type)));
      value = line(fmt::format("sub %{}, %{}", value, z));
    } else if (constant && type == "u8") {
      // The zero point in the middle, so that the differences fit i8.
      const int z = line(fmt::format("constant i32 {}", random() % 4 == 0 ? 100 : 128));
      value = line(fmt::format("sub %{}, %{}", value, z));
    }
    if (floats) {
      value = line(fmt::format("cast f32 %{}", value));
      value = line(fmt::format("mul %{}, %{}", value, parameter('u', "f32")));
    }
    text += fmt::format("\n%{}: {}[{}] = pointwise {{{} store %{} }}\n", name, floats ? "f32" : "i32", sizes,
                        body, value);
  };
  operand('a', fmt::format("{}, {}, {}, {}", batch, a_channels, in[0], in[1]), -1, false);
  operand('b', fmt::format("{}, {}, {}, {}", out_channels, channels, taps[0], taps[1]), out_channels, true);
  const std::string type = floats ? "f32" : "i32";
  const std::int64_t taps_in_all = taps[0] * taps[1], image = in[0] * in[1], result = out[0] * out[1];
  text += fmt::format(
      "%y: {}[{}, {}, {}, {}] = convolution %a [{}, {}, {}, {}] strides [{}, {}, 1, {}], "
      "%b [{}, {}, {}, {}, {}] strides [{}, {}, 1, {}, {}] stride [{}, {}] dilation [{}, {}] pad [{}, {}] "
      "into %y [{}, {}, {}, {}] strides [{}, {}, 1, {}]\n",
      type, batch, out_channels, out[0], out[1], batch, in[0], in[1], a_channels, a_channels * image, in[1],
      image, groups, taps[0], taps[1], channels, filters, filters * channels * taps_in_all, taps[1],
      taps_in_all, channels * taps_in_all, stride[0], stride[1], dilation[0], dilation[1], pad[0], pad[1],
      batch, out[0], out[1], out_channels, out_channels * result, out[1], result);
  const std::string sizes = fmt::format("{}, {}, {}, {}", batch, out_channels, out[0], out[1]);
  const std::string output =
      finish(random, text, c.exact, floats, channels * taps_in_all, sizes, std::to_string(out_channels), 1);
  c.text = text + "output %" + output;
  return c;
}

// f32 rows by constant weights of 8 bits.
ProductCase random_weights(std::uint64_t seed) {
  Random random(seed);
  ProductCase c;
  c.exact = false;
  const std::int64_t k = pick(random, {1, 3, 16, 70, 300}), n = pick(random, {1, 7, 64, 65, 130});
  c.m = pick(random, {1, 2, 3, 5, 8, 9, 40});
  const bool transposed = random() % 2 == 0, vector = random() % 2 == 0, batched = random() % 3 == 0;
  const std::string type = random() % 2 == 0 ? "i8" : "u8", rows = batched ? "2, m" : "m";
  const std::string kept = fmt::format("i{}", transposed ? 0 : 1);
  std::string text = "graph main dim m in [1, 60] ";
  text += fmt::format(
      "input %a: f32[{}, {}] constant %xb: {}[{}] = splat(1) constant %ub: f32[{}] = splat(1.0)\n", rows, k,
      type, transposed ? fmt::format("{}, {}", n, k) : fmt::format("{}, {}", k, n),
      vector ? std::to_string(n) : "");
  text += fmt::format(
      "%b: f32[{}] = pointwise {{ %0 = load %xb %1 = cast i32 %0 %2 = constant i32 {} %3 = sub %1, %2 %4 = "
      "cast f32 %3 "
      "%5 = load %ub[{}] %6 = mul %4, %5 store %6 }}\n",
      transposed ? fmt::format("{}, {}", n, k) : fmt::format("{}, {}", k, n), type == "u8" ? 128 : 0,
      vector ? kept : "0");
  const std::string b = batched      ? fmt::format("%b at 0 [2, {}, {}] strides [0, {}, {}]", k, n,
                                              transposed ? 1 : n, transposed ? k : 1)
                        : transposed ? "transpose(%b)"
                                     : "%b";
  text += fmt::format("%y: f32[{}, {}] = gemm %a, {}\n", rows, n, b);
  const std::string output = finish(random, text, c.exact, true, k, fmt::format("{}, {}", rows, n),
                                    std::to_string(n), batched ? 2 : 1);
  c.text = text + "output %" + output;
  return c;
}

std::vector<ir::Tensor> inputs_of(const ir::Graph& graph, std::int64_t m, Random& random) {
  std::vector<ir::Tensor> inputs;
  for (const ir::GraphInput& in : graph.inputs) {
    std::vector<std::int64_t> sizes;
    for (ir::Expr e : graph[in.buffer].sizes) sizes.push_back(ir::evaluate(e, [&](ir::Expr) { return m; }));
    inputs.push_back(contents(graph[in.buffer].dtype, sizes, random));
  }
  return inputs;
}

// Compares integers exactly; floats by their rounding, which depends on the size of the partial sums; 8 bits
// within one step.
void expect_same(const ir::Tensor& got, const ir::Tensor& want, bool exact, const std::string& what) {
  ASSERT_EQ(got.sizes, want.sizes) << what;
  ASSERT_EQ(got.dtype, want.dtype) << what;
  double largest = 1;
  const auto element = [&](const ir::Tensor& t, std::int64_t k) {
    const ir::Literal v = ir::read_element(t.dtype, t.bytes.data() + k * ir::size_of(t.dtype));
    return std::holds_alternative<double>(v) ? std::get<double>(v)
                                             : static_cast<double>(std::get<std::int64_t>(v));
  };
  for (std::int64_t k = 0; k < want.numel(); ++k) largest = std::max(largest, std::fabs(element(want, k)));
  const double allowed = exact ? 0 : ir::is_float(want.dtype) ? largest * 2e-5 : 1;
  for (std::int64_t k = 0; k < want.numel(); ++k)
    ASSERT_LE(std::fabs(element(got, k) - element(want, k)), allowed)
        << what << ", element " << k << ": " << element(got, k) << " instead of " << element(want, k);
}

void expect_like_written(int cases, const std::function<ProductCase(std::uint64_t)>& make, const char* mark,
                         int percent) {
  const std::uint64_t first = first_seed();
  Compiled compiled;
  std::vector<ProductCase> all;
  std::vector<ir::Schedule> written;
  int narrowed = 0;
  for (int i = 0; i < cases; ++i) {
    const std::uint64_t seed = first + static_cast<std::uint64_t>(i);
    all.push_back(make(seed));
    SCOPED_TRACE(fmt::format("seed {}: {}", seed, all.back().text));
    Random random(seed * 7919);
    written.push_back(ir::parse_schedule(all.back().text, "test"));
    fill(written.back().graph, random);
    ir::Schedule schedule = written.back();
    optimise(schedule, {});
    compiled.add_schedule(fmt::format("p{}", i), std::move(schedule));
    const std::string& source = compiled.emitted(fmt::format("p{}", i)).source;
    narrowed += source.find(mark) != std::string::npos ? 1 : 0;
  }
  compiled.build();
  // Forms are recognised.
  EXPECT_GE(narrowed, cases * percent / 100);
  for (int i = 0; i < cases; ++i) {
    const std::uint64_t seed = first + static_cast<std::uint64_t>(i);
    const ProductCase& c = all[static_cast<std::size_t>(i)];
    Random random(seed * 104729);
    const std::vector<ir::Tensor> inputs = inputs_of(written[static_cast<std::size_t>(i)].graph, c.m, random);
    const std::vector<std::vector<ir::Tensor>> per_rank{inputs};
    const auto want = ir::run(written[static_cast<std::size_t>(i)], per_rank).outputs[0];
    const std::string name = fmt::format("p{}", i);
    const auto interpreted = ir::run(compiled.schedule(name), per_rank).outputs[0];
    const std::string what = fmt::format("seed {}: {}", seed, c.text);
    expect_same(interpreted[0], want[0], c.exact, "interpreted, " + what);
    const ComputeThreads threads_of_case(1 + i % 2);
    rt::Program program = compiled.open(name);
    const auto got = compiled.run(program, inputs);
    expect_same(got[0], want[0], c.exact, "compiled, " + what);
    // The program and its own schedule differ by no more than a rounding of the last steps.
    if (c.exact) expect_same(got[0], interpreted[0], true, what);
    if (::testing::Test::HasFailure()) break;
  }
}

TEST(IntegerProducts, RandomMatricesLikeTheWrittenProgram) {
  expect_like_written(random_cases(80), random_case, "s.b_type = ", 99);
}
TEST(IntegerProducts, RandomConvolutionsLikeTheWrittenProgram) {
  expect_like_written(random_cases(60), random_convolution, "s.b_type = ", 99);
}

TEST(IntegerProducts, RandomWeightsLikeTheWrittenProgram) {
  expect_like_written(random_cases(40), random_weights, "s.b_type = ", 99);
}

}  // namespace
}  // namespace braid::test
