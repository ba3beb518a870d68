#include "runtime/program.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "runtime/library_file.h"
#include "runtime/mapped_file.h"
#include "runtime/program_shapes.h"

namespace braid::rt {
namespace {

std::string number(int64_t v) { return std::to_string(v); }

// Zero pages that take no memory until they are touched: steps with smaller sizes use only a part of the
// plan.
class Arena {
 public:
  Arena() = default;
  explicit Arena(size_t bytes) {
    // Uses huge pages if there is more than one: fewer address translations and page faults.
    constexpr size_t kHugePage = size_t{2} << 20;
    const bool huge = bytes >= kHugePage;
    mapped_ = bytes + (huge ? kHugePage : 0);
    mapping_ = ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping_ == MAP_FAILED) {
      mapping_ = nullptr;
      throw ProgramError(kStepFailed, "no memory for an arena of " + std::to_string(bytes) + " bytes");
    }
    data_ = mapping_;
    if (!huge) return;
    const auto at = reinterpret_cast<uintptr_t>(mapping_);
    data_ = reinterpret_cast<void*>((at + kHugePage - 1) / kHugePage * kHugePage);
    ::madvise(data_, bytes, MADV_HUGEPAGE);  // may be refused
  }
  ~Arena() {
    if (mapping_) ::munmap(mapping_, mapped_);
  }
  Arena(Arena&& o) noexcept { *this = std::move(o); }
  Arena& operator=(Arena&& o) noexcept {
    std::swap(mapping_, o.mapping_);
    std::swap(data_, o.data_);
    std::swap(mapped_, o.mapped_);
    return *this;
  }
  void* data() const { return data_; }

 private:
  void* mapping_ = nullptr;
  void* data_ = nullptr;
  size_t mapped_ = 0;
};

struct DestroyInstance {
  const BraidProgram* table = nullptr;
  void operator()(BraidInstance* i) const { table->destroy(i); }
};

}  // namespace

std::string shape_text(std::span<const int64_t> shape) {
  std::string text = "[";
  for (size_t k = 0; k < shape.size(); ++k) text += (k ? "," : "") + number(shape[k]);
  return text + "]";
}

ProgramError::ProgramError(int code, const std::string& message)
    : std::runtime_error("error BR0" + std::to_string(code) + ": " + message), code_(code) {}

struct Program::Impl {
  explicit Impl(const BraidProgram* of)
      : table(of),
        shapes(*of),
        results(*of),
        wanted(static_cast<size_t>(of->dim_count)),
        in(static_cast<size_t>(of->input_count)),
        out(static_cast<size_t>(of->output_count)),
        measures(std::any_of(of->dims, of->dims + of->dim_count,
                             [](const BraidDim& dim) { return dim.measured != 0; })) {}

  const BraidProgram* table;
  MappedFile weights, rank_weights;
  Arena arena;
  std::unique_ptr<BraidInstance, DestroyInstance> instance;
  ProgramShapes<BraidProgram> shapes, results;  // before a step, and of the last one
  std::vector<int64_t> wanted;                  // buffer of dims_of in run
  std::vector<const void*> in;
  std::vector<void*> out;
  const bool measures;  // a step decides about sizes

  [[noreturn]] void raise(BraidStatus status) const {
    const int code = status == BRAID_COMM_ERROR ? kCommFailed
                     : status == BRAID_BAD_SIZE ? kWrongSize
                                                : kStepFailed;
    throw ProgramError(code,
                       std::string("program '") + table->name + "': " + table->last_error(instance.get()));
  }

  void prepare(std::span<const int64_t> values) {
    if (values.size() != wanted.size()) {
      throw ProgramError(kWrongSize, std::string("program '") + table->name + "' has " +
                                         number(static_cast<int64_t>(wanted.size())) + " dimensions, " +
                                         number(static_cast<int64_t>(values.size())) + " were given");
    }
    if (shapes.are(values)) return;
    const BraidStatus status = table->prepare(instance.get(), values.data());
    if (status != BRAID_OK) raise(status);
    shapes.set(values);
  }
};

