// Calls something that is to be refused and returns the error.
#pragma once

#include <gtest/gtest.h>

#include "ir/error.h"

namespace braid::test {

template <class Call>
ir::UserError error_of(Call call) {
  try {
    call();
  } catch (const ir::UserError& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return {0, {}, "", ""};
}

}  // namespace braid::test
