// Two processes, each with its own x; both get the sum over the ranks: y = AllReduce(x).
#include <cstdio>
#include <vector>

#include "runtime/comm/bootstrap.h"
#include "runtime/program.h"
#include "sum.h"

int main() {
  namespace rt = braid::rt;
  const BraidProgram& table = *braid_program_sum();
  const rt::LaunchOptions launch{.world = rt::world_options(table), .pacing = {}};
  const rt::Status status = rt::launch_processes(table.ranks, launch, [&](rt::World& world) {
    rt::Program program =
        rt::Program::open(&table, {.weights_dir = BRAID_SUM_DIR, .world = &world, .rank = world.rank()});
    const float own = world.rank() == 0 ? 1.0F : 10.0F;
    std::vector<float> x = {own, 2 * own}, y(2);
    const int64_t shape[] = {1, 2};
    const rt::TensorView inputs[] = {{x.data(), rt::DType::f32, shape}};
    const rt::TensorView outputs[] = {{y.data(), rt::DType::f32, shape}};
    program.run(inputs, outputs);
    std::printf("rank %d: y = %g %g\n", world.rank(), y[0], y[1]);
    return y == std::vector<float>{11, 22} ? 0 : 1;
  });
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.message.c_str());
  return status.ok() ? 0 : 1;
}
