// Runs the cases of a GPU bundle. gpu_check.py calls it and collects what it prints.
//
//   gpu_check list                                  a line per case: id, library, kind, dtype, ranks
//   gpu_check run [--graph|--processes] ID...       prints "BEGIN id", then "END id pass|fail|skip: why",
//                                                   for each
//   gpu_check time [--repeat N] ID                  one line of JSON: medians of CUDA events, enqueued and
//                                                   from a graph
//   gpu_check step ID                               two steps, the second for a profiler (cudaProfilerStart
//                                                   to cudaProfilerStop)
//   gpu_check machine                               one line of JSON: device, its properties, versions,
//                                                   copy bandwidth, peaks of products
//
// With --graph the step runs once, then from a CUDA graph, and the outputs of the replay count. Ranks are
// threads with a device each, or with --processes processes that share one GPU and use NCCL over sockets.
// Timed and profiled steps are enqueued without the program's own graphs, and inputs and outputs take turns
// in timings (rotation.h). It reads cases.txt and cases.data in the working directory, and libraries beside
// itself. Exit status 0: nothing failed.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <thread>

#include "device_properties.h"
#include "machine.h"
#include "processes.h"
#include "rank_run.h"
#include "rotation.h"

#ifdef BRAID_EMULATED_DEVICE
extern "C" int braid_emulated_findings(char* text, unsigned long size, int take);
#else
#include <cuda_profiler_api.h>
#endif

