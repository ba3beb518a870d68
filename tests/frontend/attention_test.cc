// Attention in models: the operator, and its spelled-out form. Both become the same operation, whatever
// names, order and Identities the latter is written with.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "ir/element.h"
#include "ir/error_numbers.h"
#include "ir/interpreter.h"
#include "ir/printer.h"
#include "ir/scalar.h"
#include "tests/frontend/models.h"
#include "tests/support/random.h"
#include "tests/support/random_tensors.h"

namespace braid::frontend {
namespace {

using ::testing::HasSubstr;

int count_attention(const ir::Schedule& schedule) {
  int n = 0;
  for (const ir::Operation& op : schedule.graph.ops) n += op.as<ir::Attention>() != nullptr;
  return n;
}
const ir::Attention& attention_of(const ir::Schedule& schedule) {
  for (const ir::Operation& op : schedule.graph.ops) {
    if (const auto* k = op.as<ir::Attention>()) return *k;
  }
  throw std::runtime_error("no attention in\n" + ir::print(schedule));
}

std::vector<double> numbers(const ir::Tensor& t) {
  std::vector<double> out;
  for (std::int64_t k = 0; k < t.numel(); ++k)
    out.push_back(ir::to_scalar(ir::read_element(t.dtype, t.bytes.data() + k * ir::size_of(t.dtype))).d);
  return out;
}

// A model as a list of nodes that may be written in any order in which producers stand before readers.
class Nodes {
 public:
  explicit Nodes(std::uint64_t seed) : random_(seed) {}
  bool flip() { return below(2) == 0; }
  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }

  std::string add(const std::string& op, std::vector<std::string> inputs,
                  const std::string& attributes = {}) {
    const std::string out = fresh();
    add_as(out, op, std::move(inputs), attributes);
    return out;
  }
  void add_as(const std::string& out, const std::string& op, std::vector<std::string> inputs,
              const std::string& attributes = {}) {
    std::string text = out + " = " + op;
    if (!attributes.empty()) text += " <" + attributes + ">";
    text += " (";
    for (std::size_t k = 0; k < inputs.size(); ++k) text += (k ? ", " : "") + inputs[k];
    nodes_.push_back({out, std::move(inputs), text + ")"});
  }
  // Adds an Identity at times.
  std::string maybe_copy(const std::string& x) { return below(4) == 0 ? add("Identity", {x}) : x; }
  std::string commuting(const std::string& op, const std::string& x, const std::string& y) {
    return flip() ? add(op, {x, y}) : add(op, {y, x});
  }
  std::string scalar(double value, bool half) {
    const std::string c = add("Constant", {}, "value = float {" + std::to_string(value) + "}");
    return half ? add("Cast", {c}, "to = 10") : c;
  }
  std::string ints(const std::string& values) {
    const auto count = std::count(values.begin(), values.end(), ',') + 1;
    return add("Constant", {}, "value = int64[" + std::to_string(count) + "] {" + values + "}");
  }

  // In a random order.
  std::string text() {
    std::vector<Node> left = nodes_;
    std::string out;
    while (!left.empty()) {
      std::vector<std::size_t> ready;
      for (std::size_t k = 0; k < left.size(); ++k) {
        const bool waits =
            std::any_of(left[k].inputs.begin(), left[k].inputs.end(), [&](const std::string& in) {
              return std::any_of(left.begin(), left.end(), [&](const Node& n) { return n.out == in; });
            });
        if (!waits) ready.push_back(k);
      }
      const std::size_t k = ready[static_cast<std::size_t>(below(static_cast<int>(ready.size())))];
      out += left[k].text + " ";
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(k));
    }
    return out;
  }

 private:
  struct Node {
    std::string out;
    std::vector<std::string> inputs;
    std::string text;
  };
  std::string fresh() { return "v" + std::to_string(random_() % 1000) + "_" + std::to_string(count_++); }

  std::mt19937_64 random_;
  std::vector<Node> nodes_;
  int count_ = 0;
};

struct Spelled {
  std::string head, body;     // "g (inputs) => (outputs", "{ nodes }"
  std::string scores_output;  // a further output, which reads the weights
  ImportOptions options;
  std::map<std::string, std::int64_t> dims;
  bool half = false;

  std::string model(bool with_weights) const {
    return head + (with_weights ? ", " + scores_output : "") + ") { " + body + " }";
  }
};

