// A fault that a test plants into the runtime of generated programs while it runs: a call to leave out.
// planted_calls.h, which is included before every case, asks for it.
#pragma once

#include <cstring>

namespace braid::test {

struct PlantedCall {
  const char* name = nullptr;   // as "cudaStreamWaitEvent"; null: none
  const char* event = nullptr;  // the argument as it is written there, as "caller_"
};
inline PlantedCall planted_call;

inline bool is_left_out(const char* name, const char* event) {
  return planted_call.name != nullptr && std::strcmp(planted_call.name, name) == 0 &&
         std::strcmp(planted_call.event, event) == 0;
}

}  // namespace braid::test
