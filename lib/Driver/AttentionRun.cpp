// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiling and running the shipped attention kernels.

#include "lib/Driver/AttentionRun.h"

#include "lib/Driver/Compiler.h"
#include "lib/Driver/ToolSupport.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>

namespace tilewright {

int64_t AttentionConfig::countPairs() const {
  int64_t shift = causal == "bottom_right" ? Skv - Sq : 0;
  int64_t pairs = 0;
  for (int64_t i = 0; i < Sq; ++i) {
    int64_t first = 0, last = Skv - 1;
    if (causal != "none")
      last = std::min(last, i + shift);
    if (windowLeft >= 0)
      first = std::max(first, i + shift - windowLeft);
    if (windowRight >= 0)
      last = std::min(last, i + shift + windowRight);
    pairs += std::max<int64_t>(last - first + 1, 0);
  }
  return pairs * B * Hq;
}

double AttentionConfig::countFlops() const {
  int64_t width = backward ? 3 * D + 2 * DV : D + DV;
  return 2.0 * countPairs() * width;
}

struct AttentionRun::Impl {
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

AttentionRun::AttentionRun(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
AttentionRun::~AttentionRun() = default;

llvm::Expected<std::unique_ptr<AttentionRun>> AttentionRun::create(llvm::StringRef kernelsFolder,
                                                                   const AttentionConfig &config) {
  mlir::DialectRegistry registry;
  registerDialects(registry);
  auto impl = std::make_unique<Impl>(registry);

  auto inFolder = [&](llvm::StringRef file) {
    llvm::SmallString<128> path = kernelsFolder;
    llvm::sys::path::append(path, file);
    return path.str().str();
  };
  TilePipelineOptions options;
  options.entry = config.backward ? "attention_backward" : "attention_forward";
  for (const std::string &file : config.with)
    options.with.push_back(inFolder(file));
  options.params = {{"D", std::to_string(config.D)},
                    {"DV", std::to_string(config.DV)},
                    {"T", std::string(elementTypeName(config.type))},
                    {"CAUSAL", config.causal},
                    {"WINDOW", config.hasWindow() ? "true" : "false"}};
  options.params.insert(options.params.end(), config.params.begin(), config.params.end());
  impl->module = compileFile(impl->context, inFolder(options.entry + ".mlir"), options);
  if (!impl->module)
    return impl->takeError("compilation failed");

  const AttentionConfig &c = config;
  int64_t q[] = {c.B, c.Hq, c.Sq, c.D}, o[] = {c.B, c.Hq, c.Sq, c.DV};
  int64_t k[] = {c.B, c.Hkv, c.Skv, c.D}, v[] = {c.B, c.Hkv, c.Skv, c.DV};
  llvm::ArrayRef<int64_t> row = llvm::ArrayRef(q).take_front(3);
  ElementType rowType = c.type == ElementType::F64 ? ElementType::F64 : ElementType::F32;
  struct Declaration {
    llvm::StringRef name;
    llvm::ArrayRef<int64_t> shape;
    ElementType type;
  };
  std::vector<Declaration> declarations = {{"q", q, c.type},
                                           {"k", k, c.type},
                                           {"v", v, c.type},
                                           {"o", o, c.type},
                                           {"lse", row, rowType}};
  if (config.backward)
    declarations.insert(declarations.end(), {{"do", o, c.type},
                                             {"dlse", row, rowType},
                                             {"dq", q, c.type},
                                             {"dk", k, c.type},
                                             {"dv", v, c.type}});
  for (const Declaration &declaration : declarations)
    if (llvm::Error error = impl->allocate(declaration.name, declaration.type, declaration.shape))
      return error;
  impl->arguments["scale"] = config.scale;
  impl->arguments["window_left"] = config.windowLeft;
  impl->arguments["window_right"] = config.windowRight;
  return std::unique_ptr<AttentionRun>(new AttentionRun(std::move(impl)));
}

void AttentionRun::capture(llvm::StringRef name, double value) { impl->arguments[name] = value; }

llvm::Error AttentionRun::capture(llvm::StringRef name, llvm::ArrayRef<int64_t> shape,
                                  llvm::ArrayRef<double> values) {
  if (llvm::Error error = impl->allocate(name, ElementType::F32, shape))
    return error;
  write(name, values);
  return llvm::Error::success();
}

void AttentionRun::write(llvm::StringRef name, llvm::ArrayRef<double> values) {
  HostArray &array = impl->arrays.find(name)->second;
  numeric::convertToMemory(Storage::F64, values.data(), array.getType(), array.getData(), 1,
                           values.size());
}

std::vector<double> AttentionRun::read(llvm::StringRef name) const {
  const HostArray &array = impl->arrays.find(name)->second;
  std::vector<double> values(array.getNumElements());
  numeric::convertFromMemory(array.getType(), array.getData(), 1, Storage::F64, values.data(),
                             values.size());
  return values;
}

llvm::Expected<double> AttentionRun::run(unsigned threads) {
  RunOptions options;
  options.threads = threads;
  mlir::Operation *entry = findEntry(*impl->module);
  mlir::LogicalResult result = mlir::failure();
  double seconds = timeOf([&] { result = runOnCpu(entry, impl->arguments, options); });
  if (mlir::failed(result))
    return impl->takeError("the run failed");
  return seconds;
}

} // namespace tilewright