Spelled spelled_out(std::uint64_t seed) {
  Nodes n(seed);
  Spelled s;
  s.half = n.below(4) == 0;
  const std::string type = s.half ? "float16" : "float";
  const bool flat = n.below(5) == 0;  // rank 3: [batch * heads, positions, size]
  const int copies = !flat && n.below(3) == 0 ? 2 : 1, key_heads = 1 + n.below(2), heads = copies * key_heads;
  const int depth = 1 + n.below(6), width = 1 + n.below(6);
  const bool dynamic = n.flip();
  const std::string queries = dynamic ? "q" : "3", keys = dynamic ? "k" : "5";
  if (dynamic) {
    s.options.dims = {{"q", {1, 4}}, {"k", {1, 6}}};
    s.dims = {{"q", 1 + n.below(4)}, {"k", 1 + n.below(6)}};
  }
  const auto sizes = [&](int h, const std::string& positions, int size, bool heads_last) {
    const std::string hs = std::to_string(h), d = std::to_string(size);
    if (flat) return "[2, " + positions + ", " + d + "]";
    return heads_last ? "[2, " + positions + ", " + hs + ", " + d + "]"
                      : "[2, " + hs + ", " + positions + ", " + d + "]";
  };
  s.head = "g (";
  const auto input = [&](const std::string& name, int h, const std::string& positions, int size) {
    const bool heads_last = !flat && n.flip();
    s.head += type + sizes(h, positions, size, heads_last) + " " + name + ", ";
    return n.maybe_copy(heads_last ? n.add("Transpose", {name}, "perm = [0, 2, 1, 3]") : name);
  };
  std::string q = input("a", heads, queries, depth), k = input("b", key_heads, keys, depth),
              v = input("c", key_heads, keys, width);
  const auto repeat = [&](const std::string& x, int size) {
    if (copies == 1) return x;
    const std::string five = n.add("Unsqueeze", {x, n.ints("2")});
    const std::string expanded =
        n.flip() ? n.add("Expand", {five, n.ints("1, 1, " + std::to_string(copies) + ", 1, 1")})
                 : n.add("Tile", {five, n.ints("1, 1, " + std::to_string(copies) + ", 1, 1")});
    return n.add("Reshape",
                 {expanded, n.ints("2, " + std::to_string(heads) + ", -1, " + std::to_string(size))});
  };
  k = repeat(k, depth);
  v = repeat(v, width);
  const int scale = n.below(5);  // where it is
  if (scale == 1) {
    q = n.commuting("Mul", q, n.scalar(0.75, s.half));
    k = n.add("Div", {k, n.scalar(1.25, s.half)});
  }
  k = n.add("Transpose", {k}, flat ? "perm = [0, 2, 1]" : "perm = [0, 1, 3, 2]");
  if (scale == 2) k = n.commuting("Mul", k, n.scalar(0.5, s.half));
  std::string x = n.add("MatMul", {q, k});
  if (scale == 3) x = n.commuting("Mul", n.maybe_copy(x), n.scalar(0.625, s.half));
  if (scale == 4) x = n.add("Div", {n.maybe_copy(x), n.scalar(2.5, s.half)});
  const bool wide = s.half && n.flip();  // scores in f32
  if (wide) x = n.add("Cast", {x}, "to = 1");
  const bool half_scores = s.half && !wide;
  if (n.below(4) == 0) {
    x = n.add("Tanh", {n.add("Div", {x, n.scalar(2, half_scores)})});
    x = n.commuting("Mul", n.maybe_copy(x), n.scalar(2, half_scores));
  }
  const std::string batch = n.flip() ? "2" : "1", rows = n.flip() ? queries : "1";
  const std::string mask_sizes =
      flat ? "[" + batch + ", " + rows + ", " + keys + "]" : "[" + batch + ", 1, " + rows + ", " + keys + "]";
  const int mask = n.below(4);
  if (mask == 1 && n.flip()) {
    s.head += "bool" + mask_sizes + " m, ";
    const std::string zero = n.scalar(0, half_scores), hidden = n.add("Log", {zero});
    x = n.commuting("Add", x,
                    n.flip() ? n.add("Where", {"m", zero, hidden}) : n.add("Where", {"m", hidden, zero}));
  } else if (mask == 1) {
    s.head += (half_scores ? "float16" : "float") + mask_sizes + " m, ";
    x = n.commuting("Add", x, n.maybe_copy("m"));
  } else if (mask > 1) {
    s.head += "bool" + mask_sizes + " m, ";
    const bool finite = n.flip();
    std::string fill = n.scalar(finite ? -10000 : 1, half_scores);
    if (!finite) fill = n.add("Log", {n.scalar(0, half_scores)});  // -inf
    x = mask == 2 ? n.add("Where", {"m", x, fill}) : n.add("Where", {"m", fill, x});
  }
  const int softmax_axis = n.flip() ? -1 : flat ? 2 : 3;
  std::string w = n.add("Softmax", {n.maybe_copy(x)}, "axis = " + std::to_string(softmax_axis));
  // Zeros instead of NaN, wherever these come from: masked rows or operands.
  if (n.flip()) w = n.add("Where", {n.add("IsNaN", {w}), n.scalar(0, half_scores), w});
  if (wide) w = n.add("Cast", {w}, "to = 10");
  s.head.erase(s.head.size() - 2);
  n.add_as("y", "MatMul", {n.maybe_copy(w), v});
  n.add_as("weights", "Identity", {w});
  // Sizes are inferred.
  s.head += ") => (" + type + (flat ? "[y0, y1, y2] y" : "[y0, y1, y2, y3] y");
  s.scores_output = type + (flat ? "[w0, w1, w2] weights" : "[w0, w1, w2, w3] weights");
  s.body = n.text();
  return s;
}