Program::Program(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Program::~Program() = default;
Program::Program(Program&&) noexcept = default;
Program& Program::operator=(Program&&) noexcept = default;

Program Program::open(const BraidProgram* table, const ProgramOptions& options) {
  if (!table) throw ProgramError(kCannotOpen, "null program");
  if (table->abi_version != BRAID_ABI_VERSION || table->struct_size != sizeof(BraidProgram)) {
    throw ProgramError(kCannotOpen,
                       "the program was compiled for version " + std::to_string(table->abi_version) +
                           " of the interface, this is version " + std::to_string(BRAID_ABI_VERSION));
  }
  auto impl = std::make_unique<Impl>(table);
  if (table->ranks > 1 && !options.world) {
    throw ProgramError(kWrongRanks, std::string("program '") + table->name + "' is for " +
                                        number(table->ranks) +
                                        " ranks: it needs a world (torchrun, mpirun or braid run --ranks " +
                                        number(table->ranks) + ")");
  }
  const int rank = options.world ? options.world->rank() : options.rank;
  const std::string dir = options.weights_dir.empty() ? "." : options.weights_dir;
  if (table->weights_bytes > 0) impl->weights = MappedFile(dir + "/weights.bin");
  if (table->rank_weights_bytes > 0)
    impl->rank_weights = MappedFile(dir + "/weights.rank" + number(rank) + ".bin");
  if (table->arena_bytes > 0) impl->arena = Arena(table->arena_bytes);
  BraidCreateInfo info = {};
  info.abi_version = BRAID_ABI_VERSION;
  info.struct_size = sizeof info;
  info.rank = rank;
  info.world = reinterpret_cast<BraidWorld*>(options.world);
  info.weights = impl->weights.bytes().data();
  info.weights_bytes = impl->weights.bytes().size();
  info.rank_weights = impl->rank_weights.bytes().data();
  info.rank_weights_bytes = impl->rank_weights.bytes().size();
  info.weights_mapped = 1;
  info.arena = impl->arena.data();
  info.arena_bytes = table->arena_bytes;
  BraidInstance* instance = nullptr;
  const BraidStatus status = table->create(&info, &instance);
  if (status != BRAID_OK) {
    const int code = status == BRAID_COMM_ERROR         ? kCommFailed
                     : status == BRAID_INVALID_ARGUMENT ? kCannotOpen
                                                        : kStepFailed;
    throw ProgramError(code, std::string("program '") + table->name + "': " + table->last_error(nullptr));
  }
  impl->instance = {instance, DestroyInstance{table}};
  // Pages that a step reads are mapped in again; the others were needed only once.
  impl->weights.drop();
  impl->rank_weights.drop();
  return Program(std::move(impl));
}

const BraidProgram* load_program(const std::string& library, uint64_t compilation_id) {
  const size_t slash = library.rfind('/');
  const std::string file = slash == std::string::npos ? library : library.substr(slash + 1);
  const std::string path = slash == std::string::npos ? "./" + library : library;
  const size_t dot = file.rfind(".so");
  if (dot == std::string::npos)
    throw ProgramError(kCannotOpen, library + ": the name of a program's library must end with .so");
  check_library(path, compilation_id != 0 ? SealNeed::required : SealNeed::if_present, compilation_id);
  const std::string symbol = "braid_program_" + file.substr(0, dot);
  const BraidProgram* table = nullptr;
  open_library(path, [&](void* handle) {
    const auto function = reinterpret_cast<BraidProgramFunction>(::dlsym(handle, symbol.c_str()));
    if (!function) throw ProgramError(kCannotOpen, library + " has no function " + symbol);
    table = function();
    return compilation_id == 0 || table->compilation_id == compilation_id;
  });
  return table;
}

Program Program::open(const std::string& library, const ProgramOptions& options) {
  ProgramOptions o = options;
  const size_t slash = library.rfind('/');
  if (o.weights_dir.empty()) o.weights_dir = slash == std::string::npos ? "." : library.substr(0, slash);
  return open(load_program(library), o);
}

const BraidProgram& Program::table() const { return *impl_->table; }

int Program::input_index(std::string_view name) const {
  for (int k = 0; k < impl_->table->input_count; ++k) {
    if (name == impl_->table->inputs[k].name) return k;
  }
  return -1;
}
int Program::output_index(std::string_view name) const {
  for (int k = 0; k < impl_->table->output_count; ++k) {
    if (name == impl_->table->outputs[k].name) return k;
  }
  return -1;
}

void Program::prepare(std::span<const int64_t> dims) { impl_->prepare(dims); }

std::vector<int64_t> Program::dims_of(std::span<const TensorView> inputs) const {
  std::vector<int64_t> found(impl_->wanted.size());
  impl_->shapes.find_dims(inputs.first(std::min(inputs.size(), impl_->in.size())), found);
  return found;
}

std::span<const int64_t> Program::input_shape(size_t index) const { return impl_->shapes.input(index); }
std::span<const int64_t> Program::output_shape(size_t index) const { return impl_->shapes.output(index); }
std::span<const int64_t> Program::result_shape(size_t index) const {
  return impl_->measures ? impl_->results.output(index) : output_shape(index);
}
std::span<const std::byte> Program::arena() const {
  return {static_cast<const std::byte*>(impl_->arena.data()), impl_->table->arena_bytes};
}

void Program::record(std::span<BraidNodeTimes> times) {
  const size_t wanted = static_cast<size_t>(impl_->table->node_count) + 1;
  if (!times.empty() && times.size() != wanted) {
    throw ProgramError(kWrongInput, "times of " + std::to_string(times.size()) +
                                        " nodes, but the program has " + std::to_string(wanted - 1) +
                                        " and the end");
  }
  impl_->table->record(impl_->instance.get(), times.empty() ? nullptr : times.data());
}

void Program::run(std::span<const TensorView> inputs, std::span<const TensorView> outputs) {
  Impl& p = *impl_;
  if (inputs.size() != p.in.size() || outputs.size() != p.out.size()) {
    throw ProgramError(kWrongInput, std::string("program '") + p.table->name + "' has " +
                                        number(p.table->input_count) + " inputs and " +
                                        number(p.table->output_count) + " outputs; got " +
                                        number(static_cast<int64_t>(inputs.size())) + " and " +
                                        number(static_cast<int64_t>(outputs.size())));
  }
  p.shapes.find_dims(inputs, p.wanted);
  p.prepare(p.wanted);
  for (size_t k = 0; k < inputs.size(); ++k) {
    p.shapes.check_input(k, inputs[k]);
    p.in[k] = inputs[k].data;
  }
  for (size_t k = 0; k < outputs.size(); ++k) {
    const BraidTensorInfo& i = p.table->outputs[k];
    p.shapes.check_output(k, outputs[k]);
    if (i.alias_of_input >= 0 && outputs[k].data != p.in[static_cast<size_t>(i.alias_of_input)]) {
      throw ProgramError(kWrongInput, std::string("output '") + i.name + "' must be the memory of input '" +
                                          p.table->inputs[i.alias_of_input].name +
                                          "', which it was declared to be");
    }
    p.out[k] = outputs[k].data;
  }
  const BraidStatus status = p.table->run(p.instance.get(), p.in.data(), p.out.data());
  if (status != BRAID_OK) p.raise(status);
  if (!p.measures) return;
  const std::span<const int64_t> dims(p.table->dims_of_run(p.instance.get()), p.wanted.size());
  if (!p.results.are(dims)) p.results.set(dims, true);
}

WorldOptions world_options(const BraidProgram& table) {
  WorldOptions options;
  options.segment_bytes = table.comm_bytes;
  return options;
}

}  // namespace braid::rt
