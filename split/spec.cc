#include "split/spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "ir/error.h"

namespace braid::split {

Spec Spec::split(int dim, Blocks blocks) {
  Spec spec;
  spec.kind = Kind::split;
  spec.dim = dim;
  if (blocks.size() > 1) spec.blocks = std::move(blocks);
  return spec;
}

std::string to_string(const Spec& spec) {
  switch (spec.kind) {
    case Spec::Kind::replicated:
      return "R";
    case Spec::Kind::split:
      return spec.blocks.empty() ? fmt::format("S({})", spec.dim)
                                 : fmt::format("S({}:{})", spec.dim, fmt::join(spec.blocks, "+"));
    case Spec::Kind::pending:
      return fmt::format("P({})", to_string(spec.reduce));
  }
  return {};
}

namespace {

// The number at the beginning of `text`, which is taken away.
std::optional<std::int64_t> take_number(std::string_view& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0) return std::nullopt;
  text.remove_prefix(end - text.data());
  return value;
}

}  // namespace

std::optional<Spec> parse_spec(std::string_view text) {
  if (text == "R") return Spec::replicated();
  if (text.size() < 4 || text[1] != '(' || text.back() != ')') return std::nullopt;
  const char letter = text[0];
  std::string_view inside = text.substr(2, text.size() - 3);
  if (letter == 'P') {
    for (const ir::ReduceKind kind :
         {ir::ReduceKind::sum, ir::ReduceKind::prod, ir::ReduceKind::max, ir::ReduceKind::min}) {
      if (inside == to_string(kind)) return Spec::pending(kind);
    }
    return std::nullopt;
  }
  if (letter != 'S') return std::nullopt;
  const std::optional<std::int64_t> dim = take_number(inside);
  if (!dim || *dim > 1000) return std::nullopt;
  Blocks blocks;
  char expected = ':';
  while (!inside.empty()) {
    if (inside[0] != expected) return std::nullopt;
    inside.remove_prefix(1);
    expected = '+';
    const std::optional<std::int64_t> size = take_number(inside);
    if (!size || *size == 0) return std::nullopt;
    blocks.push_back(*size);
  }
  if (blocks.size() == 1) return std::nullopt;
  return Spec::split(static_cast<int>(*dim), std::move(blocks));
}

std::int64_t part_of(std::int64_t size, int ranks) { return (size + ranks - 1) / ranks; }

bool can_pad(std::int64_t size, int ranks) { return size > part_of(size, ranks) * (ranks - 1); }

std::vector<std::int64_t> order_of(const Blocks& blocks, std::int64_t size, int ranks) {
  const Blocks all = blocks.empty() ? Blocks{size} : blocks;
  std::vector<std::int64_t> order;
  order.reserve(size);
  if (blocks.empty() && size % ranks != 0) {
    for (std::int64_t k = 0; k < part_of(size, ranks) * ranks; ++k) order.push_back(std::min(k, size - 1));
    return order;
  }
  for (int rank = 0; rank < ranks; ++rank) {
    std::int64_t begin = 0;
    for (const std::int64_t block : all) {
      ir::internal_check(block % ranks == 0, "a block of {} is split by {} ranks", block, ranks);
      const std::int64_t part = block / ranks;
      for (std::int64_t k = 0; k < part; ++k) order.push_back(begin + rank * part + k);
      begin += block;
    }
    ir::internal_check(begin == size, "blocks of {} elements for a dimension of {}", begin, size);
  }
  return order;
}

}  // namespace braid::split
