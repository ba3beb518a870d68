// The list of a kernel's members, kFields: a tuple with an entry for each member, in the order of the text.
// Parser, printer, dependencies and effects follow from it (ir/kernel_parts.h); a member that is left out
// does not compile (ir/kernel_parts.cc).
//
//   OneResult{"a pool"}, attribute(&Pooling::kind), operand(&Pooling::x), attribute(&Pooling::windows),
//   result(&Pooling::out)                %y: f32[1, 4, 8] = pool max %x window [2] stride [2]
//
// A member follows its word; without a word its place tells what it is. An attribute with a word is written
// only if it is not the default, and results only where they are not the operation's whole ones. Bodies stand
// behind the operation's name, origins and cost.
#pragma once

#include <cstdint>
#include <string_view>

namespace braid::ir {

enum class Role : std::uint8_t { operand, result, attribute, body };

template <Role role, class K, class M>
struct Field {
  static constexpr Role kRole = role;
  M K::*member;
  std::string_view word;
};

// Views of tensors: TensorRef, an optional one, or a vector of them.
template <class K, class M>
constexpr Field<Role::operand, K, M> operand(M K::*member, std::string_view word = {}) {
  return {member, word};
}
template <class K, class M>
constexpr Field<Role::result, K, M> result(M K::*member, std::string_view word = "into") {
  return {member, word};
}
template <class K, class M>
constexpr Field<Role::attribute, K, M> attribute(M K::*member, std::string_view word = {}) {
  return {member, word};
}
template <class K, class M>
constexpr Field<Role::body, K, M> body(M K::*member) {
  return {member, {}};
}

// One number with either of two words; the second one sets the flag.
template <class K>
struct Either {
  static constexpr Role kRole = Role::attribute;
  double K::*member;
  std::string_view word;
  bool K::*flag;
  std::string_view flag_word;
};

// No member: the operation has one result. Names the kernel in the error.
struct OneResult {
  std::string_view kernel;
};

}  // namespace braid::ir
