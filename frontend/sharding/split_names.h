// This folder is the ONNX side of split/, whose names it uses throughout.
#pragma once

namespace braid::split {}

namespace braid::frontend::sharding {

using namespace split;  // NOLINT(google-build-using-namespace)

}  // namespace braid::frontend::sharding
