// The result of a call to the communication runtime. No exception leaves the runtime, since collectives run
// behind a C ABI and on hot paths. An ok Status holds an empty string and allocates nothing.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace braid::rt {

enum class StatusCode : uint8_t {
  ok,
  invalid_argument,  // the call itself is invalid; nothing was started, the communicator is still usable
  disagreement,      // members called different collectives, or their fingerprints differ
  timed_out,         // a peer did not arrive in time; the message names it
  peer_died,         // a peer's process is gone
  peer_left,         // a peer destroyed its World before it took part
  aborted,           // abort() was called
  out_of_memory,     // shared memory is full
  system,            // a system call failed
};

constexpr const char* to_string(StatusCode code) {
  constexpr const char* kNames[] = {"ok",        "invalid argument", "disagreement",
                                    "timed out", "peer died",        "peer left",
                                    "aborted",   "out of memory",    "system error"};
  return kNames[static_cast<int>(code)];
}

struct [[nodiscard]] Status {
  StatusCode code = StatusCode::ok;
  std::string message;

  bool ok() const { return code == StatusCode::ok; }
  explicit operator bool() const { return ok(); }
  static Status error(StatusCode code, std::string message) { return Status{code, std::move(message)}; }
};

}  // namespace braid::rt
