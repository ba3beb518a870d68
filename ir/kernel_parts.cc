#include "ir/kernel_parts.h"

#include <type_traits>
#include <vector>

namespace braid::ir {
namespace {

template <class T>
constexpr bool kIsView = std::is_same_v<T, TensorRef> || std::is_same_v<T, std::optional<TensorRef>> ||
                         std::is_same_v<T, std::vector<TensorRef>>;

// Initialisers, for counting: of a member that holds views, and of any member.
struct View {
  template <class T>
  requires kIsView<T>
  operator T() const { return {}; }
};
struct Any {
  template <class T>
  constexpr operator T&() const&& noexcept;
  template <class T>
  constexpr operator T&&() const&& noexcept;
};

// The members of an aggregate that hold views, those of its base class included.
template <class K, class... Before>
constexpr std::size_t count_views() {
  if constexpr (requires { K{Before{}..., View{}}; }) {
    return 1 + count_views<K, Before..., View>();
  } else if constexpr (requires { K{Before{}..., Any{}}; }) {
    return count_views<K, Before..., Any>();
  } else {
    return 0;
  }
}

// Whether the members are different ones.
template <class A, class B>
constexpr bool same_member(A a, B b) {
  if constexpr (std::is_same_v<A, B>) return a == b;
  return false;
}
constexpr bool all_differ() { return true; }
template <class First, class... Rest>
constexpr bool all_differ([[maybe_unused]] First first, Rest... rest) {
  return !(same_member(first, rest) || ...) && all_differ(rest...);
}

template <class K>
constexpr bool names_all_views() {
  if constexpr (requires { K::kReads; }) {
    constexpr auto named = std::tuple_cat(K::kReads, K::kWrites);
    return std::tuple_size_v<decltype(named)> == count_views<K>() &&
           std::apply([](auto... members) { return all_differ(members...); }, named);
  } else {
    return count_views<K>() == 0;
  }
}

// A member left out of the lists would be missing in effects and dependencies, and passes would not rename
// it.
template <class K>
constexpr bool check() {
  static_assert(names_all_views<K>(),
                "kReads and kWrites of a kernel name each of its members that hold TensorRefs once");
  return true;
}
static_assert([]<class... K>(std::type_identity<std::variant<K...>>) {
  return (check<K>() && ...);
}(std::type_identity<Kernel>{}));

}  // namespace

std::string_view kind_name(const Kernel& kernel) {
  if (const auto* loops = std::get_if<Loops>(&kernel))
    return loops->is_reduction() ? "reduction" : "pointwise";
  if (const auto* collective = std::get_if<CollectiveKernel>(&kernel)) return to_string(collective->kind);
  return std::visit(
      [](const auto& k) -> std::string_view {
        if constexpr (requires { k.kName; }) return k.kName;
        return "region";
      },
      kernel);
}

}  // namespace braid::ir
