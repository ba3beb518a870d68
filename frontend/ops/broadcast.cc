#include "frontend/ops/broadcast.h"

#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

std::string list_of(const std::vector<Expr>& sizes) {
  std::vector<std::string> texts;
  for (const Expr& s : sizes) texts.push_back(to_string(s));
  return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace

void require_broadcast_to_first(OpContext& c, int k) {
  const std::vector<Expr>&sizes = c.sizes(0), &own = c.sizes(k);
  const auto fail = [&] {
    c.fail(errors::kShapeMismatch, fmt::format("input {} of sizes [{}] cannot be broadcast to [{}]", k,
                                               list_of(own), list_of(sizes)));
  };
  if (own.size() > sizes.size()) fail();
  for (std::size_t d = 0; d < own.size(); ++d) {
    const Expr size = sizes[d + sizes.size() - own.size()];
    if (own[d].is_constant(1) || own[d] == size) continue;
    if (own[d].is_constant() && size.is_constant()) fail();
    c.lowering().require_equal(own[d], size);
  }
}

TensorBox per_channel(OpContext& c, int k) {
  const int rank = c.rank(0);
  const Expr channels = rank < 2 ? Expr(1) : c.size(0, 1);
  const bool fits =
      c.rank(k) == 1 && (!c.size(k, 0).is_constant() || !channels.is_constant() || c.size(k, 0) == channels);
  if (!fits) {
    c.fail(errors::kShapeMismatch,
           fmt::format("input {} has the sizes [{}], expected [{}]: one number per channel", k,
                       list_of(c.sizes(k)), to_string(channels)));
  }
  c.lowering().require_equal(c.size(k, 0), channels);
  TensorBox x = c.input(k);
  for (int axis = 2; axis < rank; ++axis) x = c.lowering().unsqueeze(x, axis - 1);
  return x;
}

}  // namespace braid::frontend
