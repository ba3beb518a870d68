#include "python/compiled_runner.h"

#include <dlfcn.h>

#include <algorithm>
#include <thread>

#include "python/launched_rank.h"
#include "runtime/comm/bootstrap.h"

namespace braid::python {
namespace {

// The OpenMP library that the program's own compiler chose: this module is linked with none.
class OpenMp {
 public:
  explicit OpenMp(const std::string& library) {
    void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (handle == nullptr) return;
    set_ = reinterpret_cast<void (*)(int)>(::dlsym(handle, "omp_set_num_threads"));
    get_ = reinterpret_cast<int (*)()>(::dlsym(handle, "omp_get_max_threads"));
    ::dlclose(handle);
  }

  // While it lives, this thread's parallel regions have `threads` threads; 0 changes nothing.
  class Threads {
   public:
    Threads(const OpenMp& omp, int threads) : set_(threads > 0 && omp.get_ != nullptr ? omp.set_ : nullptr) {
      if (set_ == nullptr) return;
      before_ = omp.get_();
      set_(threads);
    }
    ~Threads() {
      if (set_ != nullptr) set_(before_);
    }
    Threads(const Threads&) = delete;
    Threads& operator=(const Threads&) = delete;

   private:
    void (*set_)(int);
    int before_ = 0;
  };

 private:
  void (*set_)(int) = nullptr;
  int (*get_)() = nullptr;
};

class CompiledRunner : public Runner {
 public:
  CompiledRunner(const CompiledFiles& files, std::unique_ptr<rt::World> world, int threads)
      : openmp_(files.library), threads_(threads), world_(std::move(world)), program_(open(files)) {}

  int rank() const override { return world_ ? world_->rank() : 0; }
  void prepare(std::span<const rt::TensorView> inputs) override {
    const OpenMp::Threads threads(openmp_, threads_);
    program_.prepare(program_.dims_of(inputs));
  }
  std::span<const std::int64_t> output_shape(std::size_t index) const override {
    return program_.output_shape(index);
  }
  void run(const Step& step) override {
    const OpenMp::Threads threads(openmp_, threads_);
    program_.run(step.inputs, step.outputs);
  }

 private:
  rt::Program open(const CompiledFiles& files) {
    const OpenMp::Threads threads(openmp_, threads_);
    return rt::Program::open(files.table, {.weights_dir = files.dir, .world = world_.get()});
  }

  OpenMp openmp_;
  int threads_;
  std::unique_ptr<rt::World> world_;  // outlives program_
  rt::Program program_;
};

int cores() { return static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }

}  // namespace

std::unique_ptr<Runner> open_compiled(const CompiledFiles& files, int threads) {
  check_environment(false);
  const int ranks = files.table->ranks;
  // A program of one rank has no peers, however this process was started.
  if (ranks == 1) return std::make_unique<CompiledRunner>(files, nullptr, threads);
  const rt::RankEnvironment environment = launched_rank(files.dir, ranks);
  if (threads == 0) threads = std::max(1, cores() / environment.local_size);
  rt::WorldOptions options = rt::world_options(*files.table);
  options.compute_threads = threads;
  std::unique_ptr<rt::World> world;
  if (const rt::Status joined = rt::join_world_from_environment(options, &world); !joined.ok())
    throw rt::ProgramError(rt::kCommFailed, joined.message);
  return std::make_unique<CompiledRunner>(files, std::move(world), threads);
}

}  // namespace braid::python
