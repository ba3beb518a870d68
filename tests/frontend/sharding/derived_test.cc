// Rules against the index expressions of the loops that operators are lowered to: a letter that passes is
// carried from the input's dimension to the output's, and one that leaves pending results is folded.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "frontend/schemas.h"
#include "frontend/sharding/onnx_graph.h"
#include "frontend/sharding/split.h"
#include "tests/frontend/models.h"
#include "tests/frontend/sharding/replaced_rule.h"
#include "tests/frontend/sharding/rule_cases.h"
#include "tests/frontend/sharding/trace.h"
#include "tests/support/random.h"

namespace braid::frontend::sharding {
namespace {

using Sizes = std::vector<std::int64_t>;

struct Operand {
  std::string name;
  Sizes sizes;
  bool constant = false;
};

// The node of a case: its letters, with operands by number.
struct Subject {
  Factors factors;
  std::map<int, Operand> inputs, outputs;
  bool has_inner = false;
};

Subject subject_of(const ProofCase& c, const std::string& path) {
  Subject s;
  auto request = std::make_shared<SplitRequest>();
  request->choose = [&](const Graph& graph, const Mesh& mesh) {
    for (const GraphNode& node : graph.nodes) {
      if (node.compile_time || node.op != c.op) continue;
      s.factors = node.factors;
      s.has_inner = rule_of(node).inner != nullptr;
      const auto note = [&](const std::vector<ValueId>& values, std::map<int, Operand>& to, bool outputs) {
        for (int k = 0; k < count_of(values); ++k) {
          if (!values[k].valid()) continue;
          const GraphValue& v = graph.values[values[k]];
          if (outputs && v.readers.empty()) continue;
          Operand& o = to[k];
          o.name = v.name;
          o.constant = !outputs && !v.graph_input;
          for (const ir::Expr& size : v.sizes) o.sizes.push_back(size.is_constant() ? size.constant() : -1);
        }
      };
      note(node.inputs, s.inputs, false);
      note(node.outputs, s.outputs, true);
    }
    return MeshPlan(mesh);
  };
  ImportOptions options;
  options.ranks = 2;
  options.split = request;
  import_model(path, options);
  return s;
}

// For each element: the part of the letter that it is in, as a mark.
std::vector<Marks> parts_of(const Letter& letter, const Occurrence& at, const Sizes& sizes, int parts) {
  std::vector<Marks> of_place;
  for (const std::int64_t inner : at.segments) {
    for (std::int64_t k = 0; k < letter.size * inner; ++k)
      of_place.push_back(Marks{1} << (k / inner * parts / letter.size));
  }
  std::vector<Marks> result;
  std::int64_t outer = 1, inside = 1;
  for (int d = 0; d < static_cast<int>(sizes.size()); ++d) {
    if (d != at.dim) (d < at.dim ? outer : inside) *= sizes[static_cast<std::size_t>(d)];
  }
  for (std::int64_t o = 0; o < outer; ++o) {
    for (const Marks mark : of_place) result.insert(result.end(), static_cast<std::size_t>(inside), mark);
  }
  return result;
}

bool is_known(const Sizes& sizes) {
  return std::none_of(sizes.begin(), sizes.end(), [](std::int64_t s) { return s < 0; });
}

struct Verdict {
  std::string wrong;    // empty: the loops agree
  bool opaque = false;  // the loops do not say
};

Verdict check(const Subject& s, const Letter& letter, const ir::Graph& whole, std::string& opaque) {
  constexpr int kParts = 2;
  std::map<std::string, std::vector<Marks>> marks;
  for (const Occurrence& at : letter.at) {
    const auto operand = s.inputs.find(at.index);
    if (at.output || operand == s.inputs.end() || operand->second.constant) continue;
    if (!is_known(operand->second.sizes)) return {"", true};
    if (marks.count(operand->second.name) > 0) return {"", true};  // two dimensions of one tensor
    marks[operand->second.name] = parts_of(letter, at, operand->second.sizes, kParts);
  }
  const TraceResult traced = trace(whole, marks);
  if (!traced.opaque.empty()) {
    opaque = traced.opaque;
    return {"", true};
  }
  bool carried = true, folded = false;
  for (const auto& [k, output] : s.outputs) {
    if (traced.outputs.count(output.name) == 0) return {"", true};  // another node reads it
    const std::vector<Marks>& found = traced.outputs.at(output.name);
    const Occurrence* at = nullptr;
    for (const Occurrence& o : letter.at) {
      if (o.output && o.index == k) at = &o;
    }
    if (at == nullptr) {
      for (const Marks m : found) folded |= (m & (m - 1)) != 0;
      continue;
    }
    if (!is_known(output.sizes)) return {"", true};
    const std::vector<Marks> expected = parts_of(letter, *at, output.sizes, kParts);
    if (expected.size() != found.size()) return {fmt::format("{} has another size", output.name), false};
    for (std::size_t e = 0; e < found.size(); ++e) carried &= (found[e] & ~expected[e]) == 0;
  }
  const bool in_all = std::all_of(s.outputs.begin(), s.outputs.end(), [&](const auto& output) {
    return std::any_of(letter.at.begin(), letter.at.end(),
                       [&](const Occurrence& o) { return o.output && o.index == output.first; });
  });
  const bool exchanges = s.has_inner && (!carried || folded);
  if (!carried && !exchanges) return {"an output reads other parts of the letter", false};
  if (!in_all && letter.reduce && !folded) return {"nothing is folded", false};
  if (!in_all && !letter.reduce && folded && !exchanges)
    return {"parts are folded into a whole output", false};
  return {};
}

// Sizes of 0 and opaque kernels leave a letter unchecked.
struct Counts {
  int checked = 0, opaque = 0;
  std::vector<std::string> wrong;
  std::map<std::string, int> opaque_kernels;
};

void check_case(const ProofCase& c, Counts& counts) {
  const TemporaryFolder folder;
  const std::string path = folder.write("model.onnx", parse_model(c.graph, c.opset));
  const Subject s = subject_of(c, path);
  const ir::Schedule whole = import_model(path, {});
  for (const Letter& letter : s.factors.letters) {
    if (letter.size % 2 != 0) continue;
    std::string opaque;
    const Verdict verdict = check(s, letter, whole.graph, opaque);
    ++(verdict.opaque ? counts.opaque : counts.checked);
    if (verdict.opaque && !opaque.empty()) ++counts.opaque_kernels[opaque];
    if (!verdict.wrong.empty())
      counts.wrong.push_back(fmt::format("{}: letter {}: {}", c.graph, letter.name, verdict.wrong));
  }
}

TEST(DerivedRules, LettersAgreeWithTheLoops) {
  Counts counts;
  // One in four cases; all of them in the deep tier.
  const std::size_t every = test::random_cases(1) > 1 ? 1 : 4;
  const std::vector<ProofCase> cases = rule_cases();
  for (std::size_t k = 0; k < cases.size(); k += every) check_case(cases[k], counts);
  for (const std::string& wrong : counts.wrong) ADD_FAILURE() << wrong;
  std::string kernels;
  for (const auto& [name, count] : counts.opaque_kernels) kernels += fmt::format(" {} ({})", name, count);
  fmt::print("{} letters checked; {} not followed:{}\n", counts.checked, counts.opaque, kernels);
  EXPECT_GT(counts.checked, every == 1 ? 700 : 150);
  EXPECT_LT(counts.opaque * 5, counts.checked);
}

// Letters that are wrong: transposed results, a normalised dimension that passes, a sum that is none.
TEST(DerivedRules, WrongLettersAreFound) {
  struct Wrong {
    const char* op;
    const char* graph;
    Factors (*factors)(const NodeView&, const Rule&);
    int opset = 18;
  };
  const Wrong wrong[] = {
      {"Transpose", "g (float[12, 12] x) => (float[12, 12] y) { y = Transpose(x) }",
       [](const NodeView& node, const Rule&) {
         return Factors{broadcast_letters(node, {0}), {}};
       }},
      {"LayerNormalization",
       "g (float[12, 12] x, float[12] s) => (float[12, 12] y) { y = LayerNormalization(x, s) }",
       [](const NodeView& node, const Rule&) {
         return Factors{broadcast_letters(node, {0, 1}), {}};
       }},
      {"Softmax", "g (float[12, 12] x) => (float[12, 12] y) { y = Softmax(x) }",
       [](const NodeView& node, const Rule&) {
         return Factors{broadcast_letters(node, {0}), {}};
       }},
      {"Concat", "g (float[12, 6] x, float[12, 6] w) => (float[12, 12] y) { y = Concat <axis = 1> (x, w) }",
       [](const NodeView&, const Rule&) {
         Letter letter = *letter_of(6, "unblocked");
         letter.at = {in(0, 1), in(1, 1), out(0, 1, {2})};
         return Factors{{letter}, {}};
       }},
      {"ReduceSum",
       "g (float[12, 6] x) => (float[12, 1] y) { a = Constant <value = int64[1] {1}> () y = ReduceSum(x, a) "
       "}",
       [](const NodeView&, const Rule&) {
         Letter letter = *letter_of(12, "kept");
         letter.at = {in(0, 0)};
         letter.reduce = ir::ReduceKind::sum;
         return Factors{{letter}, {}};
       }},
      {"Conv", "g (float[1, 12, 6] x, float[12, 12, 3] w) => (float[1, 12, 4] y) { y = Conv(x, w) }",
       [](const NodeView&, const Rule&) {
         Letter letter = *letter_of(12, "channels of the input");
         letter.at = {in(0, 1), out(0, 1)};
         return Factors{{letter}, {}};
       }},
  };
  for (const Wrong& w : wrong) {
    const ReplacedRule replaced("", w.op, [&](Rule& rule) { rule = Rule(w.factors); });
    Counts counts;
    check_case({w.op, w.graph, w.opset}, counts);
    EXPECT_FALSE(counts.wrong.empty()) << w.graph;
  }
}

}  // namespace
}  // namespace braid::frontend::sharding
