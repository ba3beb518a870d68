// Programs and folders of the build that tests of the command line need, as absolute paths. tests/paths.h
// says why only one file knows them.
#pragma once

#include <string>

namespace braid::paths {

std::string executable();       // braid
std::string example_plugin();   // examples/plugin/charge_callee.cc
std::string row_sort();         // examples/plugin/row_sort.cc
std::string kill_at_call();     // preload/kill_at_call.cc
std::string fake_driver();      // the folder of NVIDIA's libraries as fake_gpu/driver.cc has them
std::string fake_toolkit();     // the folder that stands for a CUDA toolkit
std::string emulated_device();  // libbraid_emulated_device, for the fake toolkit's nvcc
std::string mpiexec();          // empty if built without MPI
std::string mpi_environment();  // NAME=value, by blanks: root and more ranks than cores are allowed

}  // namespace braid::paths
