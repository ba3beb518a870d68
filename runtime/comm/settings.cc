#include "runtime/comm/settings.h"

#include <cstdlib>
#include <string>
#include <string_view>

#include "runtime/read_number.h"

namespace braid::rt {
namespace {

constexpr int64_t kDefaultTimeoutMs = 30'000;

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

Status refuse(const char* name, const char* value, const std::string& why) {
  return Status::error(StatusCode::invalid_argument, std::string(name) + "='" + value + "' " + why);
}

}  // namespace

Status engine_choice(EngineChoice* out) {
  *out = EngineChoice::automatic;
  const char* value = variable("BRAID_ENGINE");
  if (value == nullptr) return {};
  const std::string_view name = value;
  if (name != "shm" && name != "mpi") return refuse("BRAID_ENGINE", value, "is neither shm nor mpi");
#ifndef BRAID_MPI
  if (name == "mpi")
    return refuse("BRAID_ENGINE", value,
                  "requests MPI, but this library was built without it (-DBRAID_MPI=ON)");
#endif
  *out = name == "mpi" ? EngineChoice::mpi : EngineChoice::shm;
  return {};
}

Status worker_choice(CommWorker* out) {
  *out = CommWorker::automatic;
  const char* value = variable("BRAID_COMM_WORKER");
  if (value == nullptr) return {};
  const std::string_view name = value;
  if (name != "on" && name != "off" && name != "auto")
    return refuse("BRAID_COMM_WORKER", value, "is not one of on, off and auto");
  if (name != "auto") *out = name == "on" ? CommWorker::on : CommWorker::off;
  return {};
}

Status timeout_in_force(const WorldOptions& options, int64_t* out_ms) {
  *out_ms = options.timeout_ms;
  if (options.timeout_ms < 0 || options.timeout_ms > kMaxTimeoutMs) {
    return Status::error(StatusCode::invalid_argument,
                         "a time-out of " + std::to_string(options.timeout_ms) + " ms");
  }
  if (options.timeout_ms > 0) return {};
  *out_ms = kDefaultTimeoutMs;
  const char* value = variable("BRAID_TIMEOUT_MS");
  if (value == nullptr) return {};
  if (!read_number(value, 1, kMaxTimeoutMs, out_ms)) {
    return refuse("BRAID_TIMEOUT_MS", value,
                  "is not a number of milliseconds from 1 to " + std::to_string(kMaxTimeoutMs));
  }
  return {};
}

Status check_comm_environment() {
  EngineChoice engine;
  CommWorker worker;
  int64_t timeout_ms = 0;
  Status status = engine_choice(&engine);
  if (status.ok()) status = worker_choice(&worker);
  if (status.ok()) status = timeout_in_force({}, &timeout_ms);
  return status;
}

}  // namespace braid::rt