namespace braid::gpu_bundle {
namespace {

struct Options {
  bool graph = false, processes = false;
  int repeat = 200;
  std::vector<std::string> ids;
};

const BraidCudaProgram& program_of(const Case& c) {
  const std::filesystem::path library =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / ("lib" + c.library + ".so");
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* entry = handle != nullptr ? dlsym(handle, ("braid_cuda_program_" + c.program).c_str()) : nullptr;
  if (entry == nullptr) throw std::runtime_error(dlerror());
  return *reinterpret_cast<BraidCudaProgramFunction>(entry)();
}

int device_count() {
  int devices = 0;
  GPU_CHECK(cudaGetDeviceCount(&devices));
  if (devices == 0) throw std::runtime_error("there is no device");
  return devices;
}

void run_rank(const Case& c, const Options& o, int rank, int device, const ncclUniqueId& id) {
  GPU_CHECK(cudaSetDevice(device));
  ncclComm_t comm = nullptr;
  GPU_CHECK(ncclCommInitRank(&comm, c.ranks, id, rank));
  {
    RankRun run(c, program_of(c), "cases.data", rank, comm);
    // The second step finds the memory as the first one left it.
    for (int step = 0; step < 2; ++step) {
      if (step > 0) run.reset();
      if (step > 0 && o.graph)
        run.replay();
      else
        run.step();
      run.wait();
    }
    run.compare();
  }
  ncclCommDestroy(comm);
}

void run_threads(const Case& c, const Options& o) {
  if (const int devices = device_count(); devices < c.ranks) {
    throw Skipped("it has " + std::to_string(c.ranks) + " ranks, and there are " + std::to_string(devices) +
                  " devices");
  }
  ncclUniqueId id;
  GPU_CHECK(ncclGetUniqueId(&id));
  std::vector<std::string> errors(static_cast<size_t>(c.ranks));
  std::vector<bool> skipped(errors.size());
  const auto rank = [&](int r) {
    try {
      run_rank(c, o, r, r, id);
    } catch (const Skipped& e) {
      errors[static_cast<size_t>(r)] = e.what();
      skipped[static_cast<size_t>(r)] = true;
    } catch (const std::exception& e) {
      errors[static_cast<size_t>(r)] = e.what();
    }
  };
  std::vector<std::thread> threads;
  for (int r = 1; r < c.ranks; ++r) threads.emplace_back(rank, r);
  rank(0);
  for (std::thread& t : threads) t.join();
  for (size_t r = 0; r < errors.size(); ++r) {
    if (errors[r].empty()) continue;
    if (skipped[r]) throw Skipped(errors[r]);
    throw std::runtime_error(errors[r]);
  }
}

void run_case(const Case& c, const Options& o) {
  if (o.processes) {
    run_processes(c.ranks, [&](int rank, const ncclUniqueId& id) { run_rank(c, o, rank, 0, id); });
    return;
  }
#ifdef BRAID_EMULATED_DEVICE
  braid_emulated_findings(nullptr, 0, 1);  // of a case that failed
#endif
  run_threads(c, o);
#ifdef BRAID_EMULATED_DEVICE
  static char findings[1 << 14];
  if (braid_emulated_findings(findings, sizeof findings, 1) > 0) throw std::runtime_error(findings);
#endif
}

int run(const std::map<std::string, Case>& cases, const Options& o) {
  int failed = 0;
  for (const std::string& id : o.ids) {
    std::cout << "BEGIN " << id << std::endl;
    std::string state = "pass", why;
    try {
      const auto at = cases.find(id);
      if (at == cases.end()) throw std::runtime_error("there is no such case");
      run_case(at->second, o);
    } catch (const Skipped& e) {
      state = "skip";
      why = e.what();
    } catch (const std::exception& e) {
      state = "fail";
      why = e.what();
      ++failed;
    }
    for (char& c : why) c = c == '\n' ? ' ' : c;
    std::cout << "END " << id << ' ' << state << (why.empty() ? "" : ": ") << why << std::endl;
  }
  return failed > 0 ? 1 : 0;
}

// Calls `use` with a run of a program of one rank that enqueues its steps, after a first step.
void with_one_rank(const Case& c, const std::function<void(RankRun&)>& use) {
  if (c.ranks != 1) throw Skipped("timings are of one rank");
  device_count();
  ncclUniqueId id;
  ncclComm_t comm = nullptr;
  GPU_CHECK(ncclGetUniqueId(&id));
  GPU_CHECK(ncclCommInitRank(&comm, 1, id, 0));
  {
    RankRun run(c, program_of(c), "cases.data", 0, comm, -1);
    run.step();
    run.wait();
    run.compare();
    use(run);
  }
  ncclCommDestroy(comm);
}

int time(const Case& c, const Options& o) {
  with_one_rank(c, [&](RankRun& run) {
    const L2Memory memory = l2_and_free_memory();
    const auto copies = static_cast<size_t>(
        rotation_copies(run.weight_bytes(), run.rotated_bytes(), memory.l2_bytes, memory.free_bytes));
    run.rotate(copies);
    size_t next = 0;
    const auto turn = [&] { return next++ % copies; };
    const Times eager = time_on(run.stream(), o.repeat, [&] { run.step(turn()); });
    for (size_t k = 0; k < copies; ++k) run.replay(k);  // captured now
    const Times graph = time_on(run.stream(), o.repeat, [&] { run.replay(turn()); });
    run.wait();
    std::printf(
        "{\"id\": \"%s\", \"bytes\": %llu, \"flops\": %llu, \"copies\": %zu, \"rotated_bytes\": %llu, "
        "\"l2_bytes\": %llu, "
        "\"eager\": %s, \"graph\": %s}\n",
        c.id.c_str(), static_cast<unsigned long long>(c.bytes), static_cast<unsigned long long>(c.flops),
        copies, static_cast<unsigned long long>(run.rotated_bytes()),
        static_cast<unsigned long long>(memory.l2_bytes), to_json(eager).c_str(), to_json(graph).c_str());
  });
  return 0;
}

int step(const Case& c) {
  with_one_rank(c, [](RankRun& run) {
#ifndef BRAID_EMULATED_DEVICE
    GPU_CHECK(cudaProfilerStart());
#endif
    run.step();
    run.wait();
#ifndef BRAID_EMULATED_DEVICE
    GPU_CHECK(cudaProfilerStop());
#endif
  });
  return 0;
}

int main_(int argc, char** argv) {
  const std::string verb = argc > 1 ? argv[1] : "";
  Options o;
  for (int k = 2; k < argc; ++k) {
    const std::string word = argv[k];
    if (word == "--graph")
      o.graph = true;
    else if (word == "--processes")
      o.processes = true;
    else if (word == "--repeat" && k + 1 < argc)
      o.repeat = std::atoi(argv[++k]);
    else
      o.ids.push_back(word);
  }
  if (verb == "machine") return print_machine();
  std::map<std::string, Case> cases;
  for (Case& c : read_cases("cases.txt")) cases[c.id] = std::move(c);
  if (verb == "list") {
    for (const auto& [id, c] : cases)
      std::cout << id << ' ' << c.library << ' ' << c.kind << ' ' << c.dtype << ' ' << c.ranks << '\n';
    return 0;
  }
  if (verb == "run") return run(cases, o);
  if (verb == "time" && o.ids.size() == 1) return time(cases.at(o.ids[0]), o);
  if (verb == "step" && o.ids.size() == 1) return step(cases.at(o.ids[0]));
  std::cerr << "usage: gpu_check list | run [--graph|--processes] ID... | time [--repeat N] ID | step ID | "
               "machine\n";
  return 2;
}

}  // namespace
}  // namespace braid::gpu_bundle

int main(int argc, char** argv) {
  try {
    return braid::gpu_bundle::main_(argc, argv);
  } catch (const braid::gpu_bundle::Skipped& e) {
    std::cout << "SKIP " << e.what() << std::endl;
    return 3;
  } catch (const std::exception& e) {
    std::cerr << "gpu_check: " << e.what() << std::endl;
    return 1;
  }
}