// Some elements of the operands become infinite or NaN.
void poison(std::vector<ir::Tensor>& inputs, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const double values[] = {std::nan(""), HUGE_VAL, -HUGE_VAL};
  for (ir::Tensor& t : inputs) {
    if (!ir::is_float(t.dtype) || random() % 3 != 0) continue;
    const auto at = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(t.numel()));
    ir::write_element(t.dtype, t.bytes.data() + at * ir::size_of(t.dtype), values[random() % 3]);
  }
}

TEST(SpelledOutAttention, IsFoundByItsStructure) {
  for (int k = 0; k < test::random_cases(200); ++k) {
    const std::uint64_t seed = test::first_seed() + static_cast<std::uint64_t>(k);
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Spelled s = spelled_out(seed);
    SCOPED_TRACE(s.model(false));
    const ir::Schedule found = import_text(s.model(false), s.options);
    ASSERT_EQ(count_attention(found), 1);
    // Weights that have another reader are computed as written.
    const ir::Schedule written = import_text(s.model(true), s.options);
    ASSERT_EQ(count_attention(written), 0);
    std::vector<std::vector<ir::Tensor>> inputs = {test::random_inputs(found.graph, s.dims, seed)};
    if (k % 2 == 0) poison(inputs[0], seed);
    const std::vector<double> got = numbers(ir::run(found, inputs).outputs[0][0]),
                              want = numbers(ir::run(written, inputs).outputs[0][0]);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (std::isnan(got[i]) && std::isnan(want[i])) continue;
      if (got[i] == want[i]) continue;  // infinities
      ASSERT_NEAR(got[i], want[i], (s.half ? 6e-3 : 1e-5) * std::max(1.0, std::abs(want[i])));
    }
  }
}

// The product of one attention is the scores of the next: each node is in one of them.
TEST(SpelledOutAttention, ResultsMayBeScores) {
  std::string nodes;
  for (int k = 0; k < 4; ++k)
    nodes += fmt::format("w{0} = Softmax <axis = -1> (s{0}) s{1} = MatMul(w{0}, k) ", k, k + 1);
  const auto model = [&](const char* outputs) {
    return fmt::format(
        "g (float[2, 3, 5, 5] q, float[2, 3, 5, 5] k) => (float[2, 3, 5, 5] s4{}) {{ s0 = MatMul(q, k) {} }}",
        outputs, nodes);
  };
  const ir::Schedule found = import_text(model(""));
  EXPECT_EQ(count_attention(found), 2);
  const ir::Schedule written = import_text(
      model(", float[2, 3, 5, 5] w0, float[2, 3, 5, 5] w1, float[2, 3, 5, 5] w2, float[2, 3, 5, 5] w3"));
  ASSERT_EQ(count_attention(written), 0);
  const std::vector<std::vector<ir::Tensor>> inputs = {test::random_inputs(found.graph, {}, 1)};
  const std::vector<double> got = numbers(ir::run(found, inputs).outputs[0][0]),
                            want = numbers(ir::run(written, inputs).outputs[0][0]);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-5);
}

