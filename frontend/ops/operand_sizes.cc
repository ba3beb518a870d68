#include "frontend/ops/operand_sizes.h"

#include <algorithm>

#include "ir/error_numbers.h"

namespace braid::frontend {

std::string text_of_sizes(const std::vector<Expr>& sizes) {
  std::vector<std::string> texts;
  for (const Expr& s : sizes) texts.push_back(to_string(s));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

void require_sizes(OpContext& c, int k, const std::vector<Expr>& expected, const char* layout) {
  const std::vector<Expr>& sizes = c.sizes(k);
  bool fits = sizes.size() == expected.size();
  for (std::size_t d = 0; fits && d < sizes.size(); ++d)
    fits = !sizes[d].is_constant() || !expected[d].is_constant() || sizes[d] == expected[d];
  if (!fits) {
    c.fail(errors::kShapeMismatch, fmt::format("input {} has the sizes {}, expected {}: {}", k,
                                               text_of_sizes(sizes), text_of_sizes(expected), layout));
  }
  for (std::size_t d = 0; d < sizes.size(); ++d) c.lowering().require_equal(sizes[d], expected[d]);
}

TensorBox one_element(OpContext& c, int k, const char* what) {
  ir::Lowering& l = c.lowering();
  for (const Expr& size : c.sizes(k)) {
    if (size.is_constant() && !size.is_constant(1))
      c.fail(errors::kShapeMismatch, fmt::format("{} '{}' has a dimension of size {}, expected one element",
                                                 what, c.value(k).name, to_string(size)));
    l.require_equal(size, 1);
  }
  return l.view(c.input(k), {}, std::vector<Expr>(c.sizes(k).size(), 0));
}

void require_rank(OpContext& c, int k, std::initializer_list<int> ranks) {
  if (std::find(ranks.begin(), ranks.end(), c.rank(k)) != ranks.end()) return;
  c.fail(errors::kShapeMismatch,
         fmt::format("input {} has rank {}, expected {}", k, c.rank(k), fmt::join(ranks, " or ")));
}

std::int64_t known_size(OpContext& c, const Expr& size, const char* what) {
  if (!size.is_constant())
    c.fail(errors::kUnsupportedForm, fmt::format("{} is '{}', which must be known", what, to_string(size)));
  return size.constant();
}

}  // namespace braid::frontend
