# The compiler is one shared library: a plug-in then registers into the same tables as the program that loads it.
# ONNX lies inside, whole and exported, so that whoever links the compiler and wants to read or write models uses
# this one copy; a second one in the process would register its protobuf descriptors twice.
file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/empty.cc" CONTENT "")
add_library(braid_compiler SHARED "${CMAKE_BINARY_DIR}/empty.cc")
add_library(braid::compiler ALIAS braid_compiler)
target_include_directories(braid_compiler PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:include/braid>)
target_compile_features(braid_compiler PUBLIC cxx_std_20)
target_link_libraries(braid_compiler
  PUBLIC fmt::fmt nlohmann_json::nlohmann_json
  PRIVATE braid_options braid_ir braid_analysis braid_passes braid_solver braid_split braid_pipeline braid_frontend braid_codegen braid_driver braid_explain
          $<LINK_LIBRARY:WHOLE_ARCHIVE,ONNX::onnx> protobuf::libprotobuf ${CMAKE_DL_LIBS})
set_target_properties(braid_compiler PROPERTIES OUTPUT_NAME braid EXPORT_NAME compiler
                      BUILD_RPATH "$ORIGIN" INSTALL_RPATH "$ORIGIN"
                      VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
# Nothing replaces a function of the compiler, so that its own calls need not look for one.
target_link_options(braid_compiler PRIVATE -Wl,-Bsymbolic-functions)
# A missing function is an error here and not when a program starts. Sanitizer runtimes come with the program.
if(NOT BRAID_SANITIZE)
  target_link_options(braid_compiler PRIVATE -Wl,--no-undefined)
endif()
