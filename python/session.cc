// program.session(): runs steps of one rank in this process.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <atomic>

#include "ir/error.h"
#include "ir/error_numbers.h"
#include "python/bindings.h"
#include "python/exchange.h"
#include "python/program.h"
#include "python/result_pool.h"
#include "python/tensor.h"
#include "runtime/capacity.h"

namespace braid::python {

using namespace nanobind::literals;

namespace {

class Session {
 public:
  Session(std::shared_ptr<Program> program, const harness::SessionOptions& options)
      : program_(std::move(program)),
        inputs_(program_->inputs().size()),
        outputs_(program_->outputs().size()) {
    const auto describe = [](const char* role, const std::vector<TensorInfo>& tensors,
                             std::vector<Expected>& expected, std::vector<nb::str>& names) {
      for (const TensorInfo& t : tensors) {
        expected.push_back({role, t.name, t.dtype, t.written || *role == 'o', t.capacities});
        names.emplace_back(t.name.c_str());
      }
    };
    describe("input", program_->inputs(), expected_inputs_, input_names_);
    describe("output", program_->outputs(), expected_outputs_, output_names_);
    in_.resize(inputs_.size());
    out_.resize(outputs_.size());
    in_on_device_.resize(inputs_.size());
    out_on_device_.resize(outputs_.size());
    {
      const nb::gil_scoped_release released;
      session_ = program_->open(options);
    }
    for (auto* expected : {&expected_inputs_, &expected_outputs_}) {
      for (Expected& e : *expected) e.places = session_->places();
    }
  }

  nb::dict run(const nb::dict& inputs, const nb::object& out, bool copy) {
    const InUse use(*this);
    borrow_inputs(inputs, copy);
    nb::dict given;
    if (!out.is_none()) given = borrow_outputs(out);
    nb::dict results = result_tensors(inputs, given);
    {
      const nb::gil_scoped_release released;
      session_->run({in_, out_, in_on_device_, out_on_device_});
    }
    name_found_sizes(given, results);
    return results;
  }

  nb::dict output_shapes(const nb::dict& inputs) {
    const InUse use(*this);
    borrow_inputs(inputs, false);
    prepare();
    nb::dict shapes;
    for (std::size_t k = 0; k < outputs_.size(); ++k) {
      nb::list sizes;
      for (std::int64_t size : session_->output_shape(k)) sizes.append(size);
      shapes[output_names_[k]] = nb::tuple(sizes);
    }
    return shapes;
  }

  void close() {
    if (!session_) return;
    const InUse use(*this);
    const nb::gil_scoped_release released;
    session_.reset();
  }

  int rank() {
    const InUse use(*this);
    return session_->rank();
  }

 private:
  // One call at a time; when it ends, what was borrowed for it is given back.
  class InUse {
   public:
    explicit InUse(Session& session) : of_(session) {
      if (session.busy_.exchange(true)) {
        ir::user_error(errors::kInUse, {}, "the session is running a step in another thread",
                       "give each thread a session of its own");
      }
      if (!session.session_) {
        session.busy_ = false;
        ir::user_error(errors::kClosed, {}, "the session is closed", "call program.session() again");
      }
    }
    ~InUse() {
      for (Borrowed& b : of_.inputs_) b.release();
      for (Borrowed& b : of_.outputs_) b.release();
      of_.busy_ = false;
    }
    InUse(const InUse&) = delete;
    InUse& operator=(const InUse&) = delete;

   private:
    Session& of_;
  };

  static PyObject* item(const nb::dict& values, const nb::str& name) {
    PyObject* value = PyDict_GetItemWithError(values.ptr(), name.ptr());
    if (value == nullptr && PyErr_Occurred() != nullptr) throw nb::python_error();
    return value;
  }

  // Returns the text of a key of any type; surrogates are escaped.
  static std::string key_text(nb::handle key) {
    const nb::object bytes =
        nb::steal(PyUnicode_AsEncodedString(nb::str(key).ptr(), "utf-8", "backslashreplace"));
    if (!bytes.is_valid()) throw nb::python_error();
    return PyBytes_AsString(bytes.ptr());
  }

