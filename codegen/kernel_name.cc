#include "codegen/kernel_name.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string_view>

namespace braid::codegen {

using namespace ir;

namespace {

using Words = std::vector<std::string_view>;

// Values from which a checked index is computed: all of them are named "gather".
std::vector<bool> index_values(const LoopBody& body) {
  std::vector<bool> out(body.instrs.size(), false);
  for (std::size_t k = body.instrs.size(); k-- > 0;) {
    if (!out[k] && body.instrs[k].code != OpCode::check_index) continue;
    for (ValueId v : body.instrs[k].operands) out[static_cast<std::size_t>(v.index)] = true;
  }
  return out;
}

void add_words(const Loops& loops, Words& words) {
  const std::vector<bool> index = index_values(loops.body);
  for (std::size_t k = 0; k < loops.body.instrs.size(); ++k) {
    const OpCode code = loops.body.instrs[k].code;
    if (code == OpCode::load || code == OpCode::constant || code == OpCode::index || code == OpCode::cast ||
        code == OpCode::bitcast || index[k])
      continue;
    words.push_back(code == OpCode::check_index ? "gather" : to_string(code));
  }
  if (loops.is_reduction()) words.push_back(to_string(loops.reduce));
}

// A known sequence of steps; others may come between them.
struct Known {
  std::string_view name;
  Words steps;
};
const Known kKnown[] = {
    {"softmax", {"max", "sub", "exp", "sum", "div"}},
    {"layer_norm", {"sum", "sub", "mul", "sum", "rsqrt", "mul"}},
    {"layer_norm", {"sum", "sub", "mul", "sum", "sqrt", "div"}},
    {"rms_norm", {"mul", "sum", "rsqrt", "mul"}},
    {"rms_norm", {"mul", "sum", "sqrt", "div"}},
};

// Where the known steps begin; nullopt if one is missing.
std::optional<std::size_t> first_of(const Words& steps, const Words& words) {
  std::size_t found = 0, first = 0;
  for (std::size_t k = 0; k < words.size() && found < steps.size(); ++k) {
    if (words[k] != steps[found]) continue;
    if (found++ == 0) first = k;
  }
  return found == steps.size() ? std::optional(first) : std::nullopt;
}

}  // namespace

std::string kernel_name(const Graph& graph, const std::vector<OpId>& ops) {
  constexpr std::size_t kMost = 5;
  Words words, out;
  for (OpId op : ops) add_words(*graph[op].as<Loops>(), words);
  std::string_view last;
  for (const Known& known : kKnown) {
    const std::optional<std::size_t> first = first_of(known.steps, words);
    if (!first) continue;
    words.resize(*first);
    last = known.name;
    break;
  }
  for (std::string_view word : words) {
    if (out.size() < kMost && std::find(out.begin(), out.end(), word) == out.end()) out.push_back(word);
  }
  if (!last.empty()) out.push_back(last);
  return out.empty() ? "copy" : fmt::format("{}", fmt::join(out, "_"));
}

}  // namespace braid::codegen
