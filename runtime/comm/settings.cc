#include "runtime/comm/settings.h"

#include <string>
#include <string_view>

#include "runtime/environment.h"

namespace braid::rt {
namespace {

constexpr int64_t kDefaultTimeoutMs = 30'000;

constexpr WordVariable kEngine{"BRAID_ENGINE", {"shm", "mpi"}};
constexpr WordVariable kWorker{"BRAID_COMM_WORKER", {"on", "off", "auto"}};
constexpr NumberVariable kTimeout{"BRAID_TIMEOUT_MS", 1, kMaxTimeoutMs};

Status status_of(const std::string& wrong) {
  return wrong.empty() ? Status{} : Status::error(StatusCode::invalid_argument, wrong);
}

}  // namespace

Status engine_choice(EngineChoice* out) {
  *out = EngineChoice::automatic;
  std::string_view name;
  if (const std::string wrong = read_variable(kEngine, &name); !wrong.empty()) return status_of(wrong);
#ifndef BRAID_MPI
  if (name == "mpi")
    return status_of(
        "BRAID_ENGINE='mpi' requests MPI, but this library was built without it (-DBRAID_MPI=ON)");
#endif
  if (!name.empty()) *out = name == "mpi" ? EngineChoice::mpi : EngineChoice::shm;
  return {};
}

Status worker_choice(CommWorker* out) {
  *out = CommWorker::automatic;
  std::string_view name;
  if (const std::string wrong = read_variable(kWorker, &name); !wrong.empty()) return status_of(wrong);
  if (name == "on" || name == "off") *out = name == "on" ? CommWorker::on : CommWorker::off;
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
  return status_of(read_variable(kTimeout, out_ms));
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
