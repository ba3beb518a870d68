#include "harness/host_session.h"

#include <dlfcn.h>

#include <optional>

#include "harness/program.h"

namespace braid::harness {
namespace {

// The OpenMP library that the program's own compiler chose: Python's module is linked with none.
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

class HostSession : public Session {
 public:
  HostSession(const ProgramFiles& files, const BraidProgram& table, const SessionOptions& options)
      : openmp_(files.library), threads_(options.threads), world_(options.world) {
    if (options.environment && table.ranks > 1) join(table, *options.environment);
    const OpenMp::Threads threads(openmp_, threads_);
    program_ = rt::Program::open(&table, {.weights_dir = files.dir, .world = world_, .rank = rank()});
  }

  int rank() const override { return world_ != nullptr ? world_->rank() : 0; }
  void prepare(std::span<const rt::TensorView> inputs) override {
    const OpenMp::Threads threads(openmp_, threads_);
    program_->prepare(program_->dims_of(inputs));
  }
  std::span<const std::int64_t> result_shape(std::size_t index) const override {
    return program_->result_shape(index);
  }
  std::span<const std::int64_t> output_shape(std::size_t index) const override {
    return program_->output_shape(index);
  }
  void run(const Step& step) override {
    const OpenMp::Threads threads(openmp_, threads_);
    program_->run(step.inputs, step.outputs);
  }
  void record(std::span<BraidNodeTimes> times) override { program_->record(times); }

 private:
  void join(const BraidProgram& table, const rt::RankEnvironment& environment) {
    threads_ = threads_of_rank(threads_, environment.local_size);
    rt::WorldOptions options = rt::world_options(table);
    options.compute_threads = threads_;
    if (const rt::Status joined = rt::join_world_from_environment(options, &own_world_); !joined.ok())
      throw rt::ProgramError(rt::kCommFailed, joined.message);
    world_ = own_world_.get();
  }

  const OpenMp openmp_;
  int threads_;
  std::unique_ptr<rt::World> own_world_;
  rt::World* world_;  // null: a program of one rank. It outlives program_
  std::optional<rt::Program> program_;
};

}  // namespace

std::unique_ptr<Session> open_host(const ProgramFiles& files, const BraidProgram& table,
                                   const SessionOptions& options) {
  return std::make_unique<HostSession>(files, table, options);
}

}  // namespace braid::harness
