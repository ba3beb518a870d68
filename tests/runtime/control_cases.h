// Ranks that meet over TCP within a test.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "runtime/comm/control_channel.h"

namespace braid::rt::testing {

// A listener on this machine, as rank 0 has one.
struct Door {
  Door() { EXPECT_TRUE(control::listen_at({"127.0.0.1", 0}, &listener).ok()); }
  control::Address address() const { return {"127.0.0.1", control::port_of(listener)}; }
  Socket listener;
};

inline ControlOptions control_options(int rank, int size, int64_t timeout_ms = 20'000) {
  return {.rank = rank, .size = size, .run = "a run", .subject = "a program", .timeout_ms = timeout_ms};
}

inline Status open_control(const Door& door, const ControlOptions& options,
                           std::unique_ptr<ControlChannel>* out) {
  return options.rank == 0 ? ControlChannel::host(options, door.listener, out)
                           : ControlChannel::join(options, door.address(), out);
}

// Runs a thread for each of the ranks, which meets the others and, if that succeeds, runs `body`. Returns how
// the meeting ended, for each.
inline std::vector<Status> meet_as_threads(const Door& door, const std::vector<ControlOptions>& ranks,
                                           const std::function<void(ControlChannel&)>& body = {}) {
  std::vector<std::future<Status>> futures;
  for (const ControlOptions& options : ranks) {
    futures.push_back(std::async(std::launch::async, [&door, &body, options] {
      std::unique_ptr<ControlChannel> channel;
      Status met = open_control(door, options, &channel);
      if (met.ok() && body) body(*channel);
      return met;
    }));
  }
  std::vector<Status> out;
  for (std::future<Status>& each : futures) out.push_back(each.get());
  return out;
}

}  // namespace braid::rt::testing