  [[noreturn]] static void wrong_names(const char* role, const nb::dict& given,
                                       const std::vector<Expected>& expected) {
    std::vector<std::string> names, missing, unknown;
    for (const Expected& e : expected) {
      names.push_back(e.name);
      if (!given.contains(e.name.c_str())) missing.push_back(e.name);
    }
    for (nb::handle key : given.keys()) {
      const std::string name = key_text(key);
      if (std::find(names.begin(), names.end(), name) == names.end()) unknown.push_back(name);
    }
    const std::string known = names.empty() ? fmt::format("the program has no {}s", role)
                                            : fmt::format("its {}s are {}", role, fmt::join(names, ", "));
    if (!unknown.empty())
      ir::user_error(errors::kMissingInput, {}, fmt::format("there is no {} '{}'", role, unknown.front()),
                     known);
    ir::user_error(errors::kMissingInput, {},
                   fmt::format("{} '{}' is missing", role, fmt::join(missing, "', '")), known);
  }

  void borrow_inputs(const nb::dict& inputs, bool copy) {
    for (std::size_t k = 0; k < inputs_.size(); ++k) {
      PyObject* value = item(inputs, input_names_[k]);
      if (value == nullptr) wrong_names("input", inputs, expected_inputs_);
      inputs_[k].borrow(value, expected_inputs_[k], copy);
      in_[k] = inputs_[k].view();
      in_on_device_[k] = inputs_[k].on_device() ? 1 : 0;
      if (inputs_[k].producer() != harness::kNoStream) session_->follow(inputs_[k].producer());
    }
    if (inputs.size() != inputs_.size()) wrong_names("input", inputs, expected_inputs_);
    for (std::size_t k = 0; k < inputs_.size(); ++k) {
      if (expected_inputs_[k].written) refuse_shared(k);
    }
  }

  static bool overlap(const Borrowed& a, const Borrowed& b) {
    const auto *mine = static_cast<const std::byte*>(a.view().data),
               *theirs = static_cast<const std::byte*>(b.view().data);
    return mine < theirs + b.reach() && theirs < mine + a.reach();
  }

  // A step writes this input before it has read all others.
  void refuse_shared(std::size_t k) const {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (i == k || !overlap(inputs_[k], inputs_[i])) continue;
      ir::user_error(errors::kNotPassable, {},
                     fmt::format("input '{}', which the program writes, shares memory with input '{}'",
                                 expected_inputs_[k].name, expected_inputs_[i].name),
                     "pass memory of its own for an input that is written");
    }
  }

  nb::dict borrow_outputs(const nb::object& out) {
    if (!nb::isinstance<nb::dict>(out))
      ir::user_error(errors::kNotATensor, {}, "out= is not a dictionary", "pass out={'name': array}");
    auto given = nb::borrow<nb::dict>(out);
    std::size_t found = 0;
    for (std::size_t k = 0; k < outputs_.size(); ++k) {
      PyObject* value = item(given, output_names_[k]);
      if (value == nullptr) continue;
      ++found;
      outputs_[k].borrow(value, expected_outputs_[k], false);
      refuse_overlap(k);
    }
    if (given.size() != found) wrong_names("output", given, expected_outputs_);
    return given;
  }

  // A step reads its inputs after it has begun to write its outputs.
  void refuse_overlap(std::size_t k) const {
    const int alias = program_->outputs()[k].alias_of_input;
    const auto overlaps = [&](const Borrowed& other) { return other.held() && overlap(outputs_[k], other); };
    const auto refuse = [&](const Expected& other) {
      ir::user_error(errors::kNotPassable, {},
                     fmt::format("output '{}' shares memory with {} '{}'", expected_outputs_[k].name,
                                 other.role, other.name),
                     "pass memory of its own for each output");
    };
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (static_cast<int>(i) != alias && overlaps(inputs_[i])) refuse(expected_inputs_[i]);
    }
    for (std::size_t j = 0; j < k; ++j) {
      if (overlaps(outputs_[j])) refuse(expected_outputs_[j]);
    }
  }

