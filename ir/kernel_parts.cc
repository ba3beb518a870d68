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

// The members of an aggregate, those of its base class included: a view as the first one of these keeps the
// base from being one member.
template <class K, class... Before>
constexpr std::size_t count_members() {
  if constexpr (requires { K{Before{}..., View{}}; }) {
    return 1 + count_members<K, Before..., View>();
  } else if constexpr (requires { K{Before{}..., Any{}}; }) {
    return 1 + count_members<K, Before..., Any>();
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

// The pointers to the members of an entry of kFields.
constexpr auto members_of(const OneResult&) { return std::tuple(); }
template <class K>
constexpr auto members_of(const Either<K>& either) {
  return std::tuple(either.member, either.flag);
}
template <Role role, class K, class M>
constexpr auto members_of(const Field<role, K, M>& field) {
  static_assert(kIsView<M> == (role == Role::operand || role == Role::result),
                "views are operands or results");
  return std::tuple(field.member);
}

// A member left out of the list would be missing in text, effects and dependencies, and passes would not
// rename it. Loops and regions have a text of their own, and no views.
template <class K>
constexpr bool check() {
  if constexpr (requires { K::kFields; }) {
    constexpr auto named =
        std::apply([](const auto&... f) { return std::tuple_cat(members_of(f)...); }, K::kFields);
    static_assert(std::tuple_size_v<decltype(named)> == count_members<K>() &&
                      std::apply([](auto... members) { return all_differ(members...); }, named),
                  "kFields of a kernel names each of its members once");
  }
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
