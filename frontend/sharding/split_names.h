// This folder is the ONNX side of split/, whose names it uses throughout.
#pragma once

#include "split/ids.h"

namespace braid::frontend::sharding {

using namespace split;  // NOLINT(google-build-using-namespace)
// Not ir's, which files of frontend name in the namespace around this.
using split::NodeId;
using split::ValueId;

}  // namespace braid::frontend::sharding
