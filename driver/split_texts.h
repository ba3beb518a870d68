// --at and --with of the command line, at= and with_= of Python: the same texts.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "driver/compile_options.h"

namespace braid {

// Returns the dimensions that a model has in addition to those that are given.
using MoreDims = std::function<std::map<std::string, ir::Bounds>(const std::string& model)>;

// Adds to options.split: sizes of a step, "sequence=1,past=512*100", and programs,
// "decode.onnx:past=512*100".
//
// Dimensions and aliases are given for all models together. Each program takes those that it has;
// options.import loses those that only other programs have. Throws UserErrors BR0003 for malformed texts, and
// those of reading the models.
void read_split_texts(CompileOptions& options, const std::vector<std::string>& at,
                      const std::vector<std::string>& with, const MoreDims& more_dims = {});

}  // namespace braid
