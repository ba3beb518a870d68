// Runs the compiled layer on two rows and checks the result: y = Relu(x * w + b).
#include <cstdio>
#include <vector>

#include "layer.h"
#include "runtime/program.h"

int main() {
  namespace rt = braid::rt;
  try {
    // BRAID_LAYER_DIR, the folder with the weights, comes from braid_add_model.
    rt::Program program = rt::Program::open(braid_program_layer(), {.weights_dir = BRAID_LAYER_DIR});

    std::vector<float> x = {1, 2, 3, 4, 5, 6}, y(4);
    const int64_t x_shape[] = {2, 3}, y_shape[] = {2, 2};
    const rt::TensorView inputs[] = {{x.data(), rt::DType::f32, x_shape}};
    const rt::TensorView outputs[] = {{y.data(), rt::DType::f32, y_shape}};
    program.run(inputs, outputs);

    std::printf("y = %g %g %g %g\n", y[0], y[1], y[2], y[3]);
    return y == std::vector<float>{3, 7, 9, 13} ? 0 : 1;
  } catch (const rt::ProgramError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
