// braid.compile and braid.load.
#include "frontend/signature.h"
#include "harness/interface.h"
#include "python/bindings.h"
#include "python/exchange.h"
#include "python/options.h"
#include "python/program.h"
#include "python/tensor.h"

namespace braid::python {

using namespace nanobind::literals;

namespace {

std::shared_ptr<Program> compile_program(const nb::dict& given) {
  const CompileOptions options = compile_options(given);
  const Unfinished unfinished(given);
  const nb::gil_scoped_release released;
  compile(options);
  return load_program(options.output_dir);
}

std::shared_ptr<Program> interpreted_program(const nb::dict& given) {
  const CompileOptions options = compile_options(given);
  const Unfinished unfinished(given);
  const nb::gil_scoped_release released;
  ir::Schedule schedule = lower(options);
  optimise(schedule, options);
  return std::make_shared<InterpretedProgram>(
      std::move(schedule), options.name.empty() ? program_name(options.model) : options.name);
}

// One step of all ranks of a program of the interpreter.
nb::list interpret(const std::shared_ptr<Program>& program, const std::vector<nb::dict>& inputs, bool copy) {
  const auto& interpreted = dynamic_cast<const InterpretedProgram&>(*program);
  std::vector<std::vector<ir::Tensor>> tensors;
  for (const nb::dict& rank : inputs) {
    tensors.emplace_back();
    for (const TensorInfo& info : program->inputs()) {
      Borrowed borrowed;
      borrowed.borrow(rank[info.name.c_str()], {.name = info.name, .dtype = info.dtype}, copy);
      tensors.back().push_back(to_ir(borrowed.view()));
    }
  }
  std::vector<std::vector<ir::Tensor>> results;
  {
    const nb::gil_scoped_release released;
    results = interpreted.run(tensors);
  }
  nb::list out;
  for (std::vector<ir::Tensor>& rank : results) {
    nb::dict named;
    for (std::size_t k = 0; k < rank.size(); ++k) {
      Tensor tensor = make_tensor(harness::to_runtime(rank[k].dtype), rank[k].sizes, program);
      if (!rank[k].bytes.empty()) std::memcpy(tensor.data.get(), rank[k].bytes.data(), rank[k].bytes.size());
      named[program->outputs()[k].name.c_str()] = nb::cast(std::move(tensor));
    }
    out.append(named);
  }
  return out;
}

nb::list signature_values(const std::vector<frontend::SignatureValue>& values) {
  nb::list list;
  for (const frontend::SignatureValue& v : values)
    list.append(nb::make_tuple(v.name, v.kind, v.element, nb::cast(v.dims)));
  return list;
}

}  // namespace

void bind_compile(nb::module_& module) {
  const auto max_bytes = [](const std::vector<TensorInfo>& tensors) {
    std::vector<std::int64_t> bytes;
    for (const TensorInfo& t : tensors) bytes.push_back(t.max_bytes);
    return bytes;
  };
  nb::class_<Program>(module, "Program")
      .def_prop_ro("manifest", &Program::manifest)
      .def("use_device", &Program::use_device, "device"_a, nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("input_bytes", [=](const Program& p) { return max_bytes(p.inputs()); })
      .def_prop_ro("output_bytes", [=](const Program& p) { return max_bytes(p.outputs()); });
  module.def("options", &option_rows);
  module.def("compile", &compile_program, "options"_a);
  module.def("compile_for_interpreter", &interpreted_program, "options"_a);
  module.def(
      "load",
      [](const std::string& folder) {
        const codegen::EndsCleanly unfinished;  // it may build the library
        return load_program(folder);
      },
      "folder"_a, nb::call_guard<nb::gil_scoped_release>());
  module.def("interpret", &interpret, "program"_a, "inputs"_a, "copy"_a);
  module.def(
      "signature",
      [](const std::string& path) {
        const frontend::Signature s = frontend::read_signature(path);
        return nb::make_tuple(signature_values(s.inputs), signature_values(s.outputs));
      },
      "path"_a);
}

}  // namespace braid::python
