#include "runtime/comm/control_bootstrap.h"

#include <sys/random.h>
#include <unistd.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "runtime/comm/futex.h"
#include "runtime/comm/settings.h"

namespace braid::rt {
namespace {

std::string value_of(const char* name) {
  const char* value = environment_value(name);
  return value != nullptr ? value : "";
}

// Rank 0 makes it, a broadcast spreads it.
struct Invitation {
  uint32_t failed = 0;
  int32_t port = 0;
  char host[256] = {};  // or, if it failed, why
  char secret[32] = {};
};

Status invite(bool one_machine, Invitation* invitation, Socket* listener) {
  if (getrandom(invitation->secret, sizeof invitation->secret, 0) != sizeof invitation->secret)
    return Status::error(StatusCode::system, "no random numbers");
  const Status listening = control::listen_at({one_machine ? "127.0.0.1" : "0.0.0.0", 0}, listener);
  if (!listening.ok()) return listening;
  invitation->port = control::port_of(*listener);
  if (one_machine)
    std::strcpy(invitation->host, "127.0.0.1");
  else
    (void)gethostname(invitation->host, sizeof invitation->host - 1);
  return {};
}

// Broadcasts the invitation; afterwards all ranks are there.
Status spread(World& world, Invitation* invitation) {
  std::vector<int> ranks(static_cast<size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  Communicator* all = nullptr;
  if (Status made = world.group(ranks, "control", &all); !made.ok()) return made;
  const Status sent = all->run({.kind = CollectiveKind::broadcast,
                                .dtype = DType::u8,
                                .count = sizeof *invitation,
                                .input = invitation,
                                .output = invitation,
                                .label = "control"});
  return sent.ok() ? all->run({.kind = CollectiveKind::barrier, .label = "control"}) : sent;
}

// Another run's rank 0 may have the port for a little longer.
Status listen_in_time(const control::Address& address, int64_t timeout_ms, Socket* listener) {
  const int64_t deadline = monotonic_ns() + timeout_ms * 1'000'000;
  for (;;) {
    const Status listening = control::listen_at(address, listener);
    if (listening.ok() || listening.code == StatusCode::invalid_argument || monotonic_ns() > deadline)
      return listening;
    usleep(10'000);
  }
}

}  // namespace

Status master_address(std::optional<control::Address>* out) {
  out->reset();
  const std::string host = value_of("MASTER_ADDR");
  int64_t port = 0;
  for (const NumberVariable& variable : kPortVariables) {
    const bool taken =
        variable.name == kMasterPort.name && value_of("TORCHELASTIC_USE_AGENT_STORE") == "True";
    if (port != 0 || taken) continue;
    if (const std::string wrong = read_variable(variable, &port); !wrong.empty())
      return Status::error(StatusCode::invalid_argument, wrong);
  }
  if (!host.empty() && port != 0) *out = control::Address{host, static_cast<int>(port)};
  return {};
}

Status join_control_from_environment(const RankEnvironment& environment, const std::string& subject,
                                     Control* out) {
  std::optional<control::Address> address;
  if (Status found = master_address(&address); !found.ok()) return found;
  if (!address) {
    const bool one_machine = environment.local_size == environment.size;
    const Status joined = join_world_from_environment({}, &out->world);
    if (joined.ok()) return join_control(*out->world, one_machine, subject, &out->channel);
    if (one_machine) return joined;
    return Status::error(joined.code, joined.message + "; or set MASTER_ADDR and MASTER_PORT for rank 0");
  }
  ControlOptions options{.rank = environment.rank,
                         .size = environment.size,
                         .run = environment.job_id,
                         .subject = subject,
                         .secret = value_of("BRAID_SECRET")};
  if (Status known = timeout_in_force({}, &options.timeout_ms); !known.ok()) return known;
  if (environment.rank != 0) return ControlChannel::join(options, *address, &out->channel);
  Socket listener;
  const Status listening = listen_in_time(*address, options.timeout_ms, &listener);
  return listening.ok() ? ControlChannel::host(options, listener, &out->channel) : listening;
}

Status join_control(World& world, bool one_machine, const std::string& subject,
                    std::unique_ptr<ControlChannel>* out) {
  Invitation invitation;
  Socket listener;
  Status invited;
  if (world.rank() == 0) invited = invite(one_machine, &invitation, &listener);
  if (!invited.ok()) {
    invitation.failed = 1;
    std::strncpy(invitation.host, invited.message.c_str(), sizeof invitation.host - 1);
  }
  if (Status sent = spread(world, &invitation); !sent.ok()) return sent;
  if (invitation.failed != 0)
    return Status::error(StatusCode::system, std::string("rank 0: ") + invitation.host);
  ControlOptions options{.rank = world.rank(),
                         .size = world.size(),
                         .subject = subject,
                         .secret = std::string(invitation.secret, sizeof invitation.secret)};
  if (Status known = timeout_in_force({}, &options.timeout_ms); !known.ok()) return known;
  if (world.rank() == 0) return ControlChannel::host(options, listener, out);
  return ControlChannel::join(options, {invitation.host, invitation.port}, out);
}

}  // namespace braid::rt
