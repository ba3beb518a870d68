// Times on the device, and what the device can do at most: the yardsticks of all timings of a run.
#pragma once

#include <functional>
#include <string>

#include "device_api.h"

namespace braid::gpu_bundle {

struct Times {
  double median_us = 0, p10_us = 0, p90_us = 0;
  int count = 0;
};
std::string to_json(const Times& times);

// Times each of `repeat` calls of `enqueue` between two events of its own, after a tenth as many warm-up
// calls. Not for the emulated device, whose time is no time.
Times time_on(cudaStream_t stream, int repeat, const std::function<void()>& enqueue);

// Prints device, versions, the bandwidth of a copy and the peak of matrix products as JSON. On the emulated
// device without times.
int print_machine();

}  // namespace braid::gpu_bundle