// Heads that Expand repeats are read once, and transposed operands where they lie.
TEST(SpelledOutAttention, ReadsOperandsInPlace) {
  const ir::Schedule schedule = import_text(
      "g (float[1, 7, 4, 8] q, float[1, 2, 7, 8] k, float[1, 2, 7, 8] v) => (float[1, 7, 32] y) {"
      " qt = Transpose <perm = [0, 2, 1, 3]> (q) two = Constant <value = int64[1] {2}> ()"
      " wanted = Constant <value = int64[5] {1, 2, 2, 7, 8}> () four = Constant <value = int64[4] {1, 4, 7, "
      "8}> ()"
      " k5 = Unsqueeze(k, two) ke = Expand(k5, wanted) kr = Reshape(ke, four) kt = Transpose <perm = [0, 1, "
      "3, 2]> (kr)"
      " v5 = Unsqueeze(v, two) ve = Expand(v5, wanted) vr = Reshape(ve, four)"
      " s = MatMul(qt, kt) w = Softmax <axis = -1> (s) o = MatMul(w, vr)"
      " ot = Transpose <perm = [0, 2, 1, 3]> (o) shape = Constant <value = int64[3] {1, 7, 32}> () y = "
      "Reshape(ot, shape) }");
  const ir::Attention& k = attention_of(schedule);
  EXPECT_EQ(schedule.graph[k.query.buffer].name, "q");
  EXPECT_EQ(schedule.graph[k.key.buffer].name, "k");
  EXPECT_EQ(schedule.graph[k.value.buffer].name, "v");
  EXPECT_TRUE(k.key.sizes[1].is_constant(2));
  // The result lies as the transposition wants it.
  EXPECT_TRUE(k.out.strides[1].is_constant(8));
  EXPECT_TRUE(k.out.strides[2].is_constant(32));
}

struct Other {
  const char* what;
  std::string text;
};

TEST(SpelledOutAttention, SomethingElseStaysAsItIs) {
  const std::string head =
      "g (float[2, 3, 4, 8] q, float[2, 3, 8, 5] k, float[2, 3, 5, 6] v, float[2, 3, 4, 5] m) => ";
  const Other cases[] = {
      {"softmax over queries",
       head + "(float[2, 3, 4, 6] y) { s = MatMul(q, k) w = Softmax <axis = 2> (s) y = MatMul(w, v) }"},
      {"scores are an output", head + "(float[2, 3, 4, 6] y, float[2, 3, 4, 5] s) { s = MatMul(q, k) w = "
                                      "Softmax <axis = 3> (s) y = MatMul(w, v) }"},
      {"scores have another reader", head + "(float[2, 3, 4, 6] y, float[2, 3, 4, 5] z) { s = MatMul(q, k) z "
                                            "= Neg(s) w = Softmax <axis = 3> (s) y = "
                                            "MatMul(w, v) }"},
      {"scaled after the mask", head + "(float[2, 3, 4, 6] y) { c = Constant <value = float {0.5}> () s = "
                                       "MatMul(q, k) a = Add(s, m) b = Mul(a, c) w "
                                       "= Softmax <axis = 3> (b) y = MatMul(w, v) }"},
      {"scores times a tensor", head + "(float[2, 3, 4, 6] y) { s = MatMul(q, k) a = Mul(s, m) w = Softmax "
                                       "<axis = 3> (a) y = MatMul(w, v) }"},
      {"weights times a tensor", head + "(float[2, 3, 4, 6] y) { s = MatMul(q, k) w = Softmax <axis = 3> (s) "
                                        "x = Mul(w, m) y = MatMul(x, v) }"},
      {"a tanh without its factor", head + "(float[2, 3, 4, 6] y) { s = MatMul(q, k) a = Tanh(s) w = Softmax "
                                           "<axis = 3> (a) y = MatMul(w, v) }"},
      {"one value for all batches",
       "g (float[2, 3, 4, 8] q, float[2, 3, 8, 5] k, float[1, 3, 5, 6] v) => (float[2, 3, 4, 6] y) { s = "
       "MatMul(q, k) w = "
       "Softmax <axis = 3> (s) y = MatMul(w, v) }"},
      {"a matrix for all heads",
       "g (float[2, 3, 4, 8] q, float[2, 3, 8, 5] k, float[5, 6] v) => (float[2, 3, 4, 6] y) { s = MatMul(q, "
       "k) w = Softmax "
       "<axis = 3> (s) y = MatMul(w, v) }"},
      {"a mask that adds a dimension",
       "g (float[2, 3, 4, 8] q, float[2, 3, 8, 5] k, float[2, 3, 5, 6] v, float[2, 1, 1, 1, 1] n) => "
       "(float[2, 2, 3, 4, 6] y) "
       "{ s = MatMul(q, k) a = Add(s, n) w = Softmax <axis = -1> (a) y = MatMul(w, v) }"},
      {"a mask that repeats scores",
       "g (float[1, 3, 4, 8] q, float[1, 3, 8, 5] k, float[2, 3, 5, 6] v, float[2, 1, 1, 1] n) => (float[2, "
       "3, 4, 6] y) "
       "{ s = MatMul(q, k) a = Add(s, n) w = Softmax <axis = -1> (a) y = MatMul(w, v) }"},
  };
  for (const Other& c : cases) {
    SCOPED_TRACE(c.what);
    EXPECT_EQ(count_attention(import_text(c.text)), 0);
  }
}

