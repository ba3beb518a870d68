#include "passes/constant_sums.h"

#include <cstring>
#include <functional>

#include "ir/element.h"
#include "ir/scalar.h"

namespace braid::passes {

using namespace ir;

namespace {

// Numbers of a constant whose sizes are known. A dimension that repeats the same elements counts as one
// element.
struct Numbers {
  const ConstantData* data = nullptr;
  DType type = DType::i8;
  std::int64_t offset = 0;  // of the view's first element, in bytes
  std::vector<std::int64_t> sizes, strides;

  bool inside(std::size_t bytes) const {
    std::int64_t last = offset;
    for (std::size_t d = 0; d < sizes.size(); ++d) last += (sizes[d] - 1) * strides[d] * size_of(type);
    return last + size_of(type) <= static_cast<std::int64_t>(bytes);
  }
};

std::optional<Numbers> numbers_of(const Graph& graph, const TensorRef& ref) {
  const MemoryRegion where = region(graph, ref.buffer);
  if (!where.storage.valid() || graph[where.storage].kind != StorageKind::constant) return std::nullopt;
  Numbers numbers;
  numbers.data = &graph[where.storage].data;
  numbers.type = graph[ref.buffer].dtype;
  if (numbers.data->per_rank.empty() || !where.offset.is_constant() || !ref.offset.is_constant())
    return std::nullopt;
  numbers.offset = where.offset.constant() + ref.offset.constant() * size_of(numbers.type);
  for (std::size_t d = 0; d < ref.sizes.size(); ++d) {
    if (ref.strides[d].is_constant(0)) {
      numbers.sizes.push_back(1);
      numbers.strides.push_back(0);
      continue;
    }
    if (!ref.sizes[d].is_constant() || !ref.strides[d].is_constant() || ref.sizes[d].constant() < 1 ||
        ref.strides[d].constant() < 0)
      return std::nullopt;
    numbers.sizes.push_back(ref.sizes[d].constant());
    numbers.strides.push_back(ref.strides[d].constant());
  }
  for (std::span<const std::byte> bytes : numbers.data->per_rank) {
    if (!numbers.inside(bytes.size())) return std::nullopt;
  }
  return numbers;
}

// Calls visit(coordinates) for all points, the last dimension fastest.
template <class Visit>
void for_each(const std::vector<std::int64_t>& sizes, const Visit& visit) {
  std::vector<std::int64_t> at(sizes.size(), 0);
  for (;;) {
    visit(at);
    std::size_t d = sizes.size();
    while (d > 0 && ++at[d - 1] == sizes[d - 1]) at[--d] = 0;
    if (d == 0) return;
  }
}

int byte_at(DType type, std::span<const std::byte> bytes, std::int64_t at) {
  const auto raw = static_cast<std::uint8_t>(bytes[static_cast<std::size_t>(at)]);
  return type == DType::i8 ? static_cast<std::int8_t>(raw) : raw;
}

ConstantData with_ranks(const ConstantData& like,
                        const std::function<std::vector<std::byte>(std::span<const std::byte>)>& of_rank) {
  auto owned = std::make_shared<std::vector<std::vector<std::byte>>>();
  for (std::span<const std::byte> bytes : like.per_rank) owned->push_back(of_rank(bytes));
  ConstantData data;
  for (const std::vector<std::byte>& bytes : *owned) data.per_rank.emplace_back(bytes);
  data.owner = owned;
  return data;
}

// The value of a body of constants, loads and casts of integers.
std::optional<std::int64_t> integer_at(const Graph& graph, const LoopBody& body, std::size_t rank_index,
                                       const std::vector<std::int64_t>& at) {
  std::vector<std::int64_t> values;
  for (const Instr& instr : body.instrs) {
    if (!is_integer(instr.dtype)) return std::nullopt;
    if (instr.code == OpCode::constant) {
      values.push_back(std::get<std::int64_t>(instr.literal));
    } else if (instr.code == OpCode::cast) {
      const std::int64_t from = values[static_cast<std::size_t>(instr.operands[0].index)];
      values.push_back(wrap(instr.dtype, from));
    } else if (instr.code == OpCode::load && instr.operands.empty()) {
      const auto numbers = numbers_of(graph, whole(graph, instr.buffer));
      if (!numbers) return std::nullopt;
      bool known = true;
      for_each_symbol(instr.index, [&](Expr s) { known = known && s.is_symbol(SymbolKind::index); });
      if (!known) return std::nullopt;
      const std::int64_t element =
          evaluate(instr.index, [&](Expr s) { return at[static_cast<std::size_t>(s.symbol_number())]; });
      const auto& ranks = numbers->data->per_rank;
      const std::span<const std::byte> bytes = ranks.size() == 1 ? ranks[0] : ranks[rank_index];
      const std::int64_t offset = numbers->offset + element * size_of(instr.dtype);
      if (offset < 0 || offset + size_of(instr.dtype) > std::ssize(bytes)) return std::nullopt;
      values.push_back(std::get<std::int64_t>(read_element(instr.dtype, bytes.data() + offset)));
    } else {
      return std::nullopt;
    }
  }
  return values[static_cast<std::size_t>(body.result.index)];
}

}  // namespace

std::optional<ConstantData> constant_sums(const Graph& graph, const TensorRef& ref, std::size_t along,
                                          const std::vector<std::size_t>& kept) {
  const std::optional<Numbers> numbers = numbers_of(graph, ref);
  if (!numbers) return std::nullopt;
  std::vector<std::int64_t> sizes;
  std::int64_t count = 1;
  for (std::size_t d : kept) {
    sizes.push_back(numbers->sizes[d]);
    count *= numbers->sizes[d];
  }
  // Memory is read in order: all sums advance together.
  return with_ranks(*numbers->data, [&](std::span<const std::byte> bytes) {
    std::vector<std::int32_t> sums(static_cast<std::size_t>(count), 0);
    for (std::int64_t k = 0; k < numbers->sizes[along]; ++k) {
      std::size_t n = 0;
      for_each(sizes, [&](const std::vector<std::int64_t>& at) {
        std::int64_t element = numbers->offset + k * numbers->strides[along];
        for (std::size_t d = 0; d < kept.size(); ++d) element += at[d] * numbers->strides[kept[d]];
        const auto sum = static_cast<std::uint32_t>(sums[n]);
        sums[n++] = static_cast<std::int32_t>(
            sum + static_cast<std::uint32_t>(byte_at(numbers->type, bytes, element)));
      });
    }
    std::vector<std::byte> out(sums.size() * sizeof(std::int32_t));
    std::memcpy(out.data(), sums.data(), out.size());
    return out;
  });
}

std::optional<ConstantData> constant_differences(const Graph& graph, const TensorRef& ref,
                                                 const LoopBody& zero,
                                                 const std::vector<std::size_t>& along) {
  const std::optional<Numbers> numbers = numbers_of(graph, ref);
  if (!numbers) return std::nullopt;
  const std::size_t ranks = numbers->data->per_rank.size();
  for (const Instr& instr : zero.instrs) {
    if (instr.code != OpCode::load) continue;
    const auto of_zero = numbers_of(graph, whole(graph, instr.buffer));
    if (!of_zero || (of_zero->data->per_rank.size() != 1 && of_zero->data->per_rank.size() != ranks))
      return std::nullopt;
  }
  bool fits = true;
  std::size_t rank = 0;
  ConstantData data = with_ranks(*numbers->data, [&](std::span<const std::byte> bytes) {
    // The zero points, once for all of `along`.
    std::vector<std::int64_t> kept = numbers->sizes;
    for (std::size_t d : along) kept[d] = 1;
    std::vector<std::int64_t> zero_strides(kept.size(), 0);
    std::int64_t next = 1;
    for (std::size_t d = kept.size(); d-- > 0;) {
      zero_strides[d] = kept[d] == 1 ? 0 : next;
      next *= kept[d];
    }
    std::vector<std::int64_t> zeros;
    for_each(kept, [&](const std::vector<std::int64_t>& at) {
      const std::optional<std::int64_t> value = fits ? integer_at(graph, zero, rank, at) : std::nullopt;
      fits = fits && value;
      zeros.push_back(value.value_or(0));
    });
    std::vector<std::byte> out;
    if (!fits) return out;
    for_each(numbers->sizes, [&](const std::vector<std::int64_t>& at) {
      std::int64_t element = numbers->offset, of_zero = 0;
      for (std::size_t d = 0; d < at.size(); ++d) {
        element += at[d] * numbers->strides[d];
        of_zero += at[d] * zero_strides[d];
      }
      const std::int64_t difference =
          byte_at(numbers->type, bytes, element) - zeros[static_cast<std::size_t>(of_zero)];
      fits = fits && difference >= -128 && difference <= 127;
      out.push_back(static_cast<std::byte>(static_cast<std::int8_t>(difference)));
    });
    ++rank;
    return out;
  });
  return fits ? std::optional(std::move(data)) : std::nullopt;
}

std::optional<ConstantData> constant_tap_sums(const Graph& graph, const TensorRef& weights,
                                              const std::vector<std::vector<std::vector<bool>>>& inside) {
  const std::optional<Numbers> numbers = numbers_of(graph, weights);
  if (!numbers) return std::nullopt;
  const std::size_t spatial = inside.size();
  const auto& sizes = numbers->sizes;
  const std::int64_t groups = sizes[0], channels = sizes[spatial + 1], filters = sizes[spatial + 2];
  std::vector<std::int64_t> classes,
      taps(sizes.begin() + 1, sizes.begin() + 1 + static_cast<std::ptrdiff_t>(spatial));
  std::int64_t count = 1;
  for (const auto& dimension : inside) {
    classes.push_back(std::ssize(dimension));
    count *= classes.back();
  }
  return with_ranks(*numbers->data, [&](std::span<const std::byte> bytes) {
    // The sums of each tap first.
    std::vector<std::uint32_t> of_tap;
    for_each(taps, [&](const std::vector<std::int64_t>& tap) {
      std::int64_t at = numbers->offset;
      for (std::size_t d = 0; d < spatial; ++d) at += tap[d] * numbers->strides[d + 1];
      for (std::int64_t g = 0; g < groups; ++g) {
        for (std::int64_t j = 0; j < filters; ++j) {
          std::uint32_t sum = 0;
          for (std::int64_t c = 0; c < channels; ++c) {
            const std::int64_t element = at + g * numbers->strides[0] + c * numbers->strides[spatial + 1] +
                                         j * numbers->strides[spatial + 2];
            sum += static_cast<std::uint32_t>(byte_at(numbers->type, bytes, element));
          }
          of_tap.push_back(sum);
        }
      }
    });
    const auto width = static_cast<std::size_t>(groups * filters);
    std::vector<std::uint32_t> sums(static_cast<std::size_t>(count) * width, 0);
    std::size_t row = 0;
    for_each(classes, [&](const std::vector<std::int64_t>& of) {
      std::size_t t = 0;
      for_each(taps, [&](const std::vector<std::int64_t>& tap) {
        bool used = true;
        for (std::size_t d = 0; d < spatial; ++d)
          used = used && inside[d][static_cast<std::size_t>(of[d])][static_cast<std::size_t>(tap[d])];
        for (std::size_t k = 0; used && k < width; ++k) sums[row * width + k] += of_tap[t * width + k];
        ++t;
      });
      ++row;
    });
    std::vector<std::byte> out(sums.size() * sizeof(std::uint32_t));
    std::memcpy(out.data(), sums.data(), out.size());
    return out;
  });
}

}  // namespace braid::passes
