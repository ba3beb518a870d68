#include "tests/cli/paths.h"

namespace braid::paths {

std::string executable() { return BRAID_EXECUTABLE_PATH; }
std::string example_plugin() { return BRAID_EXAMPLE_PLUGIN; }
std::string row_sort() { return BRAID_ROW_SORT; }
std::string kill_at_call() { return BRAID_KILL_AT_CALL; }
std::string fake_driver() { return BRAID_FAKE_DRIVER; }
std::string fake_toolkit() { return BRAID_FAKE_TOOLKIT; }
std::string emulated_device() { return BRAID_FAKE_GPU_LIBRARY; }
std::string mpiexec() { return BRAID_MPIEXEC; }
std::string mpi_environment() { return BRAID_MPI_ENVIRONMENT; }

}  // namespace braid::paths