// One key head for all heads of the query, by broadcasting.
TEST(SpelledOutAttention, OneKeyHeadMayServeAll) {
  const ir::Schedule schedule = import_text(
      "g (float[2, 3, 4, 8] q, float[2, 1, 8, 5] k, float[2, 1, 5, 6] v) => (float[2, 3, 4, 6] y) { s = "
      "MatMul(q, k) w = "
      "Softmax <axis = 3> (s) y = MatMul(w, v) }");
  EXPECT_TRUE(attention_of(schedule).key.sizes[1].is_constant(1));
}

TEST(AttentionOperator, CausalWithACacheAttendsToThePast) {
  // Queries of 0: the mean of the values attended to.
  const ir::Schedule schedule = import_text(
      "g (float[1, 1, 2, 1] q, float[1, 1, 2, 1] k, float[1, 1, 2, 1] v, float[1, 1, past, 1] pk, float[1, "
      "1, past, 1] pv) "
      "=> (float[1, 1, 2, 1] y, float[1, 1, n, 1] nk, float[1, 1, n, 1] nv) { y, nk, nv = Attention "
      "<is_causal = 1> (q, k, "
      "v, , pk, pv) }",
      {.dims = {{"past", {0, 4}}}}, 23);
  EXPECT_EQ(count_attention(schedule), 1);
  const auto f = [](std::vector<std::int64_t> sizes, const std::vector<float>& x) {
    return ir::make_tensor(ir::DType::f32, std::move(sizes), x);
  };
  const std::vector<std::vector<ir::Tensor>> inputs = {{f({1, 1, 2, 1}, {0, 0}), f({1, 1, 2, 1}, {1, 1}),
                                                        f({1, 1, 2, 1}, {6, 10}), f({1, 1, 1, 1}, {1}),
                                                        f({1, 1, 1, 1}, {2})}};
  const auto out = ir::run(schedule, inputs).outputs[0];
  EXPECT_THAT(out[0].values<float>(), ::testing::ElementsAre(4, 6));
  EXPECT_THAT(out[2].values<float>(), ::testing::ElementsAre(2, 6, 10));
}

TEST(AttentionOperator, WhatDoesNotFitNamesTheNode) {
  const auto error = [](const std::string& inputs, const std::string& call, int opset = 24) {
    return error_of([&] {
      import_text("g (" + inputs + ") => (float[" +
                      (call.find("q_num_heads") == std::string::npos ? "y0, " : "") +
                      std::string("y1, y2, y3] y) { y = Attention ") + call + " }",
                  {}, opset);
    });
  };
  const std::string q = "float[1, 4, 3, 2] q, float[1, 2, 5, 2] k, float[1, 2, 5, 6] v";
  const auto code = [&](const ir::UserError& e) {
    EXPECT_THAT(e.what(), HasSubstr("Attention"));
    return e.code();
  };
  EXPECT_EQ(code(error("float[1, 3, 3, 2] q, float[1, 2, 5, 2] k, float[1, 2, 5, 6] v", "(q, k, v)")),
            errors::kShapeMismatch);
  EXPECT_EQ(code(error(q + ", float[2, 1, 3, 5] m", "(q, k, v, m)")), errors::kShapeMismatch);
  EXPECT_EQ(code(error(q + ", float[1, 1, 3, 6] m", "(q, k, v, m)")), errors::kShapeMismatch);
  EXPECT_EQ(code(error(q + ", int32[1, 1, 3, 5] m", "(q, k, v, m)")), errors::kTypeMismatch);
  EXPECT_EQ(code(error(q, "<qk_matmul_output_mode = 4> (q, k, v)")), errors::kInvalidAttribute);
  EXPECT_EQ(code(error("float[1, 3, 8] q, float[1, 5, 4] k, float[1, 5, 6] v",
                       "<q_num_heads = 3, kv_num_heads = 2> (q, k, v)")),
            errors::kShapeMismatch);
  EXPECT_EQ(code(error(q + ", int64[2] n", "(q, k, v, , , , n)")), errors::kShapeMismatch);
}

}  // namespace
}  // namespace braid::frontend
