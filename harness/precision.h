// Products in a narrower type, within a limit of the error against float32: `--precision` with `--max-error`.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "driver/compile.h"
#include "harness/execution.h"
#include "harness/interface.h"

namespace braid::harness {

struct LimitedPrecision {
  std::size_t products = 0;       // of f32 operands
  std::vector<std::string> kept;  // operations that the limit returned to f32, largest error first
  double error = 0;               // of the program that is left, as below
};

// Arguments of the search.
struct LimitRequest {
  double max_error = 0;
  std::function<RankTensors(const ProgramInterface&)>
      inputs;  // random, at the upper bounds of the dimensions
  ExecuteOptions execution = {};
  std::function<void(const std::string& doing)> progress;
};

// Sets options.keep_f32 so that no output differs from the f32 program's by more than `max_error`. The error
// is relative to the output's largest element. The programs are compiled for options.target and run, first
// with all products narrow. If that exceeds the limit, each product is measured as the only narrow one, which
// ranks them. Then those with the largest errors are returned to f32, as few as are needed, by bisection.
LimitedPrecision limit_error(CompileOptions& options, const LimitRequest& request);

// The limit of `braid verify` for programs of this precision, relative to the largest element of the output.
double default_limit(const std::string& precision);

}  // namespace braid::harness
