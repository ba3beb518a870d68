#include "tests/support/random_attention.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "ir/lowering.h"
#include "tests/support/random_choice.h"

namespace braid::test {
namespace {

using namespace ir;

class Generator {
 public:
  Generator(std::uint64_t seed, DType dtype, bool large)
      : random_(seed), dtype_(dtype), large_(large), l_(graph_) {}

  RandomWindows make() {
    batch_ = size("b", 1, 3);
    key_heads_ = random_.from(1, 3);
    heads_ = key_heads_ * random_.from(1, random_.flip() ? 1 : 4);
    queries_ = large_ ? size("q", 1, 150) : size("q", 1, 7);
    keys_ = large_ ? size("k", 1, 700) : size("k", 1, 12);
    const int depth = large_ && random_.flip() ? 16 * random_.from(1, 4) : random_.from(1, 20);
    const int width = random_.flip()             ? depth
                      : large_ && random_.flip() ? 16 * random_.from(1, 4)
                                                 : random_.from(1, 20);
    Lowering::AttentionViews views;
    if (random_.below(4) == 0 && queries_ == keys_ && heads_ == key_heads_ && depth == width) {
      // Parts of one projection: [batch, positions, 3, heads, depth].
      const TensorBox all = input("qkv", dtype_, {batch_, keys_, 3, heads_, depth});
      const auto part = [&](int k) {
        return l_.permute(l_.squeeze(l_.slice(all, 2, k, 1), 2), {0, 2, 1, 3});
      };
      views.query = part(0), views.key = part(1), views.value = part(2);
    } else {
      views.query = tensor("query", heads_, queries_, depth);
      views.key = tensor("key", key_heads_, keys_, depth);
      views.value = tensor("value", key_heads_, keys_, width);
    }
    if (random_.below(6) == 0) {  // heads that a view repeats
      const std::int64_t copies = random_.from(2, 3);
      const auto repeated = [&](const TensorBox& x) {
        std::vector<Expr> sizes = x.sizes();
        sizes[1] = sizes[1] * copies;
        return l_.view(l_.realize(x), sizes,
                       {l_.pool().index(0), floor_div(l_.pool().index(1), copies), l_.pool().index(2),
                        l_.pool().index(3)});
      };
      if (key_heads_.constant() * copies == heads_.constant())
        views.key = repeated(views.key), views.value = repeated(views.value);
    }
    Attention k;
    if (random_.below(4) != 0) k.scale = 1 / std::sqrt(depth);
    if (random_.below(4) == 0) k.softcap = random_.from(1, 3);
    constexpr UndefinedRows kRows[] = {UndefinedRows::zero_if_masked, UndefinedRows::nan,
                                       UndefinedRows::zero};
    k.undefined = kRows[random_.below(3)];
    add_mask(k, views);
    if (random_.below(4) == 0) views.valid_keys = numbers("valid", keys_ + 2, 0);
    if (random_.below(2) == 0) add_limits(k, views);
    TensorBox y = l_.attention(std::move(k), std::move(views));
    if (random_.flip()) y = l_.reshape(l_.permute(y, {0, 2, 1, 3}), {batch_, queries_, heads_ * width});
    l_.output("y", y);
    RandomWindows out;
    out.schedule = finished(l_, graph_);
    out.dims = dims_;
    return out;
  }

 private:
  Expr size(const char* name, int low, int high) {
    if (random_.flip()) return random_.from(low, high);
    dims_[name] = random_.from(low, high);
    const Expr dim = graph_.add_dim(name, {low, high});
    input(std::string(name) + "_extent", DType::u8,
          {dim});  // programs find dimensions in inputs that have them as a size
    return dim;
  }
  TensorBox input(const std::string& name, DType dtype, std::vector<Expr> sizes) {
    return l_.input(name, dtype, std::move(sizes));
  }

