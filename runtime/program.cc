#include "runtime/program.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "runtime/library_file.h"
#include "runtime/mapped_file.h"

namespace braid::rt {
namespace {

std::string number(int64_t v) { return std::to_string(v); }

std::string shape_text(std::span<const int64_t> shape) {
  std::string text = "[";
  for (size_t k = 0; k < shape.size(); ++k) text += (k ? "," : "") + number(shape[k]);
  return text + "]";
}

// Zero pages that take no memory until they are touched: steps with smaller sizes use only a part of the plan.
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

ProgramError::ProgramError(int code, const std::string& message)
    : std::runtime_error("error BR0" + std::to_string(code) + ": " + message), code_(code) {}

struct Program::Impl {
  const BraidProgram* table = nullptr;
  MappedFile weights, rank_weights;
  Arena arena;
  std::unique_ptr<BraidInstance, DestroyInstance> instance;
  bool prepared = false;
  std::vector<int64_t> dims, wanted;  // wanted: buffer of dims_of in run
  std::vector<int64_t> sizes;         // of all inputs, then all outputs
  std::vector<std::span<const int64_t>> shapes;
  std::vector<const void*> in;
  std::vector<void*> out;

  [[noreturn]] void raise(BraidStatus status) const {
    const int code = status == BRAID_COMM_ERROR ? kCommFailed
                     : status == BRAID_BAD_SIZE ? kWrongSize
                                                : kStepFailed;
    throw ProgramError(code,
                       std::string("program '") + table->name + "': " + table->last_error(instance.get()));
  }

  void lay_out_shapes() {
    const int tensors = table->input_count + table->output_count;
    size_t total = 0;
    for (int k = 0; k < tensors; ++k) total += static_cast<size_t>(info(k).rank);
    sizes.resize(total);
    size_t at = 0;
    for (int k = 0; k < tensors; ++k) {
      shapes.emplace_back(sizes.data() + at, static_cast<size_t>(info(k).rank));
      at += static_cast<size_t>(info(k).rank);
    }
  }
  const BraidTensorInfo& info(int k) const {
    return k < table->input_count ? table->inputs[k] : table->outputs[k - table->input_count];
  }

  void prepare(std::span<const int64_t> values) {
    if (values.size() != dims.size()) {
      throw ProgramError(kWrongSize, std::string("program '") + table->name + "' has " +
                                         number(static_cast<int64_t>(dims.size())) + " dimensions, " +
                                         number(static_cast<int64_t>(values.size())) + " were given");
    }
    if (prepared && std::equal(values.begin(), values.end(), dims.begin())) return;
    const BraidStatus status = table->prepare(instance.get(), values.data());
    if (status != BRAID_OK) raise(status);
    std::copy(values.begin(), values.end(), dims.begin());
    table->sizes(dims.data(), sizes.data());
    prepared = true;
  }

  void find_dims(std::span<const TensorView> inputs, std::vector<int64_t>& found) const {
    for (size_t k = 0; k < found.size(); ++k) found[k] = -1;
    for (size_t t = 0; t < inputs.size(); ++t) {
      const BraidTensorInfo& i = table->inputs[t];
      if (static_cast<size_t>(i.rank) != inputs[t].shape.size()) continue;  // reported below
      for (int d = 0; d < i.rank; ++d) {
        if (i.sizes[d].dim < 0) continue;
        int64_t& value = found[static_cast<size_t>(i.sizes[d].dim)];
        if (value < 0) value = inputs[t].shape[static_cast<size_t>(d)];
      }
    }
    for (size_t k = 0; k < found.size(); ++k) {
      if (found[k] < 0) found[k] = prepared ? dims[k] : table->dims[k].min;
    }
  }

  void check(const char* what, const BraidTensorInfo& i, const TensorView& t,
             std::span<const int64_t> want) const {
    const auto name = [&] {
      return std::string("program '") + table->name + "': " + what + " '" + i.name + "' ";
    };
    if (static_cast<BraidDType>(t.dtype) != i.dtype) {
      throw ProgramError(kWrongInput, name() + "is " + to_string(t.dtype) + ", expected " +
                                          to_string(static_cast<DType>(i.dtype)));
    }
    if (!std::equal(t.shape.begin(), t.shape.end(), want.begin(), want.end())) {
      throw ProgramError(kWrongInput,
                         name() + "has shape " + shape_text(t.shape) + ", expected " + shape_text(want));
    }
    if (t.data == nullptr && std::find(want.begin(), want.end(), 0) == want.end())
      throw ProgramError(kWrongInput, name() + "has no data");
    if (reinterpret_cast<uintptr_t>(t.data) % size_of(t.dtype) != 0)
      throw ProgramError(kWrongInput, name() + "is not aligned to its type");
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
  auto impl = std::make_unique<Impl>();
  impl->table = table;
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
  impl->dims.assign(static_cast<size_t>(table->dim_count), 0);
  impl->wanted = impl->dims;
  impl->in.resize(static_cast<size_t>(table->input_count));
  impl->out.resize(static_cast<size_t>(table->output_count));
  impl->lay_out_shapes();
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
  void* before = nullptr;
  // The dynamic linker answers a path under which it has loaded a library with that one, even if the file is another one by
  // now: the model has been compiled again. Written in another way, it looks at the file.
  for (std::string spelling = path;; spelling = spelling.substr(0, spelling.rfind('/') + 1) + "./" + file) {
    void* handle = ::dlopen(spelling.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) throw ProgramError(kCannotOpen, ::dlerror());
    const auto function = reinterpret_cast<BraidProgramFunction>(::dlsym(handle, symbol.c_str()));
    if (!function) throw ProgramError(kCannotOpen, library + " has no function " + symbol);
    const BraidProgram* table = function();
    if (compilation_id == 0 || table->compilation_id == compilation_id) return table;
    if (handle == before)
      throw ProgramError(kCannotOpen, library + " contains another program than its manifest says");
    before = handle;
  }
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
  std::vector<int64_t> found(impl_->dims.size());
  impl_->find_dims(inputs.first(std::min(inputs.size(), impl_->in.size())), found);
  return found;
}

std::span<const int64_t> Program::input_shape(size_t index) const { return impl_->shapes.at(index); }
std::span<const int64_t> Program::output_shape(size_t index) const {
  return impl_->shapes.at(impl_->in.size() + index);
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
  p.find_dims(inputs, p.wanted);
  p.prepare(p.wanted);
  for (size_t k = 0; k < inputs.size(); ++k) {
    p.check("input", p.table->inputs[k], inputs[k], p.shapes[k]);
    p.in[k] = inputs[k].data;
  }
  for (size_t k = 0; k < outputs.size(); ++k) {
    const BraidTensorInfo& i = p.table->outputs[k];
    p.check("output", i, outputs[k], p.shapes[inputs.size() + k]);
    if (i.alias_of_input >= 0 && outputs[k].data != p.in[static_cast<size_t>(i.alias_of_input)]) {
      throw ProgramError(kWrongInput, std::string("output '") + i.name + "' must be the memory of input '" +
                                          p.table->inputs[i.alias_of_input].name +
                                          "', which it was declared to be");
    }
    p.out[k] = outputs[k].data;
  }
  const BraidStatus status = p.table->run(p.instance.get(), p.in.data(), p.out.data());
  if (status != BRAID_OK) p.raise(status);
}

WorldOptions world_options(const BraidProgram& table) {
  WorldOptions options;
  options.segment_bytes = table.comm_bytes;
  return options;
}

}  // namespace braid::rt
