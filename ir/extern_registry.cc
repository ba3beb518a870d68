#include "ir/extern_registry.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "ir/error.h"

namespace braid::ir {
namespace {

// References to entries stay valid.
std::map<std::string, ExternKernelSpec>& table() {
  static std::map<std::string, ExternKernelSpec> kernels;
  return kernels;
}

bool is_identifier(const std::string& text) {
  const auto part = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) == 0 &&
         std::all_of(text.begin(), text.end(), part);
}

}  // namespace

void register_extern_kernel(ExternKernelSpec spec) {
  internal_check(is_identifier(spec.symbol), "the symbol '{}' of an extern kernel is no C identifier",
                 spec.symbol);
  internal_check(spec.interpret && spec.refuses, "the extern kernel '{}' lacks a function", spec.symbol);
  const std::string symbol = spec.symbol;
  const auto [at, fresh] = table().try_emplace(symbol, std::move(spec));
  internal_check(fresh, "there are two extern kernels '{}'", at->first);
}

const ExternKernelSpec* find_extern_kernel(const std::string& symbol) {
  const auto at = table().find(symbol);
  return at == table().end() ? nullptr : &at->second;
}

}  // namespace braid::ir
