// The same on four ranks that mpirun, torchrun or Slurm started: mpirun -n 4 app_launched. On one machine
// they talk through shared memory; on several, or with BRAID_ENGINE=mpi, through MPI.
#include <cmath>
#include <cstdio>
#include <exception>
#include <memory>
#include <vector>

#include "runtime/comm/bootstrap.h"
#include "runtime/program.h"
#include "sum4.h"

int main() {
  namespace rt = braid::rt;
  const BraidProgram& table = *braid_program_sum4();
  std::unique_ptr<rt::World> world;
  const rt::Status joined = rt::join_world_from_environment(rt::world_options(table), &world);
  if (!joined.ok() || world->size() != table.ranks) {
    std::fprintf(stderr, "%s\n", joined.ok() ? "start this with: mpirun -n 4" : joined.message.c_str());
    return 1;
  }
  try {
    rt::Program program = rt::Program::open(&table, {.weights_dir = BRAID_SUM4_DIR, .world = world.get()});
    const auto own = static_cast<float>(std::pow(10, world->rank()));  // 1, 10, 100, 1000
    std::vector<float> x = {own, 2 * own}, y(2);
    const int64_t shape[] = {1, 2};
    const rt::TensorView inputs[] = {{x.data(), rt::DType::f32, shape}};
    const rt::TensorView outputs[] = {{y.data(), rt::DType::f32, shape}};
    program.run(inputs, outputs);
    std::printf("rank %d: y = %g %g\n", world->rank(), y[0], y[1]);
    return y == std::vector<float>{1111, 2222} ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", world->rank(), error.what());
    return 1;
  }
}