  // Fills out_, and returns the objects that stand for the outputs: the caller's, or new ones.
  nb::dict result_tensors(const nb::dict& inputs, const nb::dict& given) {
    nb::dict results;
    bool prepared = false;
    for (std::size_t k = 0; k < outputs_.size(); ++k) {
      const int alias = program_->outputs()[k].alias_of_input;
      nb::object result;
      if (outputs_[k].held()) {
        result = nb::borrow(item(given, output_names_[k]));
        out_[k] = outputs_[k].view();
        out_on_device_[k] = outputs_[k].on_device() ? 1 : 0;
      } else if (alias >= 0) {
        result = nb::borrow(item(inputs, input_names_[static_cast<std::size_t>(alias)]));
        out_[k] = in_[static_cast<std::size_t>(alias)];
        out_on_device_[k] = in_on_device_[static_cast<std::size_t>(alias)];
        if (!program_->outputs()[k].capacities.empty()) {
          if (!prepared) prepare();
          prepared = true;
          result = grown(k, static_cast<std::size_t>(alias), result);
        }
      } else {
        if (!prepared) prepare();
        prepared = true;
        const std::span<const std::int64_t> shape = session_->output_shape(k);
        Tensor tensor = make_output(program_->outputs()[k].dtype, {shape.begin(), shape.end()});
        out_on_device_[k] = tensor.device != nullptr ? 1 : 0;
        out_[k] = {tensor.data.get(), tensor.dtype, shape};
        result = nb::cast(std::move(tensor));
      }
      results[output_names_[k]] = result;
    }
    return results;
  }

  // Results of which the data have decided the sizes become the elements that there are. Their memory has
  // room for as many as there may be.
  void name_found_sizes(const nb::dict& given, nb::dict& results) {
    for (std::size_t k = 0; k < outputs_.size(); ++k) {
      const std::span<const std::int64_t> shape = session_->result_shape(k);
      if (std::ranges::equal(shape, out_[k].shape)) continue;
      if (given.contains(output_names_[k])) {
        out_[k].shape = shape;
        results[output_names_[k]] =
            part_of(nb::borrow(item(given, output_names_[k])), out_[k], out_on_device_[k]);
      } else {
        nb::cast<Tensor&>(results[output_names_[k]]).shape.assign(shape.begin(), shape.end());
      }
    }
  }

  // A tensor in the memory of an object, which it keeps.
  nb::object part_of(const nb::object& object, const rt::TensorView& view, bool on_device,
                     std::vector<std::int64_t> strides = {}) {
    Py_INCREF(object.ptr());
    Tensor tensor{std::shared_ptr<void>(view.data,
                                        [held = object.ptr()](void*) {
                                          const nb::gil_scoped_acquire locked;
                                          Py_DECREF(held);
                                        }),
                  {view.shape.begin(), view.shape.end()},
                  view.dtype};
    tensor.strides = std::move(strides);
    if (on_device) tensor.device = session_->device();
    return nb::cast(std::move(tensor));
  }

  // The elements of an output that has grown in the memory of an input, as a tensor that keeps that object.
  nb::object grown(std::size_t k, std::size_t alias, const nb::object& input) {
    const std::span<const std::int64_t> shape = session_->output_shape(k);
    const rt::TensorView& from = in_[alias];
    if (!shape.empty() && !from.shape.empty() && shape[0] > from.shape[0]) {
      ir::user_error(
          errors::kNotPassable, {},
          fmt::format("output '{}' has {} elements along its first axis, but the array that input '{}' "
                      "is has {}",
                      expected_outputs_[k].name, shape[0], expected_inputs_[alias].name, from.shape[0]),
          "pass out={'name': array} with the same memory and the output's shape");
    }
    out_[k].shape = shape;
    return part_of(input, {from.data, from.dtype, shape}, in_on_device_[alias] != 0,
                   rt::strides_of(program_->outputs()[k].capacities));
  }

  // Memory for an output, which keeps the program.
  Tensor make_output(rt::DType dtype, std::vector<std::int64_t> shape) const {
    if (session_->places().host) {
      Tensor tensor{nullptr, std::move(shape), dtype};
      tensor.data = results_->allocate(tensor.bytes(), program_);
      return tensor;
    }
    return make_device_tensor(dtype, std::move(shape), session_->device(), program_);
  }

  void prepare() {
    const nb::gil_scoped_release released;
    session_->prepare(in_);
  }

