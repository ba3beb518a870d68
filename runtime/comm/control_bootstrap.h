// Sets up the control channel of a run's ranks: at MASTER_ADDR and MASTER_PORT if the launcher gives both, as
// torchrun does, otherwise through a World, whose engine (shared memory or MPI) lets the ranks meet.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "runtime/comm/bootstrap.h"
#include "runtime/comm/control_channel.h"
#include "runtime/environment.h"

namespace braid::rt {

// The first one that is set counts.
inline constexpr NumberVariable kMasterPort{"MASTER_PORT", 1, 65535};
inline constexpr NumberVariable kPortVariables[] = {{"BRAID_MASTER_PORT", 1, 65535}, kMasterPort};

// Returns where rank 0 listens, from MASTER_ADDR and MASTER_PORT; *out stays empty without both.
// BRAID_MASTER_PORT has precedence over MASTER_PORT. torchrun's own store may use MASTER_PORT
// (TORCHELASTIC_USE_AGENT_STORE), which is then ignored.
Status master_address(std::optional<control::Address>* out);

// The objects that this process must keep as long as the channel.
struct Control {
  std::unique_ptr<World> world;  // null if it was not needed
  std::unique_ptr<ControlChannel> channel;
};

// As one rank of several that a launcher started. BRAID_SECRET is the secret at MASTER_ADDR.
Status join_control_from_environment(const RankEnvironment& environment, const std::string& subject,
                                     Control* out);

// As a rank of `world`, which passes on rank 0's port and a secret.
Status join_control(World& world, bool one_machine, const std::string& subject,
                    std::unique_ptr<ControlChannel>* out);

}  // namespace braid::rt
