// Short ways to run texts in the interpreter.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ir/error.h"
#include "ir/interpreter.h"
#include "ir/parser.h"

namespace braid::ir {

inline Tensor f32(std::vector<std::int64_t> sizes, const std::vector<float>& values) {
  return make_tensor(DType::f32, std::move(sizes), values);
}
inline Tensor i64(std::vector<std::int64_t> sizes, const std::vector<std::int64_t>& values) {
  return make_tensor(DType::i64, std::move(sizes), values);
}
inline Tensor boolean(std::vector<std::int64_t> sizes, const std::vector<std::uint8_t>& values) {
  return make_tensor(DType::boolean, std::move(sizes), values);
}

inline std::vector<Tensor> run_one(const std::string& text, std::vector<Tensor> inputs,
                                   const InterpreterOptions& options = {}) {
  const std::vector<std::vector<Tensor>> per_rank{std::move(inputs)};
  return run(parse_schedule(text), per_rank, options).outputs[0];
}

inline std::vector<std::vector<Tensor>> run_ranks(const std::string& text,
                                                  const std::vector<std::vector<Tensor>>& inputs,
                                                  std::uint64_t seed = 0) {
  InterpreterOptions options;
  options.order_seed = seed;
  return run(parse_schedule(text), inputs, options).outputs;
}

template <class Fn>
void expect_user_error(int code, const std::string& part, Fn&& fn) {
  try {
    fn();
    FAIL() << "no error";
  } catch (const UserError& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    EXPECT_THAT(e.what(), ::testing::HasSubstr(part));
  }
}

}  // namespace braid::ir
