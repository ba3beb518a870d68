// Returns from a function that returns bool if a call failed; the message names the current ONNX node.
#pragma once

#define BRAID_TRY(call) \
  if (!ok((call), #call)) return false
