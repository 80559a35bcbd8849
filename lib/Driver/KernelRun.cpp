// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compilation, and the arrays.

#include "lib/Driver/KernelRun.h"

#include "lib/Driver/Compiler.h"
#include "lib/Driver/ToolSupport.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/raw_ostream.h"

namespace tilewright {

struct KernelRun::Impl {
  Impl(const mlir::DialectRegistry &registry)
      : context(registry, mlir::MLIRContext::Threading::DISABLED),
        handler(&context, [this](mlir::Diagnostic &diagnostic) {
          if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error && message.empty()) {
            llvm::raw_string_ostream os(message);
            if (auto place = diagnostic.getLocation()->findInstanceOf<mlir::FileLineColLoc>())
              os << place.getFilename().getValue() << ':' << place.getLine() << ':'
                 << place.getColumn() << ": ";
            os << diagnostic;
          }
          return mlir::success();
        }) {}

  llvm::Error takeError(llvm::StringRef fallback) {
    std::string text = message.empty() ? fallback.str() : std::move(message);
    message.clear();
    return llvm::createStringError(llvm::inconvertibleErrorCode(), text);
  }

  llvm::Error allocate(llvm::StringRef name, ElementType type, llvm::ArrayRef<int64_t> shape) {
    llvm::Expected<HostArray> array = HostArray::create(type, shape);
    if (!array)
      return array.takeError();
    ArrayArgument argument;
    argument.type = type;
    argument.shape.assign(shape.begin(), shape.end());
    argument.strides.assign(array->getStrides().begin(), array->getStrides().end());
    argument.data = array->getData();
    arguments[name] = std::move(argument);
    arrays.try_emplace(name, std::move(*array));
    return llvm::Error::success();
  }

  mlir::MLIRContext context;
  std::string message; ///< the first error
  mlir::ScopedDiagnosticHandler handler;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  llvm::StringMap<HostArray> arrays;
  llvm::StringMap<Argument> arguments;
};

KernelRun::KernelRun(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
KernelRun::~KernelRun() = default;

llvm::Expected<std::unique_ptr<KernelRun>> KernelRun::create(const Request &request) {
  mlir::DialectRegistry registry;
  registerDialects(registry);
  auto impl = std::make_unique<Impl>(registry);
  impl->module = compileFile(impl->context, request.file, request.options);
  if (!impl->module)
    return impl->takeError("compilation failed; correct the errors above");
  for (const Array &array : request.arrays)
    if (llvm::Error error = impl->allocate(array.name, array.type, array.shape))
      return error;
  for (const auto &[name, value] : request.scalars)
    impl->arguments[name] = value;
  return std::unique_ptr<KernelRun>(new KernelRun(std::move(impl)));
}

void KernelRun::capture(llvm::StringRef name, double value) { impl->arguments[name] = value; }

llvm::Error KernelRun::capture(llvm::StringRef name, llvm::ArrayRef<int64_t> shape,
                               llvm::ArrayRef<double> values) {
  if (llvm::Error error = impl->allocate(name, ElementType::F32, shape))
    return error;
  write(name, values);
  return llvm::Error::success();
}

void KernelRun::write(llvm::StringRef name, llvm::ArrayRef<double> values) {
  HostArray &array = impl->arrays.find(name)->second;
  numeric::convertToMemory(Storage::F64, values.data(), array.getType(), array.getData(), 1,
                           values.size());
}

std::vector<double> KernelRun::read(llvm::StringRef name) const {
  const HostArray &array = impl->arrays.find(name)->second;
  std::vector<double> values(array.getNumElements());
  numeric::convertFromMemory(array.getType(), array.getData(), 1, Storage::F64, values.data(),
                             values.size());
  return values;
}

mlir::Operation *KernelRun::getEntry() const { return findEntry(*impl->module); }

const llvm::StringMap<Argument> &KernelRun::getArguments() const { return impl->arguments; }

llvm::Error KernelRun::takeError(llvm::StringRef fallback) { return impl->takeError(fallback); }

llvm::Expected<double> KernelRun::run(unsigned threads) {
  RunOptions options;
  options.threads = threads;
  mlir::LogicalResult result = mlir::failure();
  double seconds = timeOf([&] { result = runOnCpu(getEntry(), impl->arguments, options); });
  if (mlir::failed(result))
    return impl->takeError("the run failed");
  return seconds;
}

} // namespace tilewright
