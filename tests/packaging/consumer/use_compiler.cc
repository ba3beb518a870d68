// The installed compiler: its headers are found under their names in the source tree, its library at run
// time, and its errors can be caught here.
#include <ir/error.h>
#include <ir/expr.h>

#include <cstdint>
#include <cstdio>
#include <limits>

int main() {
  try {
    const braid::ir::Expr size = std::numeric_limits<std::int64_t>::max();
    std::puts(to_string(size * 2).c_str());
  } catch (const braid::ir::UserError& error) {
    std::puts(error.what());
    return error.code() == 301 ? 0 : 1;
  }
  return 1;
}
