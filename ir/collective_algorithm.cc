#include "ir/collective_algorithm.h"

#include <algorithm>
#include <array>

namespace braid::ir {
namespace {

constexpr std::array<std::string_view, 5> kReducedEverywhere = {"automatic", "one_shot", "two_shot", "ring",
                                                                "library"};
constexpr std::array<std::string_view, 4> kMoved = {"automatic", "one_shot", "ring", "library"};
constexpr std::array<std::string_view, 3> kExchanged = {"automatic", "one_shot", "library"};
constexpr std::array<std::string_view, 2> kTransferred = {"automatic", "library"};

}  // namespace

std::span<const std::string_view> algorithms_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce:
      return kReducedEverywhere;
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::broadcast:
      return kMoved;
    case CollectiveKind::all_to_all:
      return kExchanged;
    case CollectiveKind::send:
    case CollectiveKind::recv:
      return kTransferred;
  }
  return {};
}

bool has_algorithm(CollectiveKind kind, std::string_view algorithm) {
  const auto known = algorithms_of(kind);
  return algorithm.empty() || std::find(known.begin(), known.end(), algorithm) != known.end();
}

}  // namespace braid::ir