  // [batch, heads, positions, depth] in some layout; a cache may have room for more positions.
  TensorBox tensor(const char* name, const Expr& heads, const Expr& positions, const Expr& depth) {
    switch (random_.below(5)) {
      case 0:
        return l_.permute(input(name, dtype_, {batch_, positions, heads, depth}), {0, 2, 1, 3});
      case 1:
        return l_.permute(input(name, dtype_, {batch_, heads, depth, positions}), {0, 1, 3, 2});
      case 2:
        return l_.slice(
            input(name, dtype_, {batch_, heads, bounds(positions).max + random_.from(0, 9), depth}), 2, 0,
            positions);
      case 3:  // not an input: computed before
        return halved(input(name, dtype_, {batch_, heads, positions, depth}),
                      name != std::string_view("value"));
      default:
        return input(name, dtype_, {batch_, heads, positions, depth});
    }
  }

  // Halves x, whose elements are in [-2, 2]. With `any_number`, some results are infinite or NaN at times.
  // Values may not be: those outside of the limits may be read or not.
  TensorBox halved(const TensorBox& x, bool any_number) {
    const double special =
        random_.flip() ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
    const bool poisoned = any_number && random_.below(3) == 0;
    return l_.pointwise({x}, [&](BodyBuilder& b, std::span<const ValueId> v) {
      const ValueId half = b.binary(OpCode::mul, v[0], b.constant_of(dtype_, 0.5));
      if (!poisoned) return half;
      return b.where(b.binary(OpCode::gt, v[0], b.constant_of(dtype_, 1.95)), b.constant_of(dtype_, special),
                     half);
    });
  }

  void add_mask(Attention& k, Lowering::AttentionViews& views) {
    const int kind = random_.below(5);
    if (kind > 2) return;
    std::vector<Expr> sizes = {batch_, heads_, queries_, keys_};
    for (Expr& s : sizes) {
      if (random_.below(3) == 0) s = 1;
    }
    if (kind == 0) {
      views.mask = input("mask", DType::boolean, sizes);
      if (random_.below(3) == 0) k.fill = random_.flip() ? -1e4 : std::numeric_limits<float>::lowest();
      k.adds_fill = random_.flip();
      return;
    }
    const DType types[] = {dtype_, DType::f32, DType::f16};
    views.mask = input("mask", types[random_.below(3)], sizes);
    if (kind == 1) return;
    // Some elements hide a key.
    const DType type = views.mask.dtype();
    const double hidden = random_.flip() ? -std::numeric_limits<double>::infinity() : -1e4;
    views.mask = l_.pointwise({views.mask}, [&](BodyBuilder& b, std::span<const ValueId> v) {
      return b.where(b.binary(OpCode::gt, v[0], b.constant_of(type, 0.5)), b.constant_of(type, hidden), v[0]);
    });
  }

  // One number per batch in [-1, limit) or [0, limit).
  TensorBox numbers(const char* name, const Expr& limit, int least) {
    const DType type = random_.flip() ? DType::i32 : DType::i64;
    return l_.pointwise({input(name, type, {batch_})}, [&](BodyBuilder& b, std::span<const ValueId> v) {
      const ValueId spread = b.binary(OpCode::mul, v[0], b.constant(type, std::int64_t{large_ ? 97 : 5}));
      const ValueId in_range = b.binary(OpCode::mod, b.unary(OpCode::abs, spread), b.index(limit, type));
      return b.binary(OpCode::add, in_range, b.constant(type, std::int64_t{least}));
    });
  }

  void add_limits(Attention& k, Lowering::AttentionViews& views) {
    const int form = random_.below(4);
    if (form != 0) k.after = random_.below(3) == 0 ? random_.from(-1, 3) : 0;
    if (form == 0 || form == 3)
      k.before = random_.below(3) == 0 ? queries_ : Expr(random_.from(0, large_ ? 300 : 5));
    const int position = random_.below(3);
    if (position == 0) k.first_position = keys_ - queries_;
    if (position == 1) views.positions = numbers("positions", keys_ + 1, -2);
  }

  Random random_;
  DType dtype_;
  bool large_;
  Graph graph_;
  Lowering l_;
  std::map<std::string, std::int64_t> dims_;
  Expr batch_ = 1, heads_ = 1, key_heads_ = 1, queries_ = 1, keys_ = 1;
};

}  // namespace

RandomWindows random_attention(std::uint64_t seed, DType dtype, bool large) {
  return Generator(seed, dtype, large).make();
}

}  // namespace braid::test