  std::shared_ptr<Program> program_;
  std::unique_ptr<harness::Session> session_;
  std::shared_ptr<ResultPool> results_ = ResultPool::make();
  std::atomic<bool> busy_ = false;
  std::vector<Expected> expected_inputs_, expected_outputs_;
  std::vector<nb::str> input_names_, output_names_;
  std::vector<Borrowed> inputs_, outputs_;
  std::vector<rt::TensorView> in_, out_;
  std::vector<std::uint8_t> in_on_device_, out_on_device_;
};

std::int64_t stream_number(nb::handle stream) {
  if (stream.is_none()) return harness::kNoStream;
  // PyTorch's streams have it so, CuPy's so.
  nb::object value = nb::borrow(stream);
  for (const char* member : {"cuda_stream", "ptr"}) {
    if (!nb::hasattr(stream, member)) continue;
    value = stream.attr(member);
    break;
  }
  std::int64_t number = harness::kNoStream;
  if (nb::isinstance<nb::bool_>(value) || !nb::isinstance<nb::int_>(value) || !nb::try_cast(value, number) ||
      number < 0) {
    ir::user_error(
        errors::kWrongStream, {}, fmt::format("stream={} is not a CUDA stream", nb::repr(stream).c_str()),
        "pass a number, such as torch.cuda.current_stream().cuda_stream, or an object that has it");
  }
  return number;
}

}  // namespace

void bind_session(nb::module_& module) {
  nb::class_<Session>(module, "Session",
                      "One rank of a program in this process, made by program.session(). A context manager.\n"
                      "One thread may use it at a time; the interpreter lock is released while a step runs.")
      .def(
          "run", &Session::run, "inputs"_a, nb::kw_only(), "out"_a = nb::none(), "copy"_a = false,
          nb::sig("def run(self, inputs: dict[str, typing.Any], *, out: dict[str, typing.Any] | None = None, "
                  "copy: bool = False) -> dict[str, typing.Any]"),
          "Runs one step and returns the outputs by name.\n\n"
          "inputs: tensors by name: anything with the buffer protocol or __dlpack__, dense and row-major, of "
          "the\n"
          "program's types. One with TensorSpec.capacities is a slice, from 0 along every axis, of an array "
          "of that "
          "shape. Inputs that the program writes (TensorSpec.written) have other contents "
          "afterwards.\n"
          "out: memory for outputs, by name; the returned dictionary holds these objects. Outputs without "
          "are new\n"
          "Tensors. An output that is declared to be an input's memory is that input, or, with other sizes, "
          "a "
          "Tensor in its memory.\n"
          "copy: copy and convert inputs that cannot be passed as they are, instead of raising an Error.\n\n"
          "On a GPU tensors are on the session's device. With a stream of the caller the step is only "
          "enqueued there, and\n"
          "inputs must live until it is done; without, it is done when this returns.\n\n"
          "Errors: BR0006 names, BR0723 type or shape, BR0724 a size out of bounds, BR0730 no tensor, BR0731 "
          "a\n"
          "tensor that would have to be copied, BR0732 another thread runs a step, BR0733 closed, BR0725 and "
          "BR0726 the\n"
          "step failed.")
      .def("output_shapes", &Session::output_shapes, "inputs"_a,
           nb::sig("def output_shapes(self, inputs: dict[str, typing.Any]) -> dict[str, tuple[int, ...]]"),
           "The shapes that the outputs of a step with these inputs will have, by name. Errors: as of run().")
      .def("close", &Session::close, "Ends the session and frees its memory; tensors that it returned stay.")
      .def_prop_ro("rank", &Session::rank, "The rank of this process, from 0.")
      .def(
          "__enter__", [](nb::handle self) { return nb::borrow(self); },
          nb::sig("def __enter__(self) -> Session"))
      .def(
          "__exit__", [](Session& self, nb::args) { self.close(); },
          nb::sig("def __exit__(self, *exception: object) -> None"));
  module.def(
      "open_session",
      [](std::shared_ptr<Program> program, int threads, std::string device, nb::handle stream, bool host) {
        return new Session(
            std::move(program),
            {.threads = threads, .device = std::move(device), .stream = stream_number(stream), .host = host});
      },
      "program"_a, "threads"_a, "device"_a = "", "stream"_a = nb::none(), "host"_a = false,
      nb::rv_policy::take_ownership);
  module.def("default_device", &default_device, nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace braid::python
